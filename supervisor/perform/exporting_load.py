"""Load a bundle once, where it lies, by the run's own trainer command, and end that life.

It lives in a scratch run directory of its own, with what else the run's directory holds linked
into it, so a command that names files of the run finds them, and whatever the trainer writes goes.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from supervisor import clock
from supervisor.config import Config, load
from supervisor.core.hang import set_budget
from supervisor.core.messages import BadReport, ReportsPosition
from supervisor.errors import StepkeeperError
from supervisor.perform.exporting import FOLDER, Origin, Tell, others
from supervisor.perform.spawning import last_words
from supervisor.process.child import Child, spawn
from supervisor.process.leftovers import end_leftovers
from supervisor.process.locks import take
from supervisor.process.reports import Follower
from supervisor.sidecars import attempts
from trainer.contract.durable import replace_file
from trainer.contract.wire import Doing, Orders, Ready, Report, format_orders

SCRATCH: Final = "loading"
_HOLD: Final = "this life only shows that its checkpoint can be loaded"
_POLL: Final = 0.02


class Loaded(NamedTuple):
    """What the trainer reported, its command, and the seconds from its start to that report."""

    ready: Ready
    command: tuple[str, ...]
    seconds: float


def refuse_foreign_command(run: Path) -> None:
    """Raise StepkeeperError where the run is another user's: its command is not ours to start."""
    owner, uid = run.stat().st_uid, os.geteuid()
    if owner != uid:
        raise StepkeeperError(
            f"cannot load the bundle of {run}: its trainer is uid {owner}'s to start, not uid "
            f"{uid}'s; be that user, or add --no-load"
        )


def load_once(source: Origin, place: Path, n_params: int, tell: Tell) -> Loaded:
    """Start the trainer on the bundle in ``place``, wait until it is ready, end it.

    Raises StepkeeperError where it is not ready at the checkpoint's step with ``n_params``
    parameters, or changed a file of the bundle; OSError.
    """
    before = _stamps(place)
    scratch = place / SCRATCH
    scratch.mkdir(mode=0o750)
    try:
        loaded = _load(source, place, scratch, tell)
    finally:
        end_leftovers(scratch)
        shutil.rmtree(scratch)
    wanted, found = (source.seal.step, n_params), (loaded.ready.step, loaded.ready.n_params)
    if found != wanted:
        raise _failed(
            f"the trainer was ready after step {found[0]} with {found[1]} parameters, not after "
            f"step {wanted[0]} with {wanted[1]}"
        )
    changed = sorted(name for name, stamp in _stamps(place).items() if before.get(name) != stamp)
    if changed:
        raise _failed(f"the trainer changed {', '.join(changed)}")
    return loaded


def _failed(why: str) -> StepkeeperError:
    return StepkeeperError(
        f"cannot vouch for the bundle: {why}; nothing is left of it (--no-load makes one without "
        "evidence)"
    )


def _stamps(place: Path) -> dict[str, tuple[int, int, int]]:
    """What tells that a file was written, of every file of the bundle."""
    files = {str(p.relative_to(place)): p.stat() for p in place.rglob("*") if p.is_file()}
    return {name: (f.st_ino, f.st_size, f.st_mtime_ns) for name, f in files.items()}


def _load(source: Origin, place: Path, scratch: Path, tell: Tell) -> Loaded:
    for path in others(source.run):
        (scratch / path.name).symlink_to(path)
    (scratch / FOLDER).mkdir()
    config = load(scratch, (place / "run.toml").read_bytes())
    attempt = source.seal.attempt + 1
    home = attempts.folder(scratch, attempt)
    home.mkdir(parents=True)
    replace_file(scratch / "orders.json", format_orders(Orders(1, (), None, _HOLD)))
    executable = shutil.which(config.command[0], path=config.env.get("PATH"))
    if executable is None:
        raise _failed(f"{config.command[0]} is not a program")
    token = secrets.token_hex(16)
    environment = {
        **config.env,
        "STEPKEEPER_RUN": str(scratch),
        "STEPKEEPER_ATTEMPT": str(attempt),
        "STEPKEEPER_REPORTS": str(home / "reports.jsonl"),
        "STEPKEEPER_ORDERS": str(scratch / "orders.json"),
        "STEPKEEPER_RESUME": str(place / FOLDER / source.seal.bin.name),
        "STEPKEEPER_SETTINGS": str(place / "run.toml"),
        "STEPKEEPER_COMPANION": "" if source.seal.companion else "none",
        "STEPKEEPER_TOKEN": token,
    }
    command = (executable, *config.command[1:])
    lock = take(scratch / "trainer.lock")
    began = clock.monotonic()
    try:
        child = spawn(command, scratch, environment, home / "output.log", lock, token)
    finally:
        os.close(lock)
    try:
        ready = _until_ready(config, child, scratch, attempt, tell)
        return Loaded(ready, config.command, clock.monotonic() - began)
    finally:
        child.send("KILL")
        while not child.gone():
            clock.pause(_POLL)
        child.status()
        child.close()


def _until_ready(config: Config, child: Child, scratch: Path, attempt: int, tell: Tell) -> Ready:
    """Follow its reports; each kind of work has its budget of silence, as in a run."""
    reports = attempts.folder(scratch, attempt) / "reports.jsonl"
    follower = Follower(reports, ReportsPosition(attempt, 0, 0))
    hang = config.settings.hang
    doing, since = "import", clock.monotonic()
    try:
        while True:
            gone = child.gone()  # asked first: what it reported before its end is still to be read
            for report in _reports(follower):
                since = clock.monotonic()
                if isinstance(report, Ready):
                    return report
                doing = report.what if isinstance(report, Doing) else doing
            if gone and follower.exhausted:
                raise _failed(
                    _with_words("the trainer ended before it was ready", scratch, attempt)
                )
            budget = set_budget(hang, doing) if hang.enabled else None
            if budget is not None and clock.monotonic() - since > budget.seconds:
                why = f"the trainer reported nothing for {budget.seconds:g} s, doing {doing}"
                raise _failed(_with_words(why, scratch, attempt))
            tell(f"loading it once, the trainer does: {doing}", 1, 1)
            clock.pause(_POLL)
    finally:
        follower.close()


def _reports(follower: Follower) -> Iterator[Report]:
    for event in follower.poll():
        if isinstance(event, BadReport):
            raise _failed(event.problem)
        yield from event.reports


def _with_words(why: str, scratch: Path, attempt: int) -> str:
    words = last_words(scratch, attempt)
    return f"{why}; it printed last: {words}" if words else why
