"""``list``: every run under the state directory, whatever became of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, make_run, scripted

IMPATIENT = "[restart]\nfirst = 0.01\nmost = 0.02\ngive_up_after = 0.05\n"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEPKEEPER_STATE", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


def rows() -> dict[str, dict[str, object]]:
    told = command("list", "--json")
    return {row["name"]: row for row in told.facts()["runs"]}


@pytest.mark.system
def test_every_kind_of_life_is_told_from_the_others(state: Path) -> None:
    assert command("list").out == f"no runs in {state}\n"
    few = scripted(steps=20, rate=900, every=10)
    endless = scripted(rate=50, every=1000)
    runs = {
        name: Daemon(make_run(state / name, words, every=1000, settings=IMPATIENT))
        for name, words in {
            "finished": few,
            "stopped": endless,
            "held": endless,
            "kept": endless,
            "alone": endless,
            "gave-up": scripted(no_ready=True),
        }.items()
    }
    make_run(state / "new", few)
    (state / "not-a-run").mkdir()
    (state / "notes.txt").write_text("mine")
    try:
        for daemon in runs.values():
            daemon.start()
        for name in ("stopped", "held", "kept", "alone"):
            runs[name].until_step(5)
        assert runs["finished"].wait() == 0
        assert runs["stopped"].stop() == 0
        assert command("stop", "held", "--hold").code == 0
        assert runs["gave-up"].wait() == 10
        runs["alone"].kill()
        found = rows()
        lives = {name: row["life"] for name, row in found.items()}
        assert lives == {
            "finished": "finished",
            "stopped": "stopped",
            "held": "held",
            "kept": "supervised",
            "alone": "trainer alive, no supervisor",
            "gave-up": "gave up",
            "new": "never started",
        }
        assert [row["problem"] for row in found.values()] == [""] * 7
        assert (found["finished"]["step"], found["finished"]["sealed"]) == (20, 20)
        assert 0 <= found["finished"]["age"] < 60  # type: ignore[operator] # a number here
        text = command("list")
        assert text.code == 0
        assert [line.split()[0] for line in text.out.splitlines()] == ["name", *sorted(lives)]
    finally:
        for daemon in runs.values():
            daemon.finish()


@pytest.mark.system
def test_a_damaged_run_is_listed_with_its_problem_and_hides_no_other(state: Path) -> None:
    few = scripted(steps=20, rate=900, every=10)
    for name in ("good", "killed", "torn", "worse"):
        daemon = Daemon(make_run(state / name, few, every=10))
        try:
            assert daemon.start().wait() == 0
        finally:
            daemon.finish()
    (state / "torn/attempts/000001/attempt.json").write_text("{")
    (state / "worse/run.toml").write_text("name = [")
    make_run(state / "unread", few)
    (state / "unread/run.toml").write_text("name = [")
    killed = state / "killed/attempts/000001/attempt.json"
    killed.write_text(killed.read_text().replace('"finished"', '"killed"'))
    with (state / "killed/demo.loss.json").open("ab") as file:
        file.write(b'{"step":21,"lo')  # torn in the middle
    told = command("list", "--json")
    found = {row["name"]: row for row in told.facts()["runs"]}
    assert told.code == 1
    assert found["good"]["problem"] == ""
    assert (found["killed"]["life"], found["killed"]["step"]) == ("failed: killed", 20)
    assert "attempt.json" in str(found["torn"]["problem"])
    assert (found["torn"]["life"], found["torn"]["step"]) == (None, 20)
    assert (found["worse"]["life"], found["worse"]["step"]) == ("finished", 20)
    assert "run.toml" in str(found["unread"]["problem"])
    text = command("list")
    assert "cannot be told" in text.out


@pytest.mark.system
def test_long_ledgers_are_not_read_for_it(state: Path) -> None:
    """Only the ends of a ledger that is mostly a hole of a terabyte are touched."""
    run = Run(state / "long")
    daemon = Daemon(make_run(run.path, scripted(steps=20, rate=900, every=10), every=10))
    try:
        assert daemon.start().wait() == 0
    finally:
        daemon.finish()
    ledger = run.path / "demo.loss.json"
    last = ledger.read_bytes().splitlines(keepends=True)[-1]
    with ledger.open("r+b") as file:
        file.seek(1 << 40)
        file.write(b"\n" + last)
    previous = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(10)  # reading the hole would take minutes
    try:
        assert rows()["long"]["step"] == 20
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
        os.truncate(ledger, 0)
