"""Delete the checkpoints that no rule keeps, each journaled before it goes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from supervisor import clock
from supervisor.core.messages import Retain, Retained
from supervisor.core.retention import Fate, Held, Marks, Retention, judge
from supervisor.errors import StepkeeperError
from supervisor.perform.output import say
from supervisor.perform.parts import Parts
from supervisor.process.signals import held_from_threads
from supervisor.sidecars import archive
from supervisor.sidecars.checkpoints import marks
from supervisor.sidecars.checkpoints.holdings import delete, finish_deletions, holdings
from supervisor.sidecars.checkpoints.presence import measure, sealed_path

_PATIENCE_SECONDS = 30.0


def survey(
    run: Path, rules: Retention, latest: Retain, *, more: tuple[Held, ...] = ()
) -> tuple[Fate, ...]:
    """The fate of every checkpoint that is there, and of ``more``. Raises OSError, RefusedError.

    ``latest`` says of which attempt, and what of the run's history must stay.
    """
    folder = run / "checkpoints"
    pins = frozenset(marks.pins(folder))
    pivots = archive.pinned_seals(run)
    kept = Marks(pins, pivots, latest.attempt, latest.resume, latest.suspected)
    return judge((*holdings(folder), *more), rules, kept)


def retain(parts: Parts, effect: Retain) -> Retained:
    """Delete what goes. One that cannot be deleted is an alarm and no more.

    Raises OSError, RefusedError where it cannot be told what goes.
    """
    rules = parts.config.settings.retention
    fates = survey(parts.run, rules, effect)
    going = [fate for fate in fates if fate.goes]
    _journal(parts, going)
    deleted = [fate.held for fate in going if _delete(parts, fate.held)]
    return Retained(tuple(held.seal for held in deleted if held.seal))


def _journal(parts: Parts, going: list[Fate]) -> None:
    """Before they go, so that no checkpoint is ever gone without a line.

    After a crash in between, the next seal deletes them. On a full disk the journal owes the lines
    until this very deletion has made room.
    """
    for fate in going:
        held = fate.held
        facts = {"step": held.step, "name": held.name, "bytes": held.bytes, "rule": fate.why}
        with contextlib.suppress(OSError):
            parts.events.append("checkpoint-deleted", facts, clock.wall(), once=True)
    if going:
        with contextlib.suppress(OSError):
            parts.events.sync()


def _delete(parts: Parts, held: Held) -> bool:
    try:
        free = delete(parts.checkpoints, held, parts.config.shard_roots)
    except OSError as error:
        say(f"cannot delete {held.name}: {error.strerror or error}; it stays", alarm=True)
        return False
    if free is not None:
        _beside(parts, free)
    return True


def go_on_deleting(parts: Parts) -> None:
    """Complete what the death of an earlier supervisor cut short. Raises OSError."""
    for free in finish_deletions(parts.checkpoints, parts.config.shard_roots):
        _beside(parts, free)


def wait_for_deletions(parts: Parts) -> None:
    """Before the process ends: nobody may begin again, and go on with what is left."""
    until = clock.monotonic() + _PATIENCE_SECONDS
    for thread in parts.deletions:
        thread.join(max(0.0, until - clock.monotonic()))


def _beside(parts: Parts, free: Callable[[], None]) -> None:
    """Beside the writer thread, which has the ledger's lines to write in the meantime."""

    def work() -> None:
        try:
            free()
        except OSError as error:
            text = f"cannot free all that was deleted: {error.filename}: {error.strerror}"
            say(f"{text}; it is tried again at the next start", alarm=True)

    with held_from_threads():
        thread = Thread(target=work, name="deletion", daemon=True)
        thread.start()
    parts.deletions[:] = [one for one in parts.deletions if one.is_alive()] + [thread]


def refuse_to_pin(run: Path, step: int) -> None:
    """Raise StepkeeperError for a step whose sealed checkpoint is not there."""
    sealed = sealed_path(run / "checkpoints", step)
    if sealed is None:
        raise StepkeeperError(
            f"cannot pin step {step}: it has no sealed checkpoint; see stepkeeper checkpoints"
        )
    if measure(sealed) is None:
        raise StepkeeperError(
            f"cannot pin step {step}: its {sealed.name} was deleted; only its seal is left"
        )


def refuse_to_unpin(run: Path, step: int) -> None:
    """Raise StepkeeperError for a step that is not pinned."""
    if step not in marks.pins(run / "checkpoints"):
        raise StepkeeperError(f"cannot unpin step {step}: it is not pinned")
