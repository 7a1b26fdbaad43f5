"""Sealed checkpoints are read back before one is used, the others in the background."""

from __future__ import annotations

import json
import os
import signal
import struct
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import Run, copy_of, make_run, scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]
Spoil = Callable[[Path], None]


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A stopped run with seals at 50, 100 and 150, the last of them being its last step."""
    command = scripted(rate=400, every=50, steps=150)
    daemon = Daemon(make_run(tmp_path_factory.mktemp("sealed") / "run", command, every=50))
    try:
        assert daemon.start().wait() == 0
        assert sorted(daemon.run.seals()) == [50, 100, 150]
        yield daemon.run
    finally:
        daemon.finish()


@pytest.fixture
def kept(sealed: Run, tmp_path: Path) -> Iterator[Daemon]:
    """A copy of it that has 50 steps more to do."""
    run = copy_of(sealed, tmp_path / "run")
    settings = run.path / "run.toml"
    settings.write_text(settings.read_text().replace('"150"', '"200"'))
    daemon = Daemon(run)
    try:
        yield daemon
    finally:
        daemon.finish()


def bin_of(run: Run, step: int) -> Path:
    return run.path / f"checkpoints/step_{step:06d}.bin"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def lose_companion(path: Path) -> None:
    path.with_suffix(".json").unlink()


def spoil_companion(path: Path) -> None:
    beside = path.with_suffix(".json")
    beside.write_bytes(beside.read_bytes().replace(b'"code": "scripted"', b'"code": "sCripted"'))


def rejected(run: Run) -> list[int]:
    return [event["step"] for event in run.events("checkpoint-rejected")]


def resumed(run: Run) -> list[int]:
    return [attempt["resume"]["step"] for attempt in run.attempts() if attempt["resume"]]


def damaged(daemon: Daemon) -> list[str]:
    """Of which checkpoints audit finds a fault; what is damaged is told as long as it is there."""
    lines = daemon.cli("audit", "{run}").stdout.splitlines()
    return [line.split("/")[-1].split(".")[0] for line in lines if line.startswith("FAULT")]


@pytest.mark.parametrize(
    "spoil",
    [
        flip,
        pytest.param(zero, marks=pytest.mark.thorough),
        lose_companion,
        pytest.param(spoil_companion, marks=pytest.mark.thorough),
    ],
)
def test_the_next_older_one_is_used_where_the_newest_is_not_as_it_was_sealed(
    kept: Daemon, spoil: Spoil
) -> None:
    """Rows 6 and 7: right name, right size, wrong bytes."""
    run = kept.run
    spoil(bin_of(run, 150))
    assert kept.start().wait() == 0
    assert resumed(run) == [100]
    steps = [line["step"] for line in run.ledger()]
    assert steps == list(range(1, 201))
    if spoil is not lose_companion:  # which may be put back, so nothing is said for ever
        assert rejected(run) == [150]
        assert json.loads((run.path / "checkpoints/rejected.json").read_text())["marks"]
    assert "step_000150" in kept.output()
    assert set(damaged(kept)) == {"step_000150"}


def test_the_third_is_used_where_both_newest_are_bad(kept: Daemon) -> None:
    run = kept.run
    flip(bin_of(run, 150))
    zero(bin_of(run, 100))
    assert kept.start().wait() == 0
    assert resumed(run) == [50]
    assert rejected(run) == [150, 100]
    assert [line["step"] for line in run.ledger()] == list(range(1, 201))


def test_where_none_is_good_nothing_begins_anew(kept: Daemon) -> None:
    run = kept.run
    good = bin_of(run, 100).read_bytes()
    for step in (50, 100, 150):
        flip(bin_of(run, step))
    before = run.ledger()
    assert kept.start().wait() == 11
    assert "cannot go on: no sealed checkpoint can be used any more" in kept.output()
    assert len(run.attempts()) == 1
    assert kept.start().wait() == 11
    assert run.ledger() == before
    assert sorted(run.seals()) == [50, 100, 150]
    assert "take its seal out of checkpoints/rejected.json" in kept.output()
    bin_of(run, 100).write_bytes(good)
    marks = run.read("checkpoints/rejected.json")
    assert marks is not None
    marks["marks"].pop(
        sha256((run.path / "checkpoints/step_000100.seal.json").read_bytes()).hexdigest()
    )
    (run.path / "checkpoints/rejected.json").write_text(json.dumps(marks))
    assert kept.start().wait() == 0
    assert resumed(run) == [100]


def test_an_old_one_that_is_bad_is_found_in_the_background(kept: Daemon) -> None:
    run = kept.run
    flip(bin_of(run, 50))
    settings = run.path / "run.toml"
    text = settings.read_text().replace('"200"', '"100000"')
    settings.write_text(text.replace('"50"', '"100000"'))  # no seal, which would go before it
    kept.start()
    kept.until(lambda: rejected(run) == [50], "the old one is rejected")
    assert kept.stop() == 0
    assert resumed(run) == [150]
    listed = kept.cli("checkpoints", "{run}", "--json")
    [row] = [r for r in json.loads(listed.stdout)["checkpoints"] if r["step"] == 50]
    assert row["state"] == "refused"
    assert "sha256" in row["note"]


def test_all_are_read_back_first_where_that_is_asked_for(kept: Daemon) -> None:
    run = kept.run
    settings = run.path / "run.toml"
    text = settings.read_text()
    settings.write_text(text.replace("[checkpoint]\n", '[checkpoint]\nverify_at_start = "all"\n'))
    flip(bin_of(run, 50))
    assert kept.start().wait() == 0
    names = [event["event"] for event in run.events()]
    assert names[names.index("checkpoint-rejected") :].count("attempt-started") == 1
    assert resumed(run) == [150]


def test_a_bad_newest_of_a_living_trainer_is_rejected_and_the_trainer_kept(
    supervise: Supervise,
) -> None:
    """With a trainer to adopt nothing waits; what is found bad is no reason to leave it."""
    daemon = supervise(scripted(rate=200, every=400), every=400).start()
    run = daemon.run
    daemon.until_seal(400)
    pid = daemon.until_trainer()
    daemon.kill()
    [newest] = [max(run.seals())]
    flip(bin_of(run, newest))
    daemon.start()
    daemon.until(lambda: rejected(run) == [newest], "the rejection")
    daemon.kill()  # the next life too finds its way past the rejected one
    daemon.start().until_seal(newest + 400)
    assert run.trainer_pid() == pid
    os.kill(pid, signal.SIGKILL)
    daemon.until_trainer(other_than=pid)
    assert daemon.stop() == 0
    assert [line["step"] for line in run.ledger()] == list(range(1, run.last_step() + 1))
    assert set(damaged(daemon)) <= {f"step_{newest:06d}"}


def test_a_stop_while_the_newest_is_read_ends_it_at_once(kept: Daemon) -> None:
    run = kept.run
    slow(run)
    before = run.seals()
    kept.start()
    kept.until(lambda: "reading checkpoints back" in kept.output(), "the reading")
    assert kept.stop(5) == 0
    assert run.seals() == before
    assert len(run.attempts()) == 1
    assert not run.events("checkpoint-rejected")


def slow(run: Run) -> None:
    """Put a pipe that nobody writes to in the place of a companion: reading it takes for ever."""
    beside = bin_of(run, 150).with_suffix(".json")
    beside.unlink()
    os.mkfifo(beside)


def test_a_reader_that_dies_says_nothing_against_the_checkpoint(kept: Daemon) -> None:
    run = kept.run
    slow(run)
    kept.start()
    killed: set[int] = set()
    for _ in range(4):
        reader = kept.until(lambda: reader_of(kept.pid, killed), "another reader")
        os.kill(reader, signal.SIGKILL)
        killed.add(reader)
    assert kept.wait() == 11
    assert "cannot go on: cannot tell whether step_000150.bin is good" in kept.output()
    assert "Traceback" not in kept.output()
    assert not run.events("checkpoint-rejected")
    assert not (run.path / "checkpoints/rejected.json").exists()
    assert len(run.attempts()) == 1


def reader_of(pid: int, killed: set[int]) -> int:
    """The child that reads for this supervisor, not one of those killed, or 0."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == pid and b"verify_child" in words and int(entry.name) not in killed:
                return int(entry.name)
    return 0


