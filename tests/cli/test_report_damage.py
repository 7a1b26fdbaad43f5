"""``report`` of damaged files: each is told of in its place; hostile text stays text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from supervisor.sidecars.events import Events
from tests.support.made_life import writing
from tests.support.reported import both, facts, page
from tests.support.rewriting import rewrite
from tests.support.runs import Run

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m&amp;"


def test_whatever_stands_in_the_files_is_text(run: Run, tmp_path: Path) -> None:
    path = run.path / "demo.samples.json"
    record = json.loads(path.read_text())
    for key in ("prompt", "text", "verdict"):
        record["samples"][-1][key] = HOSTILE
    record["samples"][-1]["scores"] = {HOSTILE: 1.0}
    path.write_text(json.dumps(record))

    def hostile(line: dict[str, Any]) -> None:
        if line.get("event") == "checkpoint-rejected":
            line["facts"]["problem"] = HOSTILE
        if line.get("step") == 2390:
            line["arm"] = HOSTILE

    rewrite(run.path / "events.jsonl", hostile)
    rewrite(run.path / "demo.loss.json", hostile)
    pins = run.path / "checkpoints/pins.json"
    pins.write_text(pins.read_text().replace("before the pivot", HOSTILE.replace("\x1b", "")))
    shown = page(run, tmp_path / "report.html", "--claim", 2390)
    assert [tag for tag, _ in shown.tags].count("script") == 2
    assert "img" not in [tag for tag, _ in shown.tags]
    assert shown.text.count("<script>alert(1)</script>") >= 5
    raw = (tmp_path / "report.html").read_text()
    assert "\u202e" not in raw
    assert "\x1b" not in raw


def _no_ledger(run: Path) -> None:
    (run / "demo.loss.json").unlink()


def _changed_line(run: Path) -> None:
    path = run / "demo.loss.json"
    lines = path.read_bytes().split(b"\n")
    lines[99] = lines[99].replace(b'"loss":', b'"loss":1')
    lines[199] = b"\0\0torn"
    path.write_bytes(b"\n".join(lines))


def _no_journal(run: Path) -> None:
    (run / "events.jsonl").unlink()


def _torn_samples(run: Path) -> None:
    path = run / "demo.samples.json"
    path.write_bytes(path.read_bytes()[:-300])


def _odd_samples(run: Path) -> None:
    path = run / "archive/samples-evicted.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step":"x"}\n[]\n{"st')


def _bad_attempt(run: Path) -> None:
    (run / "attempts/000002/attempt.json").write_text("{}")


def _bad_policy(run: Path) -> None:
    (run / "policies/0001.toml").write_text("= nothing")


def _bad_pins(run: Path) -> None:
    (run / "checkpoints/pins.json").write_text("[]")


def _bad_rejections(run: Path) -> None:
    (run / "checkpoints/rejected.json").write_text("[]")


def _bad_reports(run: Path) -> None:
    (run / "attempts/000001/reports.jsonl").write_bytes(b'{"report":"phase"}\n\xff\n' * 3)


def _no_settings(run: Path) -> None:
    (run / "run.toml").write_text("= nothing")


@pytest.mark.parametrize(
    ("spoil", "part", "words"),
    [
        (_no_ledger, "loss", "No such file"),
        (_changed_line, "", "The ledger does not hold from line 100 on."),
        (_no_journal, "events", "events.jsonl: No such file"),
        (_torn_samples, "samples", "demo.samples.json: "),
        (_odd_samples, "samples", "3 of 6 records are no samples"),
        (_bad_attempt, "attempts", "cannot read"),
        (_bad_policy, "policies", "policies/0001.toml: "),
        (_bad_pins, "checkpoints", "pins.json"),
        (_bad_rejections, "checkpoints", "rejected.json"),
        (_bad_reports, "", ""),
        (_no_settings, "audit", "cannot read"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_damaged_file_is_told_in_its_place_and_the_rest_goes_on(
    run: Run, tmp_path: Path, spoil: Callable[[Path], None], part: str, words: str
) -> None:
    spoil(run.path)
    shown, found = both(run, tmp_path / "report.html")
    assert words in shown.text
    assert (part in found["problems"]) is bool(part)
    assert not part or any(words in text for text in found["problems"][part])
    ids = [attributes.get("id") for tag, attributes in shown.tags if tag == "section"]
    assert len(ids) == 9
    assert found["policies"]
    assert found["checkpoints"]["rows"] or part == "checkpoints"
    assert found["samples"]


def test_what_guards_did_and_whom_they_doubt_is_shown_where_it_is_there(
    run: Run, tmp_path: Path
) -> None:
    journal = Events.open(run.path / "events.jsonl")
    for action, step in (("record", 400), ("alert", 500), ("rollback", 1502)):
        facts_of = {"guard": "spike", "action": action, "step": step}
        journal.append("guard", facts_of, "2026-02-01T00:00:00.000Z")
    back = {"attempt": 4, "last_step": 1502, "to": 1500, "guard": "spike", "step": 1502, "skip": 9}
    journal.append("rolled-back", back, "2026-02-01T00:00:01.000Z")
    journal.close()
    seal = run.path / "checkpoints/step_001800.seal.json"
    digest = sha256(seal.read_bytes()).hexdigest()
    marks = {"schema": "stepkeeper.quarantine/1", "marks": {digest: "after a spike"}}
    (run.path / "checkpoints/quarantine.json").write_text(json.dumps(marks))
    shown, found = both(run, tmp_path / "report.html")
    moves = [(m["step"], m["kind"]) for m in found["marks"] if m["kind"] in ("guard", "rollback")]
    assert moves == [(500, "guard"), (1502, "guard"), (1502, "rollback")]
    [row] = [row for row in found["checkpoints"]["rows"] if row["step"] == 1800]
    assert (row["state"], row["note"]) == ("quarantined", "after a spike")
    assert "after a spike" in shown.text


def test_a_report_of_a_run_that_goes_on_is_that_of_one_line(run: Run) -> None:
    """A writer appends to ledger, journal and samples all the while."""
    go_on, enough = writing(run)
    writer = Thread(target=go_on)
    writer.start()
    try:
        reports = [facts(run) for _ in range(4)]
    finally:
        enough.set()
        writer.join(20)
    assert not writer.is_alive()
    ends = [found["loss"]["last_step"] for found in reports]
    assert ends == sorted(ends)
    assert ends[-1] > 2400
    for found in reports:
        audited, last = found["audit"], found["loss"]["last_step"]
        assert (audited["clean"], audited["faults"]) == (True, [])
        assert audited["facts"]["ledger"]["last_step"] == last
        assert found["claims"][-1]["step"] == last
        assert found["claims"][-1]["chain"] == audited["facts"]["ledger"]["chain"]
        assert all(event["step"] is None or event["step"] <= last for event in found["events"])
        assert all(sample["step"] <= last for sample in found["samples"])


def test_what_names_a_line_behind_the_head_is_left_out(run: Run) -> None:
    path = run.path / "demo.loss.json"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:2213]) + b"\n")  # the ledger as it was at step 2200
    found = facts(run)
    assert found["loss"]["last_step"] == 2200
    assert max(sample["step"] for sample in found["samples"]) == 2200
    assert max(row["step"] for row in found["checkpoints"]["rows"]) == 2200
    assert found["audit"]["head_step"] == 2200


def test_a_run_without_any_history_has_a_page_too(run: Run, tmp_path: Path) -> None:
    for name in ("demo.loss.json", "events.jsonl", "demo.samples.json"):
        (run.path / name).unlink()
    for name in ("checkpoints", "attempts", "archive", "policies"):
        shutil.rmtree(run.path / name)
    shown = page(run, tmp_path / "report.html")
    assert "The run holds no step yet" in shown.text
    assert "Whether its history holds could not be determined." in shown.text
