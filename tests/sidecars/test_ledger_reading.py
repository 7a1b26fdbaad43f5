"""Readers: the end of a file at once, the canonical view in bounded memory, bad lines passed by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.sidecars.ledger import canonical, find
from supervisor.sidecars.tailing import BLOCK, follow, tail, tail_at
from tests.support.steps import DIGEST, WALL, again, keep, new, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.loss.json"


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_tail_gives_the_last_whole_lines(path: Path, count: int) -> None:
    keep(path, (1, 0, steps(1, count)))
    lines = lines_of(path)
    for n in (0, 1, 2, 20, count, count + 5, 700):
        assert tail(path, n) == (lines[-n:] if n else [])
    assert tail_at(path, 5).offset == path.stat().st_size


def test_tail_leaves_torn_pieces_out_wherever_they_are(path: Path) -> None:
    keep(path, (1, 0, steps(1, 10)))
    lines = lines_of(path)
    whole = path.read_bytes()
    for torn in (
        b'{"step":11,',
        b"\0" * (3 * BLOCK),
        b"\xff" * BLOCK,
        lines[0][:-1],
        b"x" * 70_000,
    ):
        path.write_bytes(whole + torn)
        assert tail_at(path, 3) == (lines[-3:], len(whole), ())
        path.write_bytes(whole + torn + b"\n" + lines[0] + b"\n" + torn)
        assert tail(path, 4) == [*lines[-3:], lines[0]]
    for nothing in (b"", b"\n", b"\0" * (2 * BLOCK), b"x\n"):
        path.write_bytes(nothing)
        assert tail(path, 4) == []


def test_torn_lines_are_named_by_the_byte_at_which_they_begin(path: Path) -> None:
    keep(path, (1, 0, steps(1, 10)))
    lines = lines_of(path)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * (3 * BLOCK) + b"\n" + lines[0] + b"\nabc\n" + b"half")
    long, short = tail_at(path, 3).torn
    assert (long.start, long.line) == (len(whole), b"\0" * (3 * BLOCK))
    assert path.read_bytes()[short.start :] == b"abc\nhalf"
    assert tail_at(path, 1).torn == (short,)
    assert follow(path, short.start) == ([], short.start + 4, (short,))


def test_tail_is_right_at_every_place_of_a_block_border(path: Path) -> None:
    keep(path, (1, 0, steps(1, 700)))
    lines = lines_of(path)
    assert path.stat().st_size > 2 * BLOCK
    for cut in range(1, len(lines[-1])):
        path.write_bytes(b"\n".join(lines)[:-cut] + b"\n" + lines[0] + b"\n")
        assert tail(path, 650)[-2:] == [lines[-2], lines[0]]
        assert len(tail(path, 650)) == 650


def test_tail_reads_no_more_of_a_long_ledger_than_of_a_short_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, read = os.pread, []

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        read.append(size)
        return real(descriptor, size, offset)

    keep(path, (1, 0, steps(1, 20_000)))
    monkeypatch.setattr(os, "pread", pread)
    assert len(tail(path, 20)) == 20
    assert sum(read) <= 2 * BLOCK


def test_follow_gives_each_line_once_and_only_when_it_is_whole(path: Path) -> None:
    ledger = new(path)
    ledger.record(1, 1, steps(1, 3), WALL)
    at = tail_at(path, 2)
    seen = list(at.lines)
    for first in range(4, 30, 5):
        ledger.record(1, 1, steps(first, first + 4), WALL)
        at = follow(path, at.offset)
        seen += at.lines
    ledger.close()
    assert seen == lines_of(path)[1:]
    assert follow(path, at.offset) == ([], at.offset, ())
    whole = path.read_bytes()
    path.write_bytes(whole + seen[0][:50])
    assert follow(path, at.offset) == ([], at.offset, ())
    path.write_bytes(whole + seen[0] + b"\n" + b"\0" * 10)
    assert follow(path, at.offset) == ([seen[0]], at.offset + len(seen[0]) + 1, ())


def test_follow_gets_past_a_torn_piece_longer_than_what_it_reads(path: Path) -> None:
    keep(path, (1, 0, steps(1, 3)))
    lines = lines_of(path)
    path.write_bytes(b"\0" * 5000 + b"\n" + b"\n".join(lines) + b"\n")
    offset, seen = 0, []
    for _ in range(20):
        found = follow(path, offset, limit=1000)
        seen += found.lines
        offset = found.offset
    assert seen == lines


def test_the_canonical_view_numbers_lines_as_the_file_does(path: Path) -> None:
    keep(path, (1, 0, steps(1, 10)))
    path.write_bytes(path.read_bytes() + b'{"ste\n\0\0\n')
    ledger = again(path)
    ledger.begin(2, 6, DIGEST)
    ledger.record(2, 1, steps(7, 8) + steps(9, 12, salt=1.0), WALL)
    ledger.close()
    lines = lines_of(path)
    heard: list[tuple[int, str]] = []
    entries = list(canonical(path, lambda line, why: heard.append((line, why))))
    assert [entry.fields["step"] for entry in entries] == list(range(1, 13))
    assert [entry.line for entry in entries] == [*range(1, 9), 13, 14, 15, 16]
    assert [line for line, _ in heard] == [11, 12]
    for entry in entries:
        assert entry.fields["chain"].encode() in lines[entry.line - 1]
        assert find(path, entry.fields["step"]) == entry
    assert find(path, 13) is None
    assert find(path, 0) is None


def test_a_voided_step_that_never_came_again_is_not_canonical(path: Path) -> None:
    keep(path, (1, 0, steps(1, 10)), (2, 6, steps(7, 8, salt=1.0)))
    assert [entry.fields["step"] for entry in canonical(path)] == list(range(1, 9))
    assert find(path, 9) is None
    found = find(path, 7)
    assert found is not None
    assert (found.line, found.fields["attempt"]) == (11, 2)


def test_a_bad_line_is_told_and_the_rest_is_read(path: Path) -> None:
    keep(path, (1, 0, steps(1, 30)))
    lines = lines_of(path)
    lines[4] = b"garbage"
    lines[9] = lines[9].replace(b'"loss":', b'"loss";')
    lines[14] = b'{"step":x,' + lines[14][10:]
    lines[19] = b""
    path.write_bytes(b"\n".join(lines) + b"\n")
    heard: list[int] = []
    entries = list(canonical(path, lambda line, _: heard.append(line)))
    assert sorted(heard) == [5, 10, 15, 20]
    assert [entry.line for entry in entries] == [n for n in range(1, 31) if n not in heard]


def test_a_long_ledger_is_read_whole_and_in_order(path: Path) -> None:
    ledger = new(path)
    for first in range(1, 10_001, 1000):
        ledger.record(1, 1, steps(first, first + 999), WALL)
    ledger.close()
    assert [(e.line, e.fields["step"]) for e in canonical(path)] == [
        (n, n) for n in range(1, 10_001)
    ]
    for step in (1, 2, 4096, 4097, 4098, 9999, 10_000):
        found = find(path, step)
        assert found is not None
        assert found.line == step
