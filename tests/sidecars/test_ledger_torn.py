"""Torn tails: completed where they are the next line's beginning, else closed off and left."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from supervisor.core.messages import LedgerPosition
from supervisor.sidecars.ledger import Ledger, audit, canonical
from tests.support.steps import LATER, WALL, again, new, step, steps
from trainer.contract.wire import Step

SEAL = "seal:" + "5" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.loss.json"


class Torn:
    """Five whole lines, and the sixth, which bears a seal's mark."""

    def __init__(self, path: Path) -> None:
        ledger = new(path)
        self.position = ledger.record(
            1, 1, steps(1, 5, extras=(("grad_norm", 0.5),)), WALL
        ).position
        ledger.mark(SEAL)
        ledger.record(1, 1, [self.sixth], WALL)
        ledger.close()
        data = path.read_bytes()
        self.whole, self.line = data[: self.position.bytes], data[self.position.bytes :]
        self.path = path

    @property
    def sixth(self) -> Step:
        return step(6, extras=(("grad_norm", 0.25),))

    def leave(self, tail: bytes) -> None:
        self.path.write_bytes(self.whole + tail)

    def go_on(self, after: LedgerPosition | None = None, **changes: object) -> bytes:
        """Another supervisor records step 6 later; what then follows the five lines."""
        ledger = again(self.path, after)
        ledger.mark(SEAL)
        ledger.begin(1, 0, "")
        ledger.record(1, 1, [self.sixth._replace(**changes)], LATER)
        position = ledger.position
        ledger.begin(2, 5, "")
        again_6 = ledger.record(2, 1, [self.sixth._replace(**changes)], LATER)
        assert (again_6.proved, again_6.position) == (1, position)
        ledger.close()
        data = self.path.read_bytes()
        assert data.startswith(self.whole)
        assert len(data) == position.bytes
        found = audit(self.path, positions=[self.position, position])
        assert found.fault == ""
        assert [entry.fields["step"] for entry in canonical(self.path)] == [1, 2, 3, 4, 5, 6]
        again(self.path, position).close()
        return data[self.position.bytes :]


@pytest.mark.slow
def test_a_torn_tail_is_completed_at_every_byte_of_a_line(path: Path) -> None:
    torn = Torn(path)
    for count in range(len(torn.line) + 1):
        tail = torn.line[:count]
        torn.leave(tail)
        found = torn.go_on(torn.position if count % 2 else None)
        assert found.startswith(tail)
        assert found.count(b"\n") == 1
        assert found.count(SEAL.encode()) == 1
        if count == len(torn.line):
            assert found == torn.line


@pytest.mark.slow
def test_a_torn_tail_of_another_step_is_closed_off_at_every_byte(path: Path) -> None:
    torn = Torn(path)
    for count in range(len(b'{"step":6,"loss":'), len(torn.line) - 1):
        tail = torn.line[:count]
        torn.leave(tail)
        found = torn.go_on(loss=9.5)
        if b'"loss":' + str(torn.sixth.loss).encode()[:1] not in tail:
            continue
        assert found.startswith(tail + b"\n")
        assert found.count(b"\n") == 2
        assert audit(path).torn_regions == 1


def test_a_whole_line_that_lacks_only_its_newline_gets_it_at_open(path: Path) -> None:
    torn = Torn(path)
    torn.leave(torn.line[:-1])
    ledger = again(path)
    assert path.read_bytes() == torn.whole + torn.line
    assert (ledger.torn, ledger.position.entries) == (None, 6)
    assert ledger.position.bytes == path.stat().st_size
    ledger.close()


