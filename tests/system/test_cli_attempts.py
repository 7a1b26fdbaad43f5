"""``attempts`` and ``events``: on a run with a history, on one that lives, on damaged files."""

from __future__ import annotations

import ast
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.cli.events_words import _WORDS, in_words
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, make_run, scripted
from tests.support.sources import calls, modules
from tests.system.test_cli_reading import Follower

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def parts(facts: dict[str, object]) -> float:
    seconds = facts["seconds"]
    assert isinstance(seconds, dict)
    return sum(v for name, v in seconds.items() if name != "paused")


def test_each_attempt_is_told_with_its_end_its_steps_and_what_it_proved(rich: Run) -> None:
    facts = command("attempts", rich.path, "--json").facts()
    assert facts["problems"] == []
    rows = facts["attempts"]
    assert [row["attempt"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["cause"] for row in rows[:4]] == ["killed"] * 4
    assert [row["resumed"] for row in rows[:5]] == [0, 200, 200, 200, 100]
    assert [row["last"] for row in rows[:4]] == [250] * 4
    assert [row["proved"] for row in rows[:5]] == [0, 50, 50, 50, 150]
    assert [row["replayed"] for row in rows[:5]] == [0, 50, 50, 50, 150]
    assert rows[0]["canonical"] == [1, 250]
    assert rows[1]["canonical"] is None
    assert rows[-1]["cause"] == "stopped"
    counted = [row["canonical"] for row in rows if row["canonical"]]
    assert sum(last - first + 1 for first, last in counted) == rich.last_step()


def test_goodput_and_losses_add_up_to_the_wall_time(rich: Run) -> None:
    facts = command("attempts", rich.path, "--json").facts()
    rows, summary = facts["attempts"], facts["summary"]
    assert summary["canonical_steps"] == rich.last_step()
    assert summary["wall"] == pytest.approx(parts(summary), abs=0.01)
    assert summary["goodput"] == pytest.approx(
        summary["seconds"]["in_steps"] / summary["wall"], abs=1e-4
    )
    assert 0 < summary["goodput"] < 1
    assert sum(row["lost"] for row in rows) == pytest.approx(summary["lost"], abs=0.05)
    # 600 steps a second, by the trainers' own clocks
    assert summary["seconds"]["in_steps"] == pytest.approx(rich.last_step() / 600, rel=0.6)
    assert rows[1]["seconds"]["in_steps"] == 0.0
    told = command("attempts", rich.path).out
    assert f"{summary['goodput']:.1%}" in told
    assert f"{rich.last_step()} canonical steps" in told
    assert "killed" in told


def test_a_run_that_lives_is_told_too_and_a_stop_is_a_pause(supervise: Supervise) -> None:
    daemon = supervise(scripted(rate=200), every=100).start()
    daemon.until_step(150)
    assert daemon.stop() == 0
    stopped = time.perf_counter()
    daemon.until(lambda: time.perf_counter() > stopped + 1.5, "a pause")
    daemon.start().until_step(daemon.run.last_step() + 50)
    facts = command("attempts", daemon.run.path, "--json").facts()
    first, second = facts["attempts"]
    assert (first["cause"], second["cause"], second["ended"]) == ("stopped", None, None)
    assert second["last"] > first["last"] == second["resumed"]
    assert second["canonical"][0] == first["last"] + 1
    assert second["seconds"]["paused"] > 1.4
    assert second["seconds"]["between"] == 0.0
    assert "goes on" in command("attempts", daemon.run.path).out


def test_a_bad_record_is_told_and_the_rest_goes_on(copy: Run) -> None:
    (copy.path / "attempts/000002/attempt.json").write_text("{torn")
    (copy.path / "attempts/000003/reports.jsonl").unlink()
    journal = copy.path / "events.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"event":"torn\n')
    told = command("attempts", copy.path)
    assert told.code == 0
    assert "attempts/000002/attempt.json" in told.err
    assert "events.jsonl" in told.err
    facts = json.loads(command("attempts", copy.path, "--json").out)
    assert [row["attempt"] for row in facts["attempts"]][:3] == [1, 3, 4]
    assert len(facts["problems"]) == 2


def test_a_run_without_attempts_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripted())
    told = command("attempts", run.path)
    assert (told.code, "none has begun" in told.complaint()) == (2, True)
    told = command("events", run.path)
    assert (told.code, "no events.jsonl yet" in told.complaint()) == (2, True)


