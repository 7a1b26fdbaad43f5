"""The audit finds each kind of tampering at its line, and nothing in what crashes leave."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.core.chain import START, close
from supervisor.core.messages import LedgerPosition
from supervisor.sidecars.ledger import auditing
from supervisor.sidecars.ledger.auditing import audit
from supervisor.sidecars.ledger.line import Layout
from tests.support.steps import WALL, again, keep, new, step, steps
from trainer.contract.wire import Step

SIZE = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.loss.json"


@pytest.fixture
def lines(path: Path) -> list[bytes]:
    """A ledger of two attempts, as lines with their newlines."""
    keep(path, (1, 0, steps(1, 25)), (2, 20, steps(21, 22) + steps(23, SIZE - 3, salt=1.0)))
    found = path.read_bytes().splitlines(keepends=True)
    assert len(found) == SIZE
    return found


def foreign(tmp_path: Path) -> list[bytes]:
    other = tmp_path / "other"
    other.mkdir(exist_ok=True)
    keep(other / "demo.loss.json", (1, 0, steps(1, SIZE, salt=0.5)))
    return (other / "demo.loss.json").read_bytes().splitlines(keepends=True)


def edit(line: bytes) -> bytes:
    at = line.index(b'"loss":') + 9
    return line[:at] + (b"1" if line[at : at + 1] != b"1" else b"2") + line[at + 1 :]


TAMPERINGS: dict[str, Callable[[list[bytes], int, list[bytes]], list[bytes]]] = {
    "edit": lambda lines, k, _: [*lines[:k], edit(lines[k]), *lines[k + 1 :]],
    "edit of the chain": lambda lines, k, _: [
        *lines[:k], lines[k][:-5] + b"x" + lines[k][-4:], *lines[k + 1 :]
    ],
    "delete": lambda lines, k, _: lines[:k] + lines[k + 1 :],
    "swap": lambda lines, k, _: [*lines[:k], lines[k + 1], lines[k], *lines[k + 2 :]],
    "insert": lambda lines, k, other: [*lines[:k], other[k], *lines[k:]],
    "duplicate": lambda lines, k, _: [*lines[:k], lines[k - 1], *lines[k:]],
    "a foreign run's line": lambda lines, k, other: [*lines[:k], other[k], *lines[k + 1 :]],
    "cut of bytes": lambda lines, k, _: [
        *lines[:k], lines[k][:60] + lines[k + 1][80:], *lines[k + 2 :]
    ],
    "lost newline": lambda lines, k, _: [*lines[:k], lines[k][:-1], *lines[k + 1 :]],
    "damaged tail": lambda lines, k, _: [*lines[:k], lines[k][:-9] + b"\n", *lines[k + 1 :]],
}  # fmt: skip


@pytest.mark.parametrize("kind", TAMPERINGS)
def test_tampering_is_found_at_its_line(
    path: Path, lines: list[bytes], tmp_path: Path, kind: str
) -> None:
    assert audit(path).fault == ""
    other = foreign(tmp_path)
    for k in range(1, SIZE - 2):
        path.write_bytes(b"".join(TAMPERINGS[kind](lines, k, other)))
        found = audit(path)
        assert found.fault.endswith("does not match its chain"), k
        assert found.fault_line == k + 1
        assert found.entries == k


def test_the_first_line_is_guarded_too(path: Path, lines: list[bytes]) -> None:
    for changed in ([edit(lines[0]), *lines[1:]], lines[1:], [lines[0][:-1], *lines[1:]]):
        path.write_bytes(b"".join(changed))
        assert audit(path).fault_line == 1


def test_a_last_line_that_was_changed_is_found(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join([*lines[:-1], edit(lines[-1])]))
    found = audit(path)
    assert (found.fault_line, found.fault) == (SIZE, "does not match its chain")


def test_a_cut_end_is_found_by_what_seals_and_heads_say(path: Path, lines: list[bytes]) -> None:
    whole = audit(path)
    end = LedgerPosition(whole.entries, whole.bytes, whole.chain, whole.last_step)
    head = (whole.entries, whole.chain)
    assert audit(path, positions=[end], head=head).fault == ""
    path.write_bytes(b"".join(lines[:-1]))
    assert audit(path).fault == ""
    assert f"chain {end.chain}" in audit(path, positions=[end]).fault
    assert "not held any more" in audit(path, head=head).fault


def test_a_position_must_be_exact_in_entries_bytes_chain_and_step(path: Path) -> None:
    ledger = new(path)
    positions = [ledger.record(1, 1, [one], WALL).position for one in steps(1, 9)]
    ledger.close()
    assert audit(path, positions=positions, head=(4, positions[3].chain)).fault == ""
    nothing = LedgerPosition(0, 0, START, 0)
    assert audit(path, positions=[nothing], head=(0, START)).fault == ""
    for name, value in (("entries", 5), ("bytes", 7), ("chain", "e" * 32), ("step", 8)):
        wrong = positions[3]._replace(**{name: value})
        assert audit(path, positions=[positions[1], wrong]).fault, name
    assert "not held any more" in audit(path, head=(5, positions[3].chain)).fault


# A ledger can be well chained and yet tell a story that cannot be.


def forge(path: Path, *told: tuple[int, int, Step, str]) -> None:
    """Write lines (attempt, policy, step, mark) with a chain that holds."""
    chain, data = START, b""
    for attempt, policy, one, mark in told:
        line, chain = close(chain, Layout(attempt, policy, ()).body(one, mark, WALL))
        data += line
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("told", "line", "reason"),
    [
        ([(1, 1, 2, ""), (1, 1, 4, "")], 3, "step 4 follows step 2: a gap"),
        ([(1, 1, 2, ""), (1, 1, 2, "")], 3, "step 2 stands twice in attempt 1"),
        ([(1, 1, 2, ""), (1, 1, 1, "")], 3, "step 1 stands twice in attempt 1"),
        ([(2, 1, 1, ""), (1, 1, 2, "")], 3, "attempt 1 comes after attempt 2"),
        ([(2, 1, 5, "")], 2, "step 5 follows step 1: a gap"),
        ([(1, 2, 2, "")], 2, "attempt 1 changes from policy 1"),
        ([(1, 1, 2, "run:S")], 2, "a second run's mark: run:S"),
    ],
)
def test_a_story_that_cannot_be_is_found_at_its_line(
    path: Path, told: list[tuple[int, int, int, str]], line: int, reason: str
) -> None:
    lines = [(a, p, step(s), mark) for a, p, s, mark in [(1, 1, 1, "run:R"), *told]]
    forge(path, *lines)
    found = audit(path)
    assert (found.fault_line, found.fault) == (line, reason)


def test_a_first_line_without_a_runs_mark_is_a_fault(path: Path) -> None:
    forge(path, (1, 1, step(1), ""), (1, 1, step(2), "run:R"))
    assert (audit(path).fault_line, audit(path).fault) == (1, "the first line bears no run's mark")


REST = b',"arm":"a","lr":0.1,"policy":1,"attempt":1,"data":"","mark":"","time":""'


@pytest.mark.parametrize(
    "body",
    [
        b'{"event":"sealed"',
        b'{"step":2,"loss":1',
        b'[{"step":2',
        b'{"step":"2","loss":1.0,"nonfinite":""' + REST,
        b'{"step":2,"loss":1,"nonfinite":""' + REST,
        b'{"step":2,"loss":NaN,"nonfinite":""' + REST,
        b'{"step":2,"loss":null,"nonfinite":""' + REST,
        b'{"step":2,"loss":1.0,"nonfinite":"nan"' + REST,
        b'{"step":2,"loss":1.0,"nonfinite":""' + REST.replace(b'"policy"', b'"rule"'),
        b'{"step":2,"loss":1.0,"nonfinite":""' + REST.replace(b',"time":""', b""),
        b'{"step":2,"nonfinite":"","loss":1.0' + REST,
    ],
)
def test_a_chained_line_that_is_no_ledger_line_is_found(path: Path, body: bytes) -> None:
    forge(path, (1, 1, step(1), "run:R"))
    chain = audit(path).chain
    line, chain = close(chain, body)
    after, _ = close(chain, Layout(1, 1, ()).body(step(3), "", WALL))
    path.write_bytes(path.read_bytes() + line + after)
    found = audit(path)
    assert (found.fault_line, found.fault) == (2, "verifies but is no ledger line")


# ---------------------------------------------------------------- side by side


def test_ranges_side_by_side_find_what_one_pass_finds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "SHARE", 3_000)
    ledger = new(path)
    positions = [ledger.record(1, 1, steps(i, i + 9), WALL).position for i in range(1, 500, 10)]
    ledger.close()
    path.write_bytes(path.read_bytes() + b'{"step":501,"x')
    ledger = again(path, positions[-1])
    ledger.begin(2, 300, "ab" * 32)
    ledger.mark("seal:" + "1" * 32)
    positions.append(
        ledger.record(2, 1, steps(301, 400) + steps(401, 700, salt=1.0), WALL).position
    )
    ledger.close()
    head = (positions[9].entries, positions[9].chain)
    reports = [audit(path, positions=positions, head=head, processes=count) for count in (1, 2, 3)]
    monkeypatch.setattr(auditing, "SHARE", 1 << 30)
    reports.append(audit(path, positions=positions, head=head))
    assert reports[0].fault == ""
    assert (reports[0].torn_regions, reports[0].voided, reports[0].steps) == (1, 100, 700)
    assert reports[1:] == reports[:1] * 3
    lines = path.read_bytes().splitlines(keepends=True)
    for k in (*range(16), 250, 499, 500, 501, 600, 799):  # some are the last of a range
        path.write_bytes(
            b"".join([*lines[:k], edit(lines[k]) if k != 500 else b"zz\n", *lines[k + 1 :]])
        )
        monkeypatch.setattr(auditing, "SHARE", 3_000)
        cut = [audit(path, processes=count) for count in ((1, 2) if k % 5 == 0 else (1,))]
        monkeypatch.setattr(auditing, "SHARE", 1 << 30)
        whole = audit(path)
        assert cut == [whole] * len(cut)
        # Behind a torn piece the break shows at the piece, and the fault names both lines.
        assert whole.fault_line == (k if k == 501 else k + 1)
        assert f"line {k + 1} " in whole.fault or whole.fault_line == k + 1


def test_a_child_that_dies_costs_time_and_no_truth(
    path: Path, lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = audit(path)
    monkeypatch.setattr(auditing, "SHARE", 2_000)
    monkeypatch.setattr(auditing, "_START", "raise SystemExit(3)")
    assert audit(path, processes=3) == whole
    assert len(lines) == whole.entries


def test_an_empty_ledger_and_a_torn_one_line_ledger_hold_nothing_and_have_no_fault(
    path: Path,
) -> None:
    for data in (b"", b'{"step":1', b"\0" * 5000, b"\n\n"):
        path.write_bytes(data)
        found = audit(path)
        assert (found.fault, found.entries, found.steps, found.torn_tail) == ("", 0, 0, len(data))


def test_a_line_being_written_while_the_audit_reads_is_no_fault(
    path: Path, lines: list[bytes]
) -> None:
    for count in range(len(lines[-1])):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:count])
        assert dataclasses.replace(audit(path), torn_tail=0).fault == ""


def test_reading_needs_no_right_to_write(path: Path, lines: list[bytes]) -> None:
    path.chmod(0o440)
    assert audit(path).entries == len(lines)


VERIFIER = r"""
import hashlib, sys
region, lines, head, first = hashlib.sha256(b"0" * 32), 0, "", 0
for number, line in enumerate(open(sys.argv[1], "rb"), 1):
    body, mark, rest = line.rpartition(b',"chain":"')
    whole = region.copy()
    whole.update(body)
    chain = whole.hexdigest()[:32].encode()
    if mark and rest == chain + b'"}\n':
        region, lines, head, first = hashlib.sha256(chain), lines + 1, chain.decode(), 0
    else:
        region.update(line)
        first = first or number
print(lines, head, f"but from line {first} on nothing verifies" if first else "")
"""


def test_a_few_lines_of_standard_library_verify_a_ledger(path: Path, lines: list[bytes]) -> None:
    assert len(VERIFIER.strip().splitlines()) == 13

    def verify() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", "-c", VERIFIER, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )

    found = audit(path)
    assert verify().stdout.split() == [str(found.entries), found.chain]
    path.write_bytes(b"".join(lines[:10]) + b'{"step":11,"xx')
    ledger = again(path)
    ledger.begin(3, 10, "ab" * 32)
    ledger.record(3, 1, steps(11, 14), WALL)
    ledger.close()
    found = audit(path)
    assert found.torn_regions == 1
    assert verify().stdout.split() == [str(found.entries), found.chain]
    path.write_bytes(b"".join([*lines[:6], edit(lines[6]), *lines[7:]]))
    assert verify().stdout.endswith("but from line 7 on nothing verifies\n")
