"""The journal: one chained line per event, said once where asked, torn ends closed off."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from supervisor.core.chain import START
from supervisor.sidecars.events import RECENT, EventLine, Events, Head, read, verify
from tests.support.crash_fs import CrashFs, Killed, crash_fs
from tests.support.steps import LATER, WALL


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def told(path: Path) -> list[tuple[str, dict[str, object]]]:
    return [(e.event, e.facts) for e in read(path) if isinstance(e, EventLine)]


def write(path: Path, *names: str) -> Head:
    events = Events.open(path)
    for name in names:
        events.append(name, {"attempt": 1, "why": 'a "b" ü'}, WALL)
    events.sync()
    head = events.head
    events.close()
    return head


def test_an_event_has_exactly_this_layout(path: Path) -> None:
    write(path, "spawned")
    body, chain = path.read_bytes().split(b',"chain":"')
    assert body == (
        b'{"event":"spawned","facts":{"attempt":1,"why":"a \\"b\\" \\u00fc"},'
        b'"time":"2026-01-31T12:00:00.123Z"'
    )
    assert len(chain) == 35
    assert told(path) == [("spawned", {"attempt": 1, "why": 'a "b" ü'})]


def test_the_head_is_the_end_of_the_last_line_across_openings(path: Path) -> None:
    events = Events.open(path)
    assert events.head == Head(0, 0, START)
    events.close()
    first = write(path, "a", "b")
    events = Events.open(path)
    assert events.head == first == Head(2, path.stat().st_size, first.chain)
    events.close()
    second = write(path, "c")
    assert verify(path, [first, second, Head(0, 0, START)]).fault == ""
    assert verify(path).head == second
    assert json.loads(path.read_bytes().splitlines()[-1])["chain"] == second.chain


def test_an_event_said_once_is_not_repeated_while_it_is_recent(path: Path) -> None:
    events = Events.open(path)
    assert events.append("sealed", {"step": 100}, WALL, once=True)
    assert not events.append("sealed", {"step": 100}, LATER, once=True)
    assert events.append("sealed", {"step": 200}, WALL, once=True)
    assert events.append("sealed", {"step": 100}, WALL)
    events.close()
    events = Events.open(path)
    assert not events.append("sealed", {"step": 200}, LATER, once=True)
    head = events.head
    for number in range(RECENT):
        events.append("noise", {"n": number}, WALL)
    events.close()
    events = Events.open(path, head)
    assert events.append("sealed", {"step": 200}, LATER, once=True)
    events.close()
    assert len(told(path)) == 3 + RECENT + 1


def test_opening_from_a_head_knows_what_was_said_before_it(path: Path) -> None:
    head = write(path, "a", "b")
    write(path, "c")
    events = Events.open(path, head)
    assert events.head.entries == 3
    facts = {"attempt": 1, "why": 'a "b" ü'}
    assert [events.append(name, facts, LATER, once=True) for name in "abcd"] == [
        False, False, False, True
    ]  # fmt: skip
    events.close()
    assert verify(path, [head]).fault == ""


def test_a_head_that_does_not_fit_is_not_believed(path: Path) -> None:
    head = write(path, "a", "b")
    for wrong in (
        head._replace(bytes=head.bytes + 1),
        head._replace(bytes=head.bytes - 1),
        head._replace(chain="e" * 32),
    ):
        events = Events.open(path, wrong)
        assert events.head == head
        events.close()


def test_a_torn_tail_at_every_byte_is_closed_off_and_the_event_said_again(path: Path) -> None:
    before = write(path, "a", "b")
    write(path, "c")
    data = path.read_bytes()
    for count in range(before.bytes, len(data) + 1):
        path.write_bytes(data[:count])
        events = Events.open(path)
        events.append("c", {"attempt": 1, "why": 'a "b" ü'}, LATER, once=True)
        events.append("d", {}, LATER, once=True)
        events.close()
        assert path.read_bytes().startswith(data[:count])
        verdict = verify(path, [before])
        assert (verdict.fault, verdict.torn_tail) == ("", 0)
        assert [name for name, _ in told(path)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("junk", [b"\0" * 4096, b"\0\0\n", b'{"ev\n{"event"\n\xff', b"\n"])
def test_junk_behind_the_last_event_is_one_torn_region(path: Path, junk: bytes) -> None:
    head = write(path, "a")
    path.write_bytes(path.read_bytes() + junk)
    events = Events.open(path)
    assert (events.head, events.torn) == (head, len(junk))
    events.append("b", {}, WALL)
    events.close()
    verdict = verify(path, [head])
    assert (verdict.fault, verdict.torn_regions, verdict.head.entries) == ("", 1, 2)


def test_every_kind_of_tampering_is_found_at_its_line(path: Path) -> None:
    heads = [write(path, name) for name in "abcdef"]
    lines = path.read_bytes().splitlines(keepends=True)
    for k in range(5):
        for changed in (
            [*lines[:k], lines[k].replace(b'"attempt":1', b'"attempt":2'), *lines[k + 1 :]],
            [*lines[:k], *lines[k + 1 :]],
            [*lines[:k], lines[k + 1], lines[k], *lines[k + 2 :]],
            [*lines[: k + 1], lines[k], *lines[k + 1 :]],
        ):
            path.write_bytes(b"".join(changed))
            verdict = verify(path, heads)
            line = k + 2 if len(changed) == 7 else k + 1
            assert (verdict.fault_line, verdict.fault) == (line, "does not match its chain")
    path.write_bytes(b"".join(lines[:-1]))
    assert verify(path).fault == ""
    assert "entry 6 does not end" in verify(path, heads).fault


def test_a_bad_line_is_told_and_the_rest_is_read(path: Path) -> None:
    write(path, *"abc")
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], b"[]", b'{"event":1}', b"\xff", lines[2]]) + b"\n")
    found = list(read(path))
    assert [e.line if isinstance(e, EventLine) else e[:20] for e in found] == [
        1, "line 2 is no event: ", "line 3 is no event: ", "line 4 is no event: ", 5
    ]  # fmt: skip


def test_facts_that_are_not_strict_json_are_refused_and_leave_nothing(path: Path) -> None:
    events = Events.open(path)
    with pytest.raises(ValueError, match="JSON"):
        events.append("bad", {"loss": float("nan")}, WALL)
    events.append("good", {}, WALL)
    events.close()
    assert told(path) == [("good", {})]


@pytest.mark.parametrize("count", [0, 1, 40])
def test_a_full_disk_owes_the_rest_and_pays_it_first(path: Path, count: int) -> None:
    events = Events.open(path)
    events.append("a", {}, WALL)
    with (
        crash_fs(CrashFs(at=1, keep=count, error=errno.ENOSPC)),
        pytest.raises(OSError, match="No"),
    ):
        events.append("b", {}, WALL)
    assert not events.append("b", {}, WALL, once=True)
    events.append("c", {}, WALL)
    events.close()
    assert [name for name, _ in told(path)] == ["a", "b", "c"]
    assert verify(path).fault == ""


def test_killed_at_every_call_the_journal_goes_on(path: Path) -> None:
    with crash_fs(CrashFs()) as plan:
        write(path, *"abcd")
    for at in range(1, plan.calls + 1):
        path.unlink()
        with crash_fs(CrashFs(at=at, keep=7 * at)), pytest.raises(Killed):
            write(path, *"abcd")
        events = Events.open(path)
        for name in "abcd":
            events.append(name, {"attempt": 1, "why": 'a "b" ü'}, LATER, once=True)
        events.sync()
        events.close()
        assert [name for name, _ in told(path)] == ["a", "b", "c", "d"]
        assert verify(path).fault == ""


def test_a_failed_sync_is_never_followed_by_a_good_one(path: Path) -> None:
    events = Events.open(path)
    events.append("a", {}, WALL)
    with crash_fs(CrashFs(at=1, error=errno.EIO)), pytest.raises(OSError, match="Input/output"):
        events.sync()
    with pytest.raises(OSError, match="earlier sync failed"):
        events.sync()
    head = events.head
    with pytest.raises(OSError, match="earlier sync failed"):
        events.append("b", {}, WALL)
    assert events.head == head
    events.close()
