"""Following a reports file: every whole line once, in order, wherever the writer was cut off."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.core.messages import BadReport, Reports, ReportsPosition
from supervisor.process.reports import AT_ONCE, Follower
from trainer.contract.wire import MAX_LINE, Checkpoint, Report, Sample, Step, format_report

START = ReportsPosition(7, 0, 0)


def step(seq: int, step: int) -> bytes:
    return format_report("step", seq, seq / 10, step=step, loss=2.5, arm="a", lr=0.1, phase=0)


def checkpoint(seq: int, step: int) -> bytes:
    return format_report(
        "checkpoint",
        seq,
        seq / 10,
        step=step,
        name=f"step_{step:06d}.bin",
        sha256="",
        bytes=20,
        reason="cadence",
        seconds=0.1,
        save=None,
    )


def sample(seq: int, size: int) -> bytes:
    return format_report(
        "sample", seq, seq / 10, step=1, prompt="", text="x" * size, temperature=1.0
    )


LINES = [
    format_report("ready", 1, 0.1, pid=5, n_params=1, step=0, companion=True),
    step(2, 1),
    checkpoint(3, 1),
    checkpoint(4, 1),
    format_report("doing", 5, 0.5, what="eval", step=1),
    step(6, 2),
    checkpoint(7, 2),
    format_report("finished", 8, 0.8, reason="steps", step=2),
]
WHOLE = b"".join(LINES)


def drain(follower: Follower) -> list[Reports | BadReport]:
    events = []
    while True:
        events += follower.poll()
        if follower.exhausted:
            return events


def reports(events: list[Reports | BadReport]) -> list[Report]:
    assert all(isinstance(event, Reports) for event in events), events
    return [report for event in events if isinstance(event, Reports) for report in event.reports]


def hold_positions(events: list[Reports | BadReport], data: bytes) -> None:
    """Each position is the end of exactly ``seq`` lines, and checkpoints come last."""
    for event in events:
        assert isinstance(event, Reports)
        before = data[: event.position.bytes]
        assert before.endswith(b"\n")
        assert before.count(b"\n") == event.position.seq == event.reports[-1].seq
        assert event.position.attempt == event.attempt == 7
        assert not any(isinstance(report, Checkpoint) for report in event.reports[:-1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reports.jsonl"


def test_a_file_cut_at_any_byte_gives_each_report_once(path: Path) -> None:
    path.write_bytes(WHOLE)
    follower = Follower(path, START)
    wanted = drain(follower)
    follower.close()
    assert [report.seq for report in reports(wanted)] == [1, 2, 3, 4, 5, 6, 7, 8]
    hold_positions(wanted, WHOLE)
    for cut in range(len(WHOLE)):
        path.write_bytes(WHOLE[:cut])
        follower = Follower(path, START)
        first = drain(follower)
        assert follower.torn == WHOLE[:cut].rpartition(b"\n")[2]
        with path.open("ab") as file:
            file.write(WHOLE[cut:])
        events = first + drain(follower)
        follower.close()
        assert reports(events) == reports(wanted)
        hold_positions(events, WHOLE)
        assert follower.torn == b""
        assert follower.position == wanted[-1].position


@given(cuts=st.lists(st.integers(0, len(WHOLE)), max_size=12))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_file_that_grows_in_any_pieces_gives_each_report_once(
    path: Path, cuts: list[int]
) -> None:
    path.unlink(missing_ok=True)
    follower = Follower(path, START)
    events = drain(follower)
    edges = [0, *sorted(cuts), len(WHOLE)]
    for start, end in pairwise(edges):
        with path.open("ab") as file:
            file.write(WHOLE[start:end])
        events += follower.poll()
    events += drain(follower)
    follower.close()
    assert [report.seq for report in reports(events)] == [1, 2, 3, 4, 5, 6, 7, 8]
    hold_positions(events, WHOLE)


def test_following_goes_on_from_any_position_that_was_given_out(path: Path) -> None:
    path.write_bytes(WHOLE)
    follower = Follower(path, START)
    events = drain(follower)
    follower.close()
    for event in events:
        assert isinstance(event, Reports)
        later = Follower(path, event.position)
        seqs = [report.seq for report in reports(drain(later))]
        later.close()
        assert seqs == list(range(event.position.seq + 1, 9))


def test_a_file_that_is_not_there_yet_holds_nothing(path: Path) -> None:
    follower = Follower(path, START)
    assert follower.poll() == []
    assert follower.exhausted
    path.write_bytes(WHOLE)
    assert len(reports(drain(follower))) == 8
    follower.close()


def test_a_poll_takes_64_kb_and_says_that_there_is_more(path: Path) -> None:
    lines = [step(seq, seq) for seq in range(1, 3001)]
    path.write_bytes(b"".join(lines))
    follower = Follower(path, START)
    (first,) = follower.poll()
    assert isinstance(first, Reports)
    assert not follower.exhausted
    assert AT_ONCE - max(map(len, lines)) < first.position.bytes <= AT_ONCE
    rest = drain(follower)
    follower.close()
    assert [report.seq for report in reports([first, *rest])] == list(range(1, 3001))
    assert follower.exhausted


@pytest.mark.parametrize("size", [AT_ONCE - 200, AT_ONCE, 3 * AT_ONCE, MAX_LINE - 200])
def test_one_line_longer_than_a_poll_is_read_whole(path: Path, size: int) -> None:
    path.write_bytes(step(1, 1) + sample(2, size) + step(3, 2))
    follower = Follower(path, START)
    read = reports(drain(follower))
    follower.close()
    assert isinstance(read[1], Sample)
    assert len(read[1].text) == size
    assert [report.seq for report in read] == [1, 2, 3]


def test_a_long_line_still_being_written_is_waited_for(path: Path) -> None:
    line = sample(1, 3 * AT_ONCE)
    path.write_bytes(line[:-1])
    follower = Follower(path, START)
    assert follower.poll() == []
    assert follower.exhausted
    assert follower.torn == line[:-1]
    with path.open("ab") as file:
        file.write(b"\n")
    assert len(reports(drain(follower))) == 1
    follower.close()


def test_what_c_prints_for_a_loss_that_is_no_number_is_understood(path: Path) -> None:
    line = step(1, 1).replace(b"2.5", b"-nan")
    path.write_bytes(line)
    follower = Follower(path, START)
    (report,) = reports(drain(follower))
    follower.close()
    assert isinstance(report, Step)
    assert (report.loss, report.nonfinite) == (None, "nan")


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (step(2, 2), "seq 2 stands where 3 is due"),
        (step(4, 3), "seq 4 stands where 3 is due"),
        (b"\n", "cannot read b''"),
        (b"\x00" * 40 + b"\n", "cannot read b'\\x00"),
        (b"half a line\n", "cannot read b'half a line'"),
        (step(3, 3).replace(b'"step":3', b'"step":"3"'), "cannot use step='3'"),
        (step(3, 3).replace(b'"step":3', b'"step":3,"step":3'), "names a key twice"),
        (b'{"seq":3,"report":"boast","at":0.1}\n', "cannot read a report named 'boast'"),
        (b"x" * (MAX_LINE + 1) + b"\n", "a line is longer than 1048576 bytes"),
        (b"x" * (MAX_LINE + 1), "a line is longer than 1048576 bytes"),
    ],
    ids=["duplicate", "gap", "empty", "nul", "half", "text", "twice", "unknown", "long", "endless"],
)
def test_a_line_that_breaks_the_contract_is_told_once_and_ends_the_reading(
    path: Path, bad: bytes, problem: str
) -> None:
    good = step(1, 1) + step(2, 2)
    path.write_bytes(good + bad + step(3, 3))
    follower = Follower(path, START)
    events = [*drain(follower), *follower.poll(), *follower.poll()]
    follower.close()
    assert len(events) == 2
    told, broken = events
    assert [report.seq for report in reports([told])] == [1, 2]
    assert isinstance(broken, BadReport)
    assert broken.attempt == 7
    assert broken.problem.startswith(f"cannot follow {path} after report 2 (byte {len(good)}): ")
    assert problem in broken.problem
    assert follower.position == ReportsPosition(7, 2, len(good))
    assert follower.exhausted


def test_a_file_that_became_shorter_is_told(path: Path) -> None:
    path.write_bytes(WHOLE)
    follower = Follower(path, START)
    drain(follower)
    path.write_bytes(LINES[0])
    (event,) = follower.poll()
    follower.close()
    assert isinstance(event, BadReport)
    assert f"shorter than the {len(WHOLE)} bytes read" in event.problem


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_breaks_the_contract_and_holds_nobody_up(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "reports.jsonl")
    follower = Follower(tmp_path / "reports.jsonl", START)
    (found,) = follower.poll()
    assert isinstance(found, BadReport)
    assert "not a regular file" in found.problem
    assert follower.exhausted
    assert follower.poll() == []
    follower.close()