def test_a_thousand_attempts_over_a_long_ledger_are_told_at_once(copy: Run) -> None:
    """The ledger is not read: it may be of any length, or not there."""
    record = (copy.path / "attempts/000002/attempt.json").read_text()
    reports = (copy.path / "attempts/000002/reports.jsonl").read_bytes()
    for number in range(100, 1100):
        folder = copy.path / f"attempts/{number:06d}"
        folder.mkdir()
        text = record.replace('"attempt":2', f'"attempt":{number}')
        (folder / "attempt.json").write_text(text.replace('"attempt": 2', f'"attempt": {number}'))
        (folder / "reports.jsonl").write_bytes(reports)
    next(copy.path.glob("*.loss.json")).unlink()
    began = time.perf_counter()
    facts = command("attempts", copy.path, "--json").facts()
    took = time.perf_counter() - began
    assert len(facts["attempts"]) > 1000
    assert took < 5  # 0.5 s on a machine that has nothing else to do


def test_every_event_that_is_journalled_has_words() -> None:
    names = set()
    for path in modules("supervisor"):
        for name, call in calls(path):
            if name.endswith(("Journal", "events.append", "_journal")):
                names |= {
                    a.value
                    for a in call.args
                    if isinstance(a, ast.Constant) and isinstance(a.value, str) and a.value
                }
    assert len(names) > 15
    assert names - set(_WORDS) == set()


def test_the_journal_is_told_in_words_with_its_alarms_marked(rich: Run) -> None:
    told = command("events", rich.path, "-n", 1000)
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert len(lines) == len(rich.events())
    assert "the run" in lines[0]
    assert any("! attempt 1 ended at step 250: killed" in line for line in lines)
    assert any("! the checkpoint of step 200 is rejected: 3 attempts" in line for line in lines)
    assert any(
        "  steps 201 to 250 ran again in attempt 2: 50 proved equal" in line for line in lines
    )
    assert any("  the pivot to policy 2 is done" in line for line in lines)
    assert any("a stop is asked for by SIGTERM" in line for line in lines)
    assert "unknown" not in told.out
    assert command("events", rich.path, "-n", 3).out.splitlines() == lines[-3:]
    raw = command("events", rich.path, "-n", 2, "--json").out.splitlines()
    assert raw == (rich.path / "events.jsonl").read_text().splitlines()[-2:]


def test_an_event_of_a_later_version_is_told_as_it_is() -> None:
    assert in_words("new-thing", {"step": 7, "why": "x\x1b[2J"}) == "new-thing: step 7, why x?[2J"
    assert in_words("sealed", {}).startswith("step unknown is sealed")


def test_a_guard_is_told_with_what_it_found() -> None:
    fired = {"guard": "gate", "action": "alert", "step": 9, "rules": "5 in a row", "score": 4.25}
    assert in_words("guard", fired) == (
        "gate at step 9: alert; the samples have collapsed since step unknown "
        "(5 in a row failed, score 4.25)"
    )
    assert in_words("guard", {"guard": "gate", "blind": 5}).endswith("too short to be judged")
    bad = {"guard": "nonfinite", "action": "stop", "step": 7, "loss": "nan", "arm": "a"}
    told = in_words("guard", {**bad, "instead": "no clean checkpoint is sealed before it"})
    assert told.startswith("nonfinite at step 7: stop; the loss of arm a is nan; cannot roll back")


def test_a_journal_that_was_edited_is_named_and_still_told(copy: Run) -> None:
    path = copy.path / "events.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b'"facts":{', b'"facts":{"x":1,', 1)
    path.write_bytes(b"\n".join(lines))
    told = command("events", copy.path, "-n", 1000)
    assert told.code == 1
    assert "from line 3 on" in told.complaint()
    assert len(told.out.splitlines()) == len(lines) - 1


def test_a_torn_piece_in_the_journal_is_told_and_passed_over(copy: Run) -> None:
    path = copy.path / "events.jsonl"
    path.write_bytes(path.read_bytes() + b'{"event":"sea\n')
    told = command("events", copy.path, "-n", 3)
    assert told.code == 0
    assert "no event" in told.complaint()
    assert len(told.out.splitlines()) == 2


def test_events_are_followed_until_ctrl_c(supervise: Supervise, tmp_path: Path) -> None:
    daemon = supervise(scripted(rate=200), every=100).start()
    daemon.until_step(10)
    follower = Follower(tmp_path, "events", daemon.run.path, "-f")
    try:
        follower.until("attempt 1 starts after step 0")
        os.kill(daemon.until_trainer(), signal.SIGKILL)
        follower.until("! attempt 1 ended")
        follower.until("attempt 2 starts")
        follower.process.send_signal(signal.SIGINT)
        assert follower.process.wait(20) == 0
    finally:
        follower.process.kill()
        follower.process.wait()
