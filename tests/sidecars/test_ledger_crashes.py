"""The ledger under kills at every write and sync, full disks, failed syncs and power cuts."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.messages import LedgerPosition
from supervisor.sidecars.ledger import Ledger, audit, canonical
from tests.support.crash_fs import CrashFs, Killed, crash_fs
from tests.support.steps import DIGEST, LATER, WALL, again, fields, keep, new, step, steps
from tests.support.waiting import wait_until

LAST = 24
CADENCE = 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.loss.json"


class Life:
    """A supervisor's part in a run: it records what one attempt reports and seals at a cadence.

    What it knows for ever is in ``seals``; everything else dies with it.
    """

    def __init__(self, path: Path, seals: list[LedgerPosition]) -> None:
        self.path = path
        self.seals = seals
        self.ledger: Ledger | None = None

    def run(self, attempt: int, resumed: int, salt_from: int = 10**9) -> None:
        """Go on from the newest seal to step LAST."""
        after = self.seals[-1] if self.seals else None
        self.ledger = Ledger.open(self.path, "R", after, fresh=not self.seals)
        if after:
            self.ledger.mark(f"seal:{after.step:032d}")
        self.ledger.begin(attempt, resumed, DIGEST if resumed else "")
        for first in range((after.step if after else 0) + 1, LAST + 1, 2):
            batch = [step(i, 1.0 if i >= salt_from else 0.0) for i in (first, first + 1)]
            outcome = self.ledger.record(attempt, 1, batch, WALL)
            if (first + 1) % CADENCE == 0:
                self.ledger.sync()
                self.seals.append(outcome.position)
                self.ledger.mark(f"seal:{outcome.position.step:032d}")
        self.close()

    def close(self) -> None:
        if self.ledger is not None:
            self.ledger.close()
            self.ledger = None


def check(path: Path, seals: list[LedgerPosition]) -> None:
    found = audit(path, positions=seals)
    assert found.fault == ""
    assert found.torn_tail == 0
    assert [entry.fields["step"] for entry in canonical(path)] == list(range(1, LAST + 1))
    marks = [line["mark"] for line in fields_that_parse(path) if line["mark"].startswith("seal:")]
    assert sorted(set(marks)) == sorted(marks), "a seal is marked twice"


def fields_that_parse(path: Path) -> Iterator[dict[str, str]]:
    for entry in canonical(path):
        yield entry.fields


def calls_of_a_life(folder: Path) -> list[str]:
    """The writes and syncs of an undisturbed life, in order."""
    with crash_fs(CrashFs()) as plan:
        Life(folder / "whole.loss.json", []).run(1, 0)
    return plan.trace


@pytest.mark.slow
@pytest.mark.parametrize("keep_bytes", [0, 1, 150, 299])
def test_killed_at_every_write_and_sync_the_next_supervisor_goes_on(
    tmp_path: Path, keep_bytes: int
) -> None:
    calls = calls_of_a_life(tmp_path)
    assert calls.count("write") == LAST // 2 + 1, "the first line goes out alone"
    assert calls.count("fdatasync") == LAST // CADENCE + 2, "opened, and after the first line"
    for at in range(1, len(calls) + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = folder / "demo.loss.json"
        seals: list[LedgerPosition] = []
        life = Life(path, seals)
        with crash_fs(CrashFs(at=at, keep=keep_bytes)), pytest.raises(Killed):
            life.run(1, 0)
        life.close()
        Life(path, seals).run(1, 0)
        check(path, seals)
        assert len(fields(path)) == LAST or keep_bytes == 0, "completed byte for byte"


def test_a_run_of_lives_that_are_all_killed_arrives(path: Path) -> None:
    seals: list[LedgerPosition] = []
    for attempt in range(1, 100):
        resumed = seals[-1].step if seals else 0
        life = Life(path, seals)
        try:
            with crash_fs(CrashFs(at=1 + attempt % 7, keep=37 * attempt % 300)):
                life.run(attempt, resumed)
            break
        except Killed:
            life.close()
        if attempt % 3 == 0 and len(seals) > 1:
            del seals[-1]  # the newest seal did not survive
    assert attempt > 8
    check(path, seals)


@pytest.mark.slow
def test_a_power_cut_at_every_byte_since_the_last_sync_loses_nothing_sealed(path: Path) -> None:
    seals: list[LedgerPosition] = []
    with crash_fs(CrashFs()) as plan:
        Life(path, seals).run(1, 0)
        durable = plan.durable(path)
    data = path.read_bytes()
    sealed = seals[-2]
    assert durable == len(data)
    for count in range(sealed.bytes, len(data), 5):
        for tail in (data[sealed.bytes : count], bytes(count - sealed.bytes)):
            path.write_bytes(data[: sealed.bytes] + tail)
            kept = seals[:-1]
            Life(path, kept).run(2, sealed.step)
            check(path, kept)


def test_a_sync_comes_before_a_seal_covers_all_it_speaks_of(path: Path) -> None:
    with crash_fs(CrashFs()) as plan:
        ledger = new(path)
        position = ledger.record(1, 1, steps(1, 5), WALL).position
        assert plan.durable(path) < position.bytes
        ledger.sync()
        assert plan.durable(path) == position.bytes
        ledger.close()


def test_short_writes_are_continued_where_they_stopped(path: Path, tmp_path: Path) -> None:
    keep(path, (1, 0, steps(1, 30)))
    whole = path.read_bytes()
    path.unlink()
    for short in (1, 7, 100, 1000):
        with crash_fs(CrashFs(short=short)):
            keep(path, (1, 0, steps(1, 30)))
        assert path.read_bytes() == whole
        path.unlink()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep_bytes", [0, 1, 100, 215, 500, 10_000])
def test_a_full_disk_stops_in_mid_line_and_the_next_record_continues_there(
    path: Path, keep_bytes: int
) -> None:
    reference = path.with_name("reference")
    reference.mkdir()
    keep(reference / path.name, (1, 0, steps(1, 60)))
    ledger = new(path)
    with crash_fs(CrashFs(at=4, keep=keep_bytes, error=errno.ENOSPC, times=3)) as plan:
        ledger.record(1, 1, steps(1, 10), WALL)
        size = path.stat().st_size
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                ledger.record(1, 1, steps(11, 60), LATER if plan.calls > 5 else WALL)
            assert path.stat().st_size - size == min(keep_bytes, 10_000)
        outcome = ledger.record(1, 1, steps(11, 60), LATER)
    assert outcome.position == ledger.position
    assert outcome.position.step == 60
    ledger.close()
    assert path.read_bytes() == (reference / path.name).read_bytes()


def test_a_full_disk_in_a_replay_keeps_counts_and_difference_for_the_retry(path: Path) -> None:
    keep(path, (1, 0, steps(1, 10)))
    ledger = again(path)
    ledger.begin(2, 2, DIGEST)
    taken = steps(3, 6) + steps(7, 12, salt=1.0)
    with crash_fs(CrashFs(at=1, keep=300, error=errno.ENOSPC)), pytest.raises(OSError, match="No"):
        ledger.record(2, 1, taken, WALL)
    outcome = ledger.record(2, 1, taken, WALL)
    ledger.close()
    assert (outcome.proved, outcome.differed) == (4, 7)
    assert outcome.difference.startswith("loss ")
    assert [line["step"] for line in fields(path)[10:]] == list(range(7, 13))
    assert audit(path).fault == ""


def test_after_a_failed_sync_nothing_more_is_taken_until_it_is_opened_again(path: Path) -> None:
    ledger = new(path)
    ledger.record(1, 1, steps(1, 5), WALL)
    with crash_fs(CrashFs(at=1, error=errno.EIO)), pytest.raises(OSError, match="Input/output"):
        ledger.sync()
    before = path.read_bytes()
    for use in (ledger.sync, lambda: ledger.record(1, 1, steps(6, 6), WALL)):
        with pytest.raises(OSError, match="an earlier sync failed"):
            use()
    ledger.close()
    assert path.read_bytes() == before
    ledger = again(path)
    ledger.begin(1, 0, "")
    ledger.record(1, 1, steps(1, 6), WALL)
    ledger.sync()
    ledger.close()
    assert len(fields(path)) == 6


WRITER = """
import sys
from pathlib import Path
from tests.support.steps import new, steps, WALL
ledger = new(Path(sys.argv[1]))
number = 1
while True:
    ledger.record(1, 1, steps(number, number + 6), WALL)
    number += 7
    if number % 70 == 1:
        ledger.sync()
