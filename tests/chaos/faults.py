"""What befalls a run, each kind a function; all chance comes from the world's own generator."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from tests.chaos.world import ENDS, SECONDS, Broken, World

LONGEST = 4.0  # seconds that anything stands still: far below what a trainer waits for a phase


def kill_supervisor(world: World) -> None:
    """SIGKILL, a while without one, and the next life."""
    world.kill_supervisor()
    world.wait(world.chance.uniform(0.0, LONGEST / 2))
    world.begin()


def kill_trainer(world: World) -> None:
    """SIGKILL to the trainer."""
    world.trainer(signal.SIGKILL)


def kill_both(world: World) -> None:
    """Both at once, as the out-of-memory killer or an operator in a hurry does."""
    world.kill_supervisor()
    world.trainer(signal.SIGKILL)
    world.begin()


def freeze_supervisor(world: World) -> None:
    """SIGSTOP and SIGCONT."""
    process = world.daemon.process
    if process is None or not world.alive():
        return
    process.send_signal(signal.SIGSTOP)
    try:
        world.wait(world.chance.uniform(0.1, LONGEST))
    finally:
        process.send_signal(signal.SIGCONT)


def freeze_trainer(world: World) -> None:
    """SIGSTOP and SIGCONT, the latter to whoever it was."""
    pid = world.run.trainer_pid()
    if not pid or not world.trainer(signal.SIGSTOP):
        return
    world.wait(world.chance.uniform(0.1, LONGEST))
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


def signal_supervisor(world: World) -> None:
    """USR1: a checkpoint; HUP: a reload in place."""
    number = world.chance.choice((signal.SIGUSR1, signal.SIGHUP))
    if world.alive():
        world.daemon.signal(number)


def signal_trainer(world: World) -> None:
    """USR1: a checkpoint; TERM: an end that nobody asked the supervisor for."""
    world.trainer(world.chance.choice((signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM)))


def stop_and_start(world: World) -> None:
    """As an operator stops, now and then interrupted by a kill."""
    if not world.alive():
        return
    world.daemon.signal(signal.SIGTERM)
    if world.chance.random() < 0.3:
        world.wait(world.chance.uniform(0.0, 1.0))
        world.kill_supervisor()
    process = world.daemon.process
    world.until(lambda: process is None or process.poll() is not None, "the end of a stop")
    if process is not None and process.returncode not in ENDS:
        raise Broken(f"a stop ended with {process.returncode}")
    world.begin()


def save(world: World) -> None:
    """A checkpoint on request, sometimes pinned."""
    world.ask("save", pin=world.chance.random() < 0.1, align="step")


def pivot(world: World) -> None:
    """Another cap, at the boundary or now; sometimes somebody dies in the middle of it."""
    cap = round(world.chance.uniform(0.55, 0.95), 2)
    text = (world.run.path / "policy.toml").read_text()
    lines = [f"cap = {cap}" if line.startswith("cap = ") else line for line in text.split("\n")]
    when = world.chance.choice(("boundary", "now"))
    if not world.ask("pivot", policy="\n".join(lines), when=when):
        return
    if world.chance.random() < 0.5:
        world.wait(world.chance.uniform(0.0, 2.0))
        world.chance.choice((kill_supervisor, kill_trainer, kill_both))(world)
        world.done["died in a pivot"] += 1


def step_clock(world: World) -> None:
    """Set the supervisor's wall clock, forwards or backwards."""
    offset = world.chance.choice((-1, 1)) * world.chance.choice((1.0, 60.0, 3600.0, 86400.0))
    (world.aside / "clock").write_text(str(offset))


def tear(world: World) -> None:
    """While nothing runs: half lines at the ends of files, and what dead writers leave."""
    world.kill_supervisor()
    world.until(
        lambda: not world.trainer(signal.SIGKILL) and not world.run.pids(), "all to be dead"
    )
    run = world.run.path
    halves = {
        run / "demo.loss.json": b'{"step":99,"lo',
        run / "events.jsonl": b'{"event":"sea',
    }
    reports = sorted(run.glob("attempts/*/reports.jsonl"))[-1:]
    halves |= dict.fromkeys(reports, b'{"seq":7,"rep')
    for path, half in halves.items():
        if path.exists() and world.chance.random() < 0.7:
            with path.open("ab") as file:
                file.write(half)
            world.torn += 1
    for folder in (run, run / "checkpoints"):
        (folder / f".left.{world.chance.getrandbits(48):012x}.tmp").write_bytes(b"half a file")
    world.begin()


def _all_dead(world: World) -> bool:
    for pid in world.run.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not world.run.pids()


def fill_disk(world: World) -> None:
    """No room for anything, for a while."""
    if world.volume is None:
        return
    world.volume.fill()
    try:
        world.wait(world.chance.uniform(0.5, LONGEST))
    finally:
        world.volume.free()


# How often each comes, in relation to the others.
FAULTS: dict[Callable[[World], None], int] = {
    kill_supervisor: 5,
    kill_trainer: 2,
    kill_both: 1,
    freeze_supervisor: 3,
    freeze_trainer: 3,
    signal_supervisor: 4,
    signal_trainer: 2,
    stop_and_start: 2,
    save: 4,
    pivot: 2,
    step_clock: 2,
    tear: 1,
    fill_disk: 1,
}


def befall(world: World) -> str:
    """One fault, chosen by weight; its name."""
    [fault] = world.chance.choices(list(FAULTS), list(FAULTS.values()))
    name = fault.__name__.replace("_", " ")
    if fault is fill_disk and world.volume is None:
        return ""
    fault(world)
    world.done[name] += 1
    return name


def settle(world: World) -> None:
    """All faults over: the run goes on, finishes its pivot, seals, and is stopped with 0."""
    (world.aside / "clock").write_text("0")
    if world.volume is not None:
        world.volume.free()
    world.begin()
    sealed = max(world.run.seals(), default=0)
    world.gets_on(lambda: max(world.run.seals(), default=0) > sealed, "a seal after all faults")
    world.gets_on(lambda: not (world.run.path / "pivot.json").exists(), "the pivot's end")
    world.daemon.signal(signal.SIGTERM)
    process = world.daemon.process
    world.until(lambda: process is None or process.poll() is not None, "the last stop", SECONDS)
    if process is None or process.returncode:
        raise Broken(f"the last stop ended with {process and process.returncode}")
