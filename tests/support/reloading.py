"""What tests of a reload look at: which life answers, and that nothing was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor.control import request
from tests.support.daemon import Daemon

SECONDS = 60.0


def life(daemon: Daemon) -> dict[str, Any]:
    """What the supervisor says of itself."""
    answer: dict[str, Any] = request(daemon.run.path, "status", {}, SECONDS)["supervisor"]
    return answer


def until_another(daemon: Daemon, before: dict[str, Any]) -> dict[str, Any]:
    daemon.until(lambda: life(daemon)["life"] != before["life"], "another life", SECONDS)
    return life(daemon)


def edit(daemon: Daemon, before: str, after: str) -> None:
    path = daemon.run.path / "run.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def whole(daemon: Daemon) -> None:
    """Every step that was reported stands once, under one trainer."""
    last = daemon.run.reports(1, "step")[-1]["step"]
    assert [line["step"] for line in daemon.run.ledger()] == list(range(1, last + 1))
    assert len(daemon.run.attempts()) == 1


def zombies(pid: int) -> list[int]:
    """Children of a process that ended and were not waited for."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state == "Z" and int(parent) == pid:
            found.append(int(stat.parent.name))
    return found