"""


def test_a_real_writer_killed_at_any_moment_leaves_a_ledger_that_goes_on(tmp_path: Path) -> None:
    for size in (1, 5_000, 40_000, 120_000):
        path = tmp_path / str(size) / "demo.loss.json"
        path.parent.mkdir()
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        try:
            wait_until(
                lambda path=path, size=size: path.exists() and path.stat().st_size >= size,
                "the writer gets going",
            )
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        ledger = again(path)
        last = ledger.position.step
        ledger.begin(1, 0, "")
        ledger.record(1, 1, steps(1, last + 1), WALL)
        ledger.close()
        assert audit(path).fault == ""
        assert [line["step"] for line in fields(path)] == list(range(1, last + 2))


def test_it_works_on_a_file_that_the_system_lets_only_grow(path: Path) -> None:
    new(path).close()
    if subprocess.run(["chattr", "+a", path], capture_output=True, check=False).returncode:
        pytest.skip("this file system or user cannot set the append-only attribute")
    try:
        with pytest.raises(PermissionError):
            os.truncate(path, 0)
        with pytest.raises(PermissionError):
            path.unlink()
        for last in (5, 9):
            ledger = again(path)
            ledger.begin(1, 0, "")
            ledger.record(1, 1, steps(1, last), WALL)
            ledger.sync()
            ledger.close()
        assert len(fields(path)) == 9
    finally:
        subprocess.run(["chattr", "-a", path], check=True)


def test_no_line_is_written_before_the_one_that_names_the_run_is_durable(path: Path) -> None:
    with crash_fs(CrashFs()) as plan:
        ledger = new(path)
        ledger.record(1, 1, steps(1, 5), WALL)
    ledger.close()
    assert plan.trace[-3:] == ["write", "fdatasync", "write"]
    first = path.read_bytes().index(b"\n") + 1
    assert plan.durable(path) == first
