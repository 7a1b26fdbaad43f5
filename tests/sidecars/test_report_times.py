"""Times read from a reports file: by search, not by reading; odd lines are passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.sidecars.report_times import ReportTimes, report_times


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def step(number: int) -> dict[str, object]:
    return {"seq": number, "report": "step", "at": number / 4, "step": number, "loss": 1.5}


READY = {"seq": 2, "report": "ready", "at": 3.0, "step": 0}
LOAD = {"seq": 1, "report": "doing", "at": 1.0, "what": "load", "step": 0}


@pytest.mark.parametrize("first", [1, 301])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_every_step_is_found_and_no_other(first: int, count: int) -> None:
    records: list[object] = [LOAD, READY]
    for number in range(first, first + count):
        records.append(step(number))
        if number % 3 == 0:
            records += [{"report": "phase", "at": 0.0, "step": number}, {"report": "sample"}]
    found = ReportTimes(lines(*records))
    assert [found.at(n) for n in range(first, first + count)] == [
        n / 4 for n in range(first, first + count)
    ]
    assert found.at(first - 1) is None
    assert found.at(first + count) is None
    assert (found.first, found.ready, found.last_step) == (1.0, 3.0, first + count - 1)


def test_waits_are_added_up_within_bounds() -> None:
    wait = {"report": "doing", "at": 10.0, "what": "wait", "step": 2}
    again = {**wait, "at": 50.0}
    said = {"report": "sample", "at": 61.0, "text": 'he said "wait"', "step": 3}
    found = ReportTimes(lines(READY, step(1), wait, {**step(41), "step": 2}, again, said))
    assert found.waited(0.0, 100.0) == pytest.approx(0.25 + 11.0)
    assert found.waited(55.0, 60.0) == pytest.approx(5.0)
    assert found.waited(0.0, 5.0) == 0.0


def test_torn_and_foreign_lines_are_passed_over() -> None:
    data = lines(LOAD, READY, step(1)) + b'{"seq":\n[]\nnull\n' + lines(step(2))
    found = ReportTimes(data + b'{"report":"step","at":9.0,"st')
    assert (found.at(1), found.at(2), found.last_step) == (0.25, 0.5, 2)
    assert found.last == 0.5


@pytest.mark.parametrize("content", [b"", None])
def test_nothing_reported_is_nothing(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "reports.jsonl"
    if content is not None:
        path.write_bytes(content)
    with report_times(path) as found:
        assert found is None


def test_a_trainer_that_was_never_ready_has_only_its_first_and_last_word() -> None:
    found = ReportTimes(lines(LOAD, {**LOAD, "at": 7.0}))
    assert (found.first, found.last, found.ready, found.last_step) == (1.0, 7.0, None, 0)
