"""``intent.json``: its golden form, the form before it, and whose start a start is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor import clock
from supervisor.errors import RefusedError
from supervisor.perform.intent import Start, read_intent, start_of, write_intent, write_start
from supervisor.process.identity import boot_id

GOLDEN = (
    '{"schema": "stepkeeper.intent/2", "want": "stop", "by": "deadline", "boot_id": "B", '
    '"done": false, "hold": true, "time": "T", "start": {"after": 7, "boot_id": "S", '
    '"seconds": 12.5}}\n'
)
OLD = '{"want": "stop", "by": "uid 0", "boot_id": "B", "done": true, "hold": false, "time": "T"}\n'


def test_the_form_is_the_golden_one(tmp_path: Path) -> None:
    write_start(tmp_path, Start(7, "S", 12.5), "uid 0 pid 1")
    write_intent(tmp_path, "stop", "deadline", done=False, hold=True)
    text = (tmp_path / "intent.json").read_text()
    record = json.loads(text)
    for field, value in (("boot_id", "B"), ("time", "T")):
        text = text.replace(f'"{field}": "{record[field]}"', f'"{field}": "{value}"')
    assert text == GOLDEN


def test_what_is_not_said_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "intent.json").write_text(GOLDEN)
    write_intent(tmp_path, "stop", "", done=True, hold=None)
    record = read_intent(tmp_path)
    assert (record["by"], record["done"], record["hold"]) == ("deadline", True, True)
    assert record["start"] == {"after": 7, "boot_id": "S", "seconds": 12.5}


def test_the_form_before_named_no_start(tmp_path: Path) -> None:
    (tmp_path / "intent.json").write_text(OLD)
    record = read_intent(tmp_path)
    assert (record["want"], record["done"], record["start"]) == ("stop", True, None)


def test_a_newer_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "intent.json").write_text('{"schema": "stepkeeper.intent/3", "want": "run"}\n')
    with pytest.raises(RefusedError, match="newer than stepkeeper"):
        read_intent(tmp_path)


@pytest.mark.parametrize("intent", [{}, {"want": "stop", "done": True}, {"done": True}])
def test_a_start_after_a_good_end_is_a_new_one(intent: dict[str, object]) -> None:
    intent = (
        {**intent, "start": {"after": 3, "boot_id": boot_id(), "seconds": 1.0}} if intent else {}
    )
    start = start_of(intent, 9)
    assert (start.after, start.boot_id) == (9, boot_id())
    assert start.seconds == pytest.approx(clock.since_boot(), abs=5)


def test_a_start_after_a_death_is_the_same_one_going_on() -> None:
    before = Start(3, boot_id(), 1.0)
    assert start_of({"done": False, "start": before._asdict()}, 9) == before


def test_another_boot_begins_its_hours_anew_and_keeps_its_counts() -> None:
    start = start_of({"done": False, "start": Start(3, "another", 1.0)._asdict()}, 9)
    assert (start.after, start.boot_id) == (3, boot_id())
    assert start.seconds > 1.0
