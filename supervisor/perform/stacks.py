"""Record where a hung trainer stands, in the attempt's folder, before it is ended.

Everything here is bounded to a few seconds: the writer thread has other work as well.
"""

from __future__ import annotations

import signal
from pathlib import Path

from supervisor import clock
from supervisor.core.messages import RecordStacks, StacksRecorded
from supervisor.perform.output import say
from supervisor.perform.parts import Parts
from supervisor.process import stacks
from supervisor.process.child import Child
from supervisor.sidecars import attempts

ANSWER_SECONDS = 2.0
PY_SPY_SECONDS = 4.0
_LOOK_AGAIN = 0.05
_SETTLED = 0.2


def record(parts: Parts, effect: RecordStacks) -> StacksRecorded:
    """Its own words first, by SIGQUIT where it has a handler; py-spy's where that is installed."""
    child, folder = parts.child, attempts.folder(parts.run, effect.attempt)
    if child is None or child.gone():
        return StacksRecorded(effect.attempt, "")
    found = []
    if _told_by_itself(child, folder / "output.log"):
        found.append("output.log")
    program = stacks.py_spy()
    if program is not None:
        try:
            text = stacks.dump(program, child.pid, PY_SPY_SECONDS)
            with (folder / "stacks.txt").open("ab") as file:
                file.write(f"# {clock.wall()}\n".encode("ascii") + text)
            found.append("stacks.txt")
        except OSError as error:
            say(f"cannot record the trainer's stacks with py-spy: {error}")
    place = folder.relative_to(parts.run)
    return StacksRecorded(effect.attempt, " and ".join(f"{place}/{name}" for name in found))


def _told_by_itself(child: Child, output: Path) -> bool:
    """Whether its output grew upon SIGQUIT; waits until it grows no more."""
    if not stacks.catches(child.pid, signal.SIGQUIT):
        return False
    before = size = _size(output)
    child.send("QUIT")
    until = clock.monotonic() + ANSWER_SECONDS
    settled = until
    while (now := clock.monotonic()) < min(until, settled):
        clock.pause(_LOOK_AGAIN)
        if (grown := _size(output)) != size:
            size, settled = grown, now + _SETTLED
    return size > before


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
