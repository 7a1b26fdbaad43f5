"""Find what hides from session and token: orphans made children of ours, and our unit's cgroup.

A worker that cleared its environment, began a session and lost its parent can be told by nothing
of its own any more. Of a supervisor that takes orphans in, it becomes a child; under a service
manager it stays in the unit's cgroup. What we start ourselves stays in our session, and so is
never taken for one, nor is what descends from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from supervisor import environment
from supervisor.process import identity as proof

_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37
_UNIT = b"SYSTEMD_EXEC_PID="


def take_in() -> bool:
    """From now on orphans of ours become our children, not the init's; whether that worked.

    Holds over a re-exec of ours and is not inherited by what we start.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def strays() -> list[int]:
    """What is left of trainers, ours to end where no trainer lives: orphans and the unit's others.

    To be asked only between two trainers. Of a process that takes no orphans in, nothing is.
    """
    if not _takes_in():
        return []
    us = os.getpid()
    session = os.getsid(us)
    found = [pid for pid in children(us) if proof.session_of(pid) not in (0, session)]
    others = [pid for pid in _unit_members() if pid not in found and _is_stray(pid, session)]
    return found + [pid for pid in others if not _is_below_ours(pid, session)]


def _takes_in() -> bool:
    libc, answer = ctypes.CDLL(None, use_errno=True), ctypes.c_int(0)
    libc.prctl(_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


class Reaper:
    """Takes notice of orphans that have ended, so that none stays as a zombie."""

    def __init__(self) -> None:
        self._seen: frozenset[int] = frozenset()

    def reap(self, spared: Iterable[int]) -> list[int]:
        """Wait for the dead ones that were dead at the last call too; ``spared`` are ours to ask.

        A trainer that dies in the moment of its start is not known to anybody yet.
        """
        us = os.getpid()
        session = os.getsid(us)
        dead = frozenset(pid for pid in children(us) if _is_dead_orphan(pid, session))
        gone = [pid for pid in dead & self._seen if pid not in spared]
        self._seen = dead
        take_notice(gone)
        return gone


def take_notice(pids: Iterable[int]) -> None:
    """Let no orphan among these dead processes stay a zombie; others are not ours to ask."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)


def _is_dead_orphan(pid: int, session: int) -> bool:
    facts = proof.stat(pid)
    return facts is not None and facts.dead and facts.session != session


def children(pid: int) -> list[int]:
    """The children of all threads of a process."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names only, in the restart path
            text = Path(f"/proc/{pid}/task/{task}/children").read_bytes()
            found += [int(child) for child in text.split()]
    except OSError:  # a thread that has just ended, or a kernel that does not tell
        facts = ((child, proof.stat(child)) for child in proof.pids())
        return [child for child, fact in facts if fact is not None and fact.parent == pid]
    return found


def _unit_members() -> list[int]:
    """The processes of our service's cgroup, where it is ours alone; else none."""
    if not environment.is_main_of_unit():
        return []
    try:
        lines = Path("/proc/self/cgroup").read_text("utf-8").splitlines()
        path = next(line[3:] for line in lines if line.startswith("0::"))
        text = Path("/sys/fs/cgroup", path.lstrip("/"), "cgroup.procs").read_bytes()
    except (OSError, StopIteration):
        return []
    return [int(pid) for pid in text.split()]


def _is_below_ours(pid: int, session: int) -> bool:
    """Whether a process descends from one that we started and that stays in our session."""
    us = os.getpid()
    while pid > 1 and (facts := proof.stat(pid)) is not None:
        if facts.parent == us:
            return facts.session == session
        pid = facts.parent
    return False


def _is_stray(pid: int, session: int) -> bool:
    """Whether a member of our unit is neither ours nor a command of the manager's, as a reload."""
    environ = proof.environment(pid) or b""
    return proof.session_of(pid) not in (0, session) and proof.value(environ, _UNIT) != str(pid)
