"""End whatever an earlier trainer of this run left behind, and nothing else."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from supervisor import clock
from supervisor.process import identity as proof
from supervisor.process.identity import Identity

GPU_PATIENCE = 60.0  # seconds; a process with a hundred GB pinned takes long to be taken apart
_GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/render")
_ROUNDS = 5  # a process that forks while it is being ended is looked for again


def end_leftovers(
    run: Path,
    trainers: Iterable[Identity] = (),
    grace: float = 5.0,
    patience: float = 10.0,
    *,
    strays: Callable[[], Iterable[int]] = tuple,
    tell: Callable[[str], None] = lambda _: None,
) -> list[int]:
    """End every process that a trainer of ``run`` left behind; return the pids that were ended.

    Left behind is what carries STEPKEEPER_RUN of this run together with a token (only a trainer
    of this run and what it started do), or one of the ``trainers``' tokens, or is proven a
    member of one of their sessions, or is named by ``strays``. Each is asked with SIGTERM, killed
    after ``grace`` seconds and waited for, ``patience`` seconds at most, or GPU_PATIENCE where it
    held a GPU, whose memory is free only when it is gone; ``tell`` hears of that wait. Costs well
    under a millisecond a hundred processes where there is nothing to do. Raises TimeoutError
    where one outlives SIGKILL.
    """
    here = (proof.boot_id(), proof.pid_namespace())
    known = [t for t in trainers if (t.boot_id, t.pid_namespace) == here]
    ended: list[int] = []
    for _ in range(_ROUNDS):
        found = dict(_pidfds(_candidates(run, known, strays())))
        if not found:
            break
        try:
            _end(found, grace, patience, tell)
        finally:
            for pidfd in found.values():
                os.close(pidfd)
        ended += [pid for pid in found if pid not in ended]
    return ended


def _candidates(
    run: Path, trainers: Collection[Identity], strays: Iterable[int]
) -> Iterator[tuple[int, int]]:
    """Pid and start time of everything left of this run's trainers."""
    ours = _lineage()
    unsettled = []
    named = {pid for pid in strays if pid not in ours}
    for pid in named:
        yield from _living(pid)
    for pid in proof.pids():
        # Kernel threads have no session; a trainer begins one, so its offspring always has one.
        if pid in ours or pid in named or proof.session_of(pid) == 0:
            continue
        environ = proof.environment(pid)
        if environ == b"":
            unsettled += [pid for _ in _living(pid)]
        elif _is_left(pid, environ or b"", run, trainers):
            yield from _living(pid)
    if unsettled:  # one that wiped its environment, or is in the middle of an exec
        clock.pause(proof.EXEC_SECONDS)
    for pid in unsettled:
        if _is_left(pid, proof.environment(pid) or b"", run, trainers):
            yield from _living(pid)


def _is_left(pid: int, environ: bytes, run: Path, trainers: Collection[Identity]) -> bool:
    token = proof.token_of(environ)
    if token and proof.value(environ, proof.RUN) == str(run):
        return True
    session = proof.session_of(pid)
    return any(
        (token and token == trainer.token)
        or (session == trainer.pid and _belongs(pid, trainer, run))
        for trainer in trainers
    )


def _living(pid: int) -> Iterator[tuple[int, int]]:
    facts = proof.stat(pid)
    if facts is not None and not facts.dead:
        yield pid, facts.start_ticks


def _lineage() -> set[int]:
    """Ourselves and our ancestors, which are never a leftover."""
    found, pid = set(), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        facts = proof.stat(pid)
        pid = facts.parent if facts is not None else 0
    return found


def _belongs(pid: int, trainer: Identity, run: Path) -> bool:
    """Whether a process is of the trainer's session and not of a later one of the same number.

    The number is free again when the session has died out. The session is the trainer's where
    its leader still is the trainer (a zombie will do); without a leader, a member must be
    younger than the trainer and have something of the run open.
    """
    facts = proof.stat(pid)
    leader = proof.stat(trainer.pid)
    if facts is None or facts.start_ticks < trainer.start_ticks:
        return False
    if leader is not None:
        return leader.start_ticks == trainer.start_ticks
    return _touches(pid, run)


def _touches(pid: int, run: Path) -> bool:
    """Whether a process works in the run directory or has a file of it open."""
    within = f"{run}/"
    return any(f"{link}/".startswith(within) for link in _open_files(pid))


def _open_files(pid: int) -> Iterator[str]:
    """Where a process works, and what it has open."""
    links = [f"/proc/{pid}/cwd"]
    with contextlib.suppress(OSError):
        links += [f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd")]  # noqa: PTH208 - names only
    for link in links:
        with contextlib.suppress(OSError):
            yield os.readlink(link)  # noqa: PTH115 - text, not a Path


def _pidfds(candidates: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """A pidfd for each candidate that still is the process it was."""
    for pid, start in candidates:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            continue
        facts = proof.stat(pid)
        if facts is None or facts.start_ticks != start:
            os.close(pidfd)
            continue
        yield pid, pidfd


def _end(found: dict[int, int], grace: float, patience: float, tell: Callable[[str], None]) -> None:
    # Asked while they live: one that is being taken apart shows no open files any more.
    on_gpu = [pid for pid in found if holds_gpu(pid)]
    _send(found.values(), signal.SIGTERM)
    if _wait(found.values(), grace):
        return
    _send(found.values(), signal.SIGKILL)
    if _wait(found.values(), patience):
        return
    names = ", ".join(map(str, found))
    if on_gpu:
        held = ", ".join(map(str, on_gpu))
        tell(f"waiting up to {GPU_PATIENCE:.0f} s for the GPU memory of pid {held} to be freed")
        if _wait(found.values(), max(0.0, GPU_PATIENCE - patience)):
            return
    raise TimeoutError(
        f"cannot end what an earlier trainer left behind (pid {names}): it outlives SIGKILL"
    )


def holds_gpu(pid: int, devices: tuple[str, ...] = _GPU_DEVICES) -> bool:
    """Whether a process has a GPU's device open, by which it may hold memory there."""
    return any(link.startswith(devices) for link in _open_files(pid))


def _send(pidfds: Iterable[int], number: signal.Signals) -> None:
    for pidfd in pidfds:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(pidfd, number)


def _wait(pidfds: Iterable[int], seconds: float) -> bool:
    """Whether all have ended within ``seconds``."""
    poller = select.poll()
    waiting = set(pidfds)
    for pidfd in waiting:
        poller.register(pidfd, select.POLLIN)
    deadline = clock.monotonic() + seconds
    while waiting:
        left = deadline - clock.monotonic()
        for pidfd, _ in poller.poll(max(0, left) * 1000):
            poller.unregister(pidfd)
            waiting.discard(pidfd)
        if waiting and left <= 0:
            return False
    return True