def test_that_newline_is_durable_before_any_line_follows_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost with later lines kept, it would leave a ledger whose first line names no run."""
    new(path).close()
    ledger = again(path)
    ledger.begin(1, 0, "")
    ledger.record(1, 1, [step(1)], WALL)
    ledger.close()
    path.write_bytes(path.read_bytes()[:-1])
    synced, real = [], os.fdatasync

    def fdatasync(descriptor: int) -> None:
        real(descriptor)
        synced.append(path.read_bytes()[-1:])

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    again(path).close()
    assert synced[-1] == b"\n"


@pytest.mark.parametrize("zeros", [1, 40, 150])
def test_a_first_line_whose_beginning_a_power_cut_took_is_torn_and_recorded_anew(
    path: Path, zeros: int
) -> None:
    ledger = new(path)
    ledger.record(1, 1, [step(1)], WALL)
    ledger.close()
    path.write_bytes(b"\0" * zeros + path.read_bytes()[zeros:])
    ledger = again(path)
    ledger.begin(1, 0, "")
    ledger.record(1, 1, steps(1, 3), LATER)
    ledger.close()
    found = audit(path)
    assert (found.fault, found.entries, found.torn_regions) == ("", 3, 1)


@pytest.mark.parametrize("newline", [b"", b"\n"])
@pytest.mark.parametrize("count", [1, 7, 4096, 200_000])
def test_a_tail_of_zeros_is_closed_off(path: Path, count: int, newline: bytes) -> None:
    torn = Torn(path)
    tail = b"\0" * count + newline
    torn.leave(tail)
    found = torn.go_on()
    assert found.startswith(b"\0" * count + b"\n{")
    assert found.count(b"\n") == 2
    assert audit(path).torn_regions == 1


def test_zeros_behind_a_torn_piece_and_in_the_middle_of_it_are_closed_off(path: Path) -> None:
    torn = Torn(path)
    for at in range(1, len(torn.line), 7):
        for tail in (torn.line[:at] + b"\0" * 50, torn.line[:at] + b"\0" * 9 + torn.line[at + 9 :]):
            torn.leave(tail)
            found = torn.go_on()
            assert found.startswith(tail.removesuffix(b"\n") + b"\n")
            assert audit(path).torn_regions == 1


def test_several_torn_lines_are_one_region_which_the_audit_counts(path: Path) -> None:
    torn = Torn(path)
    torn.leave(b'{"step":6,"lo\n{"st\n\n\xff\xfe{\n{"step":')
    ledger = again(path)
    assert ledger.torn is not None
    assert ledger.torn.lines == 5
    ledger.close()
    torn.go_on()
    found = audit(path)
    assert (found.torn_regions, found.buried, found.entries) == (1, 0, 6)


@pytest.mark.slow
def test_the_last_piece_of_several_torn_ones_is_completed_too(path: Path) -> None:
    torn = Torn(path)
    torn.leave(b'{"step":6,"xx')
    closed = torn.go_on()
    for count in range(len(b'{"step":6,"xx\n'), len(closed)):
        torn.leave(closed[:count])
        assert torn.go_on().count(b"\n") == 2


def test_whole_lines_behind_a_hole_are_torn_and_recorded_anew(path: Path) -> None:
    ledger = new(path)
    positions = [ledger.record(1, 1, [one], WALL).position for one in steps(1, 30)]
    ledger.close()
    data = bytearray(path.read_bytes())
    hole = slice(positions[14].bytes - 40, positions[17].bytes - 90)
    data[hole] = bytes(hole.stop - hole.start)
    path.write_bytes(data)
    ledger = again(path, positions[9])
    assert ledger.position == positions[13]
    assert ledger.torn is not None
    assert ledger.torn.whole == 13
    ledger.begin(1, 0, "")
    assert ledger.record(1, 1, steps(11, 31), LATER).appended == 17
    ledger.close()
    assert path.read_bytes().startswith(bytes(data))
    found = audit(path, positions=positions[:10])
    assert (found.fault, found.torn_regions, found.buried) == ("", 1, 13)
    assert [entry.fields["step"] for entry in canonical(path)] == list(range(1, 32))


@pytest.mark.slow
def test_a_torn_first_line_is_completed_or_closed(path: Path) -> None:
    ledger = new(path)
    ledger.record(1, 1, steps(1, 1), WALL)
    ledger.close()
    line = path.read_bytes()
    for count in range(len(line) + 1):
        path.write_bytes(line[:count])
        ledger = again(path)
        ledger.begin(1, 0, "")
        ledger.record(1, 1, steps(1, 3), LATER)
        ledger.close()
        found = audit(path)
        assert (found.fault, found.run, found.entries) == ("", "R", 3)
        path.write_bytes(line[:count] + b"\0")
        ledger = again(path)
        ledger.begin(1, 0, "")
        ledger.record(1, 1, steps(1, 3), LATER)
        ledger.close()
        assert audit(path).fault == ""


def test_a_torn_piece_of_an_earlier_attempt_is_closed_off(path: Path) -> None:
    torn = Torn(path)
    torn.leave(torn.line[:150])
    ledger = again(path, torn.position)
    ledger.begin(2, 5, "cd" * 32)
    ledger.record(2, 1, [torn.sixth], WALL)
    ledger.close()
    assert path.read_bytes().startswith(torn.whole + torn.line[:150] + b'\n{"step":6,')
    assert audit(path).fault == ""


@pytest.mark.slow
def test_random_bytes_behind_the_last_line_never_hide_it_or_stop_the_run(path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - bytes for a test
    torn = Torn(path)
    for _ in range(300):
        junk = chance.randbytes(chance.randrange(1, 300))
        if chance.random() < 0.5:
            junk = torn.line[: chance.randrange(len(torn.line))] + junk
        torn.leave(junk)
        assert torn.go_on().startswith(junk)


def test_what_is_torn_is_told(path: Path) -> None:
    torn = Torn(path)
    torn.leave(b"abc")
    ledger = Ledger.open(path, "R", torn.position, fresh=False)
    region = ledger.torn
    ledger.close()
    assert region is not None
    assert (region.start, region.bytes, region.lines, region.whole) == (
        torn.position.bytes, 3, 1, 0
    )  # fmt: skip
    assert audit(path).torn_tail == 3
    assert audit(path).fault == ""
