"""The ledger read backwards from a place: the same lines stand as in the canonical view."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.sidecars.ledger import backwards, before, canonical

VOIDED = [*range(1, 50), *range(31, 80), *range(61, 62), *range(41, 200), *range(150, 301)]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Attempts that resumed behind one another, a torn piece among their lines."""
    path = tmp_path / "run.loss.json"
    lines = []
    for number, step in enumerate(VOIDED):
        record = {"step": step, "loss": float(number), "nonfinite": "", "arm": "a"}
        lines.append(json.dumps({**record, "chain": f"{number:032x}"}, separators=(",", ":")))
    lines.insert(100, '{"step":77,"loss":1.')
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("block", [64, 300, 1 << 16])
@pytest.mark.parametrize("first", [1, 45, 160, 300])
def test_what_stands_before_the_end_is_what_is_canonical(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, block: int, first: int
) -> None:
    monkeypatch.setattr(backwards, "BLOCK", block)
    expected = [entry.fields for entry in canonical(ledger) if entry.fields["step"] >= first]
    assert before(ledger, ledger.stat().st_size, first) == expected
    assert [line["step"] for line in expected] == list(range(first, 301))


def test_lines_behind_the_place_do_not_count(ledger: Path) -> None:
    data = ledger.read_bytes()
    end = len(b"\n".join(data.split(b"\n")[:49])) + 1
    assert [line["step"] for line in before(ledger, end, 40)] == list(range(40, 50))
    assert before(ledger, 0, 1) == []
