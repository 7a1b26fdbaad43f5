"""What ``audit`` says of a run, as the tests look at it."""

from __future__ import annotations

from tests.support.command import Told, command
from tests.support.runs import Run


def audit(run: Run, *words: object) -> Told:
    return command("audit", run.path, "--json", *words)


def faults(run: Run, *words: object) -> list[str]:
    """What is at fault, the first one first; the line on stderr names that one too."""
    told = audit(run, *words)
    found = [
        f"{f['file']}{' line ' + str(f['line']) if f['line'] else ''}: {f['what']}"
        for f in told.facts()["faults"]
    ]
    if found:
        assert told.code == 1
        assert found[0] in told.complaint()
        assert found[0] in command("audit", run.path, *words).out
    else:
        assert (told.code, told.err) == (0, "")
    return found


def head_of(run: Run, step: int) -> str:
    """The head that the supervisor printed when it sealed the step."""
    return next(event["head"] for event in run.events("sealed") if event["step"] == step)
