"""A real run under every fault that we know: ``python -m tests.chaos --minutes M --seed S``."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos import faults
from tests.chaos.reference import compare, pivots_of
from tests.chaos.world import Broken, World
from tests.support.command import command
from tests.support.volumes import MIB, Volume, tmpfs

ROOM = 512 * MIB
SETTLE_AFTER = 12  # faults, then a step more must come


def main(words: list[str]) -> int:
    """Print what was done and what was found; 1 for a violation, with the directory kept."""
    given = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    folder = given.keep or Path(tempfile.mkdtemp(prefix="stepkeeper-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with ExitStack() as undo:
        world = World(folder, _volume(undo, folder / "volume"), given.seed)
        undo.callback(world.finish)
        violation = ""
        equal = 0
        try:
            _storm(world, given.minutes * 60.0)
            faults.settle(world)
            _hold(world)
            equal = compare(world.run, folder)
        except (Broken, AssertionError) as error:  # the latter from a wait in vain
            violation = str(error).partition("\n")[0]
            shutil.copytree(
                world.run.path, folder / "kept", ignore=shutil.ignore_patterns("*.sock")
            )
            for log in world.daemon.logs():
                shutil.copy(log, folder)
        _tell(world, time.perf_counter() - began, equal)
    if violation:
        _say(f"VIOLATION: {violation}\nkept in {folder}")
        return 1
    if given.keep is None:
        shutil.rmtree(folder)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="of faults; then it is checked")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a directory to use and to keep")
    return parser


def _volume(undo: ExitStack, path: Path) -> Volume | None:
    try:
        return undo.enter_context(tmpfs(path, ROOM))
    except pytest.skip.Exception as error:
        _say(f"no full disk this time: {error}")
        path.rmdir()
        return None


def _storm(world: World, seconds: float) -> None:
    began = time.perf_counter()
    world.begin()
    world.until(world.run.trainer_pid, "the first trainer")
    count = 0
    while (spent := time.perf_counter() - began) < seconds:
        world.wait(world.chance.uniform(0.2, 3.0))
        name = faults.befall(world)
        world.look()
        world.begin()
        count += 1
        if sys.stdout.isatty():
            step = world.run.last_step()
            _say(f"\r{spent:6.0f} s  fault {count:<5} step {step:<8} {name:<24}", "")
        if count % SETTLE_AFTER == 0:
            world.begin()
            before = world.run.last_step()
            world.gets_on(lambda before=before: world.run.last_step() > before, "another step")
    if sys.stdout.isatty():
        _say("")


def _hold(world: World) -> None:
    """What must be true of a run that was stopped after all that."""
    run = world.run
    last = run.last_step()
    if list(run.canonical()) != list(range(1, last + 1)):
        raise Broken(f"the canonical ledger is not 1 to {last}")
    if max(run.seals()) != last:
        raise Broken(f"step {last} is the last one, the newest seal is of {max(run.seals())}")
    if pids := run.pids():
        raise Broken(f"processes are left: {pids}")
    if left := [str(path.relative_to(run.path)) for path in run.path.rglob("*.tmp")]:
        raise Broken(f"temporary files are left: {left}")
    # A pivot whose pin lies behind what a dead attempt had reached does these steps anew.
    for event in run.events("replay-differed"):
        if not event["difference"].startswith("policy "):
            raise Broken(f"a replay was not equal: {event['facts']}")
    told = command("audit", run.path)
    if told.code:
        raise Broken(f"the audit finds: {told.err.strip()}")


def _keep(world: World, folder: Path) -> None:
    """The small file system is about to be unmounted: copy what a person needs."""
    sockets = shutil.ignore_patterns("*.sock")
    shutil.copytree(world.run.path, folder / "kept", ignore=sockets)
    for log in world.daemon.logs():
        shutil.copy(log, folder)


def _tell(world: World, seconds: float, equal: int) -> None:
    run = world.run
    ends = [record["ended"] for record in run.attempts() if record["ended"]]
    lines = [(f"fault: {name}", count) for name, count in sorted(world.done.items())]
    lines += [
        ("torn tails put there", world.torn),
        ("supervisors", len(world.daemon.logs())),
        ("attempts", len(run.attempts())),
        ("pivots", len(pivots_of(run))),
        ("seals", len(run.events("sealed"))),
        ("steps", run.last_step()),
        ("steps replayed and proved equal", sum(end["proved"] for end in ends)),
        ("weights equal to the undisturbed run's at step", equal),
        ("seconds", round(seconds)),
    ]
    width = max(len(name) for name, _ in lines)
    _say("\n".join(f"{name:<{width}}  {count:>8,}" for name, count in lines))


def _say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
