"""The replay rule: equal steps prove, from the first difference on every step is appended."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from supervisor.core.messages import LedgerPosition
from supervisor.errors import LedgerError
from supervisor.sidecars.ledger import audit, canonical
from tests.support.steps import WALL, again, fields, keep, new, step, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.loss.json"


def view(path: Path) -> list[tuple[int, int]]:
    """(step, attempt) of the canonical view."""
    return [(entry.fields["step"], entry.fields["attempt"]) for entry in canonical(path)]


def physical(path: Path) -> list[tuple[int, int]]:
    return [(line["step"], line["attempt"]) for line in fields(path)]


def test_equal_steps_add_nothing_and_are_proved(path: Path) -> None:
    first, second = keep(path, (1, 0, steps(1, 10)), (2, 4, steps(5, 12)))
    assert first.appended == 10
    assert (second.proved, second.consistent, second.differed, second.appended) == (6, 0, None, 2)
    assert physical(path) == [(i, 1) for i in range(1, 11)] + [(11, 2), (12, 2)]
    assert not audit(path).fault


def test_without_a_data_digest_equal_steps_are_consistent_not_proved(path: Path) -> None:
    _, second = keep(path, (1, 0, steps(1, 10, data="")), (2, 4, steps(5, 10, data="")))
    assert (second.proved, second.consistent, second.appended) == (0, 6, 0)


@pytest.mark.parametrize("k", range(5, 11))
def test_from_the_first_difference_on_every_step_is_appended_equal_or_not(
    path: Path, k: int
) -> None:
    replay = [step(i, salt=1.0 if i == k else 0.0) for i in range(5, 13)]
    _, second = keep(path, (1, 0, steps(1, 10)), (2, 4, replay))
    assert (second.proved, second.differed, second.appended) == (k - 5, k, 13 - k)
    assert "loss" in second.difference
    assert "attempt 1" in second.difference
    assert physical(path)[10:] == [(i, 2) for i in range(k, 13)]
    assert view(path) == [(i, 1) for i in range(1, k)] + [(i, 2) for i in range(k, 13)]
    assert audit(path).voided == 11 - k


@pytest.mark.parametrize(
    ("fact", "changes"),
    [
        ("loss", {"loss": 4.0}),
        ("nonfinite", {"loss": None, "nonfinite": "nan"}),
        ("arm", {"arm": "prose"}),
        ("lr", {"lr": 2e-4}),
        ("data", {"data": "f" * 16}),
        ("data", {"data": ""}),
    ],
)
def test_each_fact_alone_makes_a_difference_and_is_named(
    path: Path, fact: str, changes: dict[str, object]
) -> None:
    _, second = keep(path, (1, 0, steps(1, 5)), (2, 2, [step(3), step(4, **changes), step(5)]))
    assert (second.proved, second.differed, second.appended) == (1, 4, 2)
    assert second.difference.startswith(f"{fact} ") or f"; {fact} " in second.difference


def test_the_smallest_difference_of_a_float_is_one(path: Path) -> None:
    near = step(3)._replace(loss=math.nextafter(step(3).loss or 0.0, 9.0))
    _, second = keep(path, (1, 0, steps(1, 5)), (2, 2, [near]))
    assert second.differed == 3


def test_another_policy_is_a_difference(path: Path) -> None:
    ledger = new(path)
    ledger.record(1, 1, steps(1, 5), WALL)
    ledger.begin(2, 3, "")
    outcome = ledger.record(2, 2, steps(4, 6), WALL)
    ledger.close()
    assert (outcome.differed, outcome.difference) == (4, "policy 2, was 1 (attempt 1)")
    assert not audit(path).fault


def test_extras_and_time_are_no_facts(path: Path) -> None:
    extras = (("grad_norm", 9.0),)
    _, second = keep(path, (1, 0, steps(1, 5)), (2, 2, steps(3, 5, extras=extras)))
    assert (second.proved, second.appended) == (3, 0)


def test_three_attempts_with_a_differing_middle(path: Path) -> None:
    keep(
        path,
        (1, 0, steps(1, 10)),
        (2, 2, steps(3, 5) + steps(6, 8, salt=1.0)),
        (3, 2, steps(3, 5) + steps(6, 7, salt=1.0) + steps(8, 12)),
    )
    assert physical(path) == (
        [(i, 1) for i in range(1, 11)] + [(6, 2), (7, 2), (8, 2)] + [(i, 3) for i in range(8, 13)]
    )
    assert view(path) == (
        [(i, 1) for i in range(1, 6)] + [(6, 2), (7, 2)] + [(i, 3) for i in range(8, 13)]
    )
    found = audit(path)
    assert (found.fault, found.steps, found.voided) == ("", 12, 6)
    assert [a[:4] for a in found.attempts] == [(1, 1, 1, 10), (2, 1, 6, 8), (3, 1, 8, 12)]


def test_a_first_attempts_value_that_a_later_one_voided_proves_nothing(path: Path) -> None:
    *_, third = keep(path, (1, 0, steps(1, 6)), (2, 2, steps(3, 6, salt=1.0)), (3, 2, steps(3, 6)))
    assert (third.proved, third.differed, third.appended) == (0, 3, 4)


def test_the_same_attempt_read_again_by_another_supervisor_adds_nothing(path: Path) -> None:
    keep(path, (1, 0, steps(1, 10)), (2, 4, steps(5, 15)))
    before = path.read_bytes()
    ledger = again(path)
    ledger.begin(2, 4, "")
    outcome = ledger.record(2, 1, steps(5, 15), WALL)
    assert (outcome.proved, outcome.appended, outcome.differed) == (6, 0, None)
    assert path.read_bytes() == before
    assert ledger.record(2, 1, steps(16, 16), WALL).appended == 1
    ledger.close()


def test_a_difference_is_found_again_when_another_supervisor_reads_the_reports_anew(
    path: Path,
) -> None:
    keep(path, (1, 0, steps(1, 10)), (2, 4, steps(5, 6) + steps(7, 12, salt=1.0)))
    before = path.read_bytes()
    ledger = again(path)
    ledger.begin(2, 4, "")
    outcome = ledger.record(2, 1, steps(5, 6) + steps(7, 12, salt=1.0), WALL)
    ledger.close()
    assert (outcome.proved, outcome.differed, outcome.appended) == (2, 7, 0)
    assert path.read_bytes() == before


def test_an_own_line_that_is_not_repeated_stands_and_is_named(path: Path) -> None:
    keep(path, (1, 0, steps(1, 10)))
    before = path.read_bytes()
    ledger = again(path)
    ledger.begin(1, 0, "")
    outcome = ledger.record(1, 1, [*steps(1, 4), *steps(5, 10, salt=1.0)], WALL)
    ledger.close()
    assert (outcome.differed, outcome.appended) == (5, 0)
    assert "stands" in outcome.difference
    assert path.read_bytes() == before


def test_the_position_is_that_of_the_last_steps_canonical_line(path: Path) -> None:
    ledger = new(path)
    positions = [ledger.record(1, 1, [one], WALL).position for one in steps(1, 9)]
    assert positions[-1] == ledger.position
    ledger.begin(2, 2, "")
    for number in range(3, 10):
        outcome = ledger.record(2, 1, [step(number)], WALL)
        assert outcome.position == positions[number - 1]
        assert outcome.proved == 1
    assert ledger.record(2, 1, steps(4, 6), WALL).position == positions[5]
    differing = ledger.record(2, 1, [step(7, salt=1.0)], WALL)
    ledger.close()
    assert differing.position == LedgerPosition(
        10, path.stat().st_size, fields(path)[-1]["chain"], 7
    )
    assert not audit(path, positions=[*positions, differing.position]).fault


def test_an_attempt_may_resume_before_the_newest_seal(path: Path) -> None:
    ledger = new(path)
    positions = [ledger.record(1, 1, [one], WALL).position for one in steps(1, 20)]
    ledger.close()
    ledger = again(path, positions[14])
    ledger.begin(2, 3, "")
    outcome = ledger.record(2, 1, steps(4, 18), WALL)
    ledger.close()
    assert (outcome.proved, outcome.appended) == (15, 0)
    assert outcome.position == positions[17]


def test_steps_that_would_leave_a_gap_are_refused(path: Path) -> None:
    ledger = new(path)
    ledger.record(1, 1, steps(1, 5), WALL)
    before = path.read_bytes()
    for wrong in (steps(7, 8), [step(6), step(8)], [step(6), step(6)]):
        with pytest.raises(LedgerError, match="cannot record step"):
            ledger.record(1, 1, wrong, WALL)
    with pytest.raises(LedgerError, match="ends at step 5"):
        ledger.begin(2, 9, "")
    ledger.begin(2, 4, "")
    with pytest.raises(LedgerError, match="step 5 is next"):
        ledger.record(2, 1, steps(3, 6), WALL)
    with pytest.raises(LedgerError, match="the ledger ends"):
        ledger.record(2, 1, steps(9, 9), WALL)
    with pytest.raises(ValueError, match="attempt 2 has begun"):
        ledger.record(3, 1, steps(5, 6), WALL)
    ledger.close()
    assert path.read_bytes() == before


def test_a_ledger_that_was_cut_while_it_is_open_is_refused_not_taken_for_a_difference(
    path: Path,
) -> None:
    ledger = new(path)
    ledger.record(1, 1, steps(1, 9), WALL)
    path.write_bytes(path.read_bytes()[:500])
    ledger.begin(2, 0, "")
    with pytest.raises(LedgerError, match="shorter than it was"):
        ledger.record(2, 1, steps(1, 9), WALL)
    ledger.close()
    assert path.stat().st_size == 500


def test_a_run_may_begin_from_weights_of_another(path: Path) -> None:
    ledger = new(path)
    ledger.begin(1, 112_700, "ab" * 32)
    with pytest.raises(LedgerError):
        ledger.record(1, 1, steps(112_700, 112_701), WALL)
    ledger.record(1, 1, steps(112_701, 112_705), WALL)
    ledger.close()
    assert audit(path).first_step == 112_701


def test_a_long_replay_over_many_segments_is_compared_line_by_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = new(path)
    for first in range(1, 20_001, 500):
        ledger.record(1, 1, steps(first, first + 499), WALL)
    ledger.begin(2, 7_000, "")
    proved = 0
    for first in range(7_001, 20_001, 333):
        last = min(first + 332, 20_000)
        proved += ledger.record(2, 1, steps(first, last), WALL).proved
    assert proved == 13_000
    end = ledger.position
    real, read = os.pread, []
    monkeypatch.setattr(os, "pread", lambda *given: read.append(given[1]) or real(*given))
    ledger.begin(3, 19_990, "")
    assert ledger.record(3, 1, steps(19_991, 20_000), WALL).position == end
    ledger.close()
    assert sum(read) < 5_000 * 300, "a seek reads a segment's lines at most"
