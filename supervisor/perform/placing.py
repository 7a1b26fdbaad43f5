"""Whether a run may be kept here: on locks that hold, where it was last kept or said to be moved.

Two directories with one history must not both grow, so a directory that came from another machine
is refused until the operator says that it was moved, and a copy beside its original always.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from supervisor import clock
from supervisor.errors import RefusedError
from supervisor.perform.output import say
from supervisor.process.machine import directory, host, machine_id
from supervisor.sidecars import place
from supervisor.sidecars.events import Events, created
from supervisor.sidecars.place import PlaceModel


def refuse_elsewhere(run: Path, *, moved: bool) -> None:
    """Raise RefusedError for a run that was last kept elsewhere, or is a copy of one that is.

    A directory that was renamed on its machine, or put back in its place, is kept on with.
    """
    last = place.read(run)
    if last is None:
        return
    here = machine_id()
    typed = shlex.quote(str(run))
    if last.machine and here and last.machine != here:
        if moved:
            return
        raise RefusedError(
            f"cannot keep {run}: it was last kept on another machine ({last.host}, as "
            f"{last.path}); if it was moved and is kept nowhere else: stepkeeper run {typed} "
            f"--moved; if this is a copy: stepkeeper fork {typed} NEW"
        )
    original = Path(last.path)
    if original != run and _is_kept_at(original, run, last.run):
        raise RefusedError(
            f"cannot keep {run}: it is a copy of {original}, which is there as well, and one run "
            f"has one directory; make it a run of its own: stepkeeper fork {typed} NEW; or remove "
            "the other one"
        )


def _is_kept_at(original: Path, run: Path, run_id: str) -> bool:
    """Whether another directory than this one stands there with the same run in it."""
    try:
        if directory(original) == directory(run):
            return False
        first = created(original / "events.jsonl")
    except OSError:  # nothing is there any more
        return False
    return first is not None and first.facts.get("run") == run_id


def settle(run: Path, run_id: str, events: Events) -> None:
    """Note durably that the run is kept here; where that is news, journal and say it.

    Raises OSError.
    """
    last = place.read(run)
    device, inode = directory(run)
    now = PlaceModel(
        run=run_id,
        machine=machine_id(),
        host=host(),
        path=str(run),
        device=device,
        inode=inode,
        time=clock.wall(),
    )
    news = _news(last, now) if last is not None else ""
    if last is not None and news:
        facts = {"from": {"host": last.host, "path": last.path}, "why": news}
        facts["to"] = {"host": now.host, "path": now.path}
        events.append("moved", facts, clock.wall())
        events.sync()
        say(news)
    if last is None or last.model_copy(update={"time": now.time}) != now:
        place.write(run, now)


def _news(last: PlaceModel, now: PlaceModel) -> str:
    if last.machine and now.machine and last.machine != now.machine:
        return f"moved here from {last.host}, where it was {last.path}"
    if last.path != now.path:
        return f"moved here from {last.path}"
    if last.inode != now.inode:
        return "this directory is another one than was last kept under its name"
    return ""