def test_what_was_read_back_in_this_life_is_not_read_again(kept: Daemon) -> None:
    """The restart after a trainer's death waits for no reading: the message comes once."""
    run = kept.run
    settings = run.path / "run.toml"
    settings.write_text(settings.read_text().replace('"200"', '"100000"'))
    kept.start().until_seal(200)
    first = kept.until_trainer()
    os.kill(first, signal.SIGKILL)
    second = kept.until_trainer(other_than=first)
    os.kill(second, signal.SIGKILL)
    kept.until_trainer(other_than=second)
    assert kept.output().count("before one is used") == 1
    assert kept.stop() == 0


def test_files_of_other_people_are_left_alone_and_spoken_of_nowhere(kept: Daemon) -> None:
    run = kept.run
    folder = run.path / "checkpoints"
    theirs = {
        "notes.txt": b"mine",
        "model.bin": struct.pack("<ii", 1, 1),
        "step_000060.bin.bak": b"a copy",
        ".hidden": b"x",
    }
    for name, data in theirs.items():
        (folder / name).write_bytes(data)
    settings = run.path / "run.toml"
    keep = "[checkpoint]\nkeep_last = 2\nkeep_every = 0\n"
    settings.write_text(settings.read_text().replace("[checkpoint]\n", keep))
    assert kept.start().wait() == 0
    assert {name: (folder / name).read_bytes() for name in theirs} == theirs
    spoken = kept.output() + kept.cli("checkpoints", "{run}").stdout
    assert not [name for name in theirs if name in spoken]
    assert run.checkpoints() == [150, 200]
