"""A ledger whose run was rewound: its old lines are no measure for what runs again."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.core.messages import LedgerPosition
from supervisor.errors import LedgerError
from supervisor.sidecars.ledger import Cut, Ledger, audit, canonical
from tests.support.steps import DIGEST, WALL, again, fields, keep, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ten steps of attempt 1."""
    keep(tmp_path / "demo.loss.json", (1, 0, steps(1, 10)))
    return tmp_path / "demo.loss.json"


def end_of(path: Path) -> LedgerPosition:
    ledger = again(path)
    ledger.close()
    return ledger.position


def after(path: Path, step: int) -> LedgerPosition:
    """The position of an untouched run's step, as its seal would hold it."""
    lines = path.read_bytes().splitlines(keepends=True)[:step]
    return LedgerPosition(step, len(b"".join(lines)), fields(path)[step - 1]["chain"], step)


def rewound(path: Path, cut: Cut, from_seal: bool) -> Ledger:  # noqa: FBT001 - a case of a test
    ledger = again(path, after(path, cut.step) if from_seal else None)
    ledger.note_cut(cut)
    return ledger


@pytest.mark.parametrize("from_seal", [True, False])
def test_equal_steps_are_appended_and_prove_nothing(path: Path, *, from_seal: bool) -> None:
    ledger = rewound(path, Cut(4, end_of(path)), from_seal)
    assert (ledger.last_step, ledger.position.step) == (4, 10)
    ledger.begin(2, 4, DIGEST)
    outcome = ledger.record(2, 1, steps(5, 8), WALL)
    ledger.close()
    assert (outcome.proved, outcome.differed, outcome.appended) == (0, None, 4)
    assert ledger.last_step == 8
    view = [(e.fields["step"], e.fields["attempt"]) for e in canonical(path)]
    assert view == [(i, 1) for i in range(1, 5)] + [(i, 2) for i in range(5, 9)]
    assert fields(path)[10]["mark"] == f"from:{DIGEST[:32]}"
    assert not audit(path).fault


@pytest.mark.parametrize("from_seal", [True, False])
def test_the_new_lines_gone_over_again_differ_from_nothing(path: Path, *, from_seal: bool) -> None:
    cut = Cut(4, end_of(path))
    for taken in (steps(5, 8, salt=1.0), steps(5, 9, salt=1.0)):
        ledger = rewound(path, cut, from_seal)
        ledger.begin(2, 4, DIGEST)
        outcome = ledger.record(2, 1, taken, WALL)
        ledger.close()
        assert (outcome.differed, outcome.proved) == (None, 0)
    assert len(fields(path)) == 15


def test_a_later_attempt_is_held_against_the_new_lines(path: Path) -> None:
    cut = Cut(4, end_of(path))
    for attempt, salt in ((2, 1.0), (3, 1.0), (4, 0.0)):
        ledger = rewound(path, cut, from_seal=True)
        ledger.begin(attempt, 4, DIGEST)
        outcome = ledger.record(attempt, 1, steps(5, 8, salt=salt), WALL)
        ledger.close()
        assert outcome.proved == (4 if attempt == 3 else 0)
        assert outcome.differed == (5 if attempt == 4 else None)


def test_a_fall_back_below_the_rewind_is_a_replay_up_to_it(path: Path) -> None:
    ledger = rewound(path, Cut(6, end_of(path)), from_seal=False)
    ledger.begin(2, 4, DIGEST)
    outcome = ledger.record(2, 1, steps(5, 8), WALL)
    ledger.close()
    assert (outcome.proved, outcome.appended) == (2, 2)
    assert [line["step"] for line in fields(path)[10:]] == [7, 8]


def test_an_attempt_that_needs_older_lines_reads_them_with_the_rewind(path: Path) -> None:
    """Opened at the seal of step 6, resumed from an older one."""
    ledger = rewound(path, Cut(6, end_of(path)), from_seal=True)
    ledger.begin(2, 2, DIGEST)
    outcome = ledger.record(2, 1, steps(3, 8), WALL)
    ledger.close()
    assert (outcome.proved, outcome.appended) == (4, 2)


def test_a_ledger_shorter_than_the_rewind_says_is_refused(path: Path) -> None:
    cut = Cut(4, end_of(path)._replace(entries=11))
    ledger = again(path)
    with pytest.raises(LedgerError, match="the rewind or pivot to step 4 speaks of 11"):
        ledger.note_cut(cut)
    ledger.close()


# ---------------------------------------------------------------- where a run comes from


@pytest.mark.parametrize(
    "origin", ["fork:9c3d head:10:" + "a" * 32 + ":" + "b" * 32, "import:" + "c" * 64]
)
def test_the_first_line_names_the_origin_and_no_other_is_accepted(
    tmp_path: Path, origin: str
) -> None:
    path = tmp_path / "demo.loss.json"
    start = LedgerPosition(0, 0, "0" * 32, 500)
    ledger = Ledger.open(path, f"1a2b {origin}", start, fresh=True)
    ledger.begin(1, 500, DIGEST)
    ledger.record(1, 1, steps(501, 503), WALL)
    ledger.close()
    marks = [line["mark"] for line in fields(path)]
    assert marks == [f"run:1a2b {origin}", f"from:{DIGEST[:32]}", ""]
    found = audit(path)
    assert (found.fault, found.run, found.first_step) == ("", "1a2b", 501)
    again = Ledger.open(path, f"1a2b {origin}", start, fresh=False)
    assert again.position.step == 503
    again.close()
    for other in ("1a2b", f"1a2b {origin[:-1]}d", f"ffff {origin}"):
        with pytest.raises(LedgerError, match="another run"):
            Ledger.open(path, other, start, fresh=False)
