"""``rewind``: back to an earlier checkpoint, nothing lost of what was, whoever dies on the way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.audited import audit, faults, head_of
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.deaths import MOST_CALLS, killed_at
from tests.support.runs import Run, copy_of, make_run, scripted

Supervise = Callable[..., Daemon]
STEPS = 200
TRAINER = scripted(steps=STEPS, rate=2000, every=50)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A finished run with the seals 50, 100, 150, 200."""
    daemon = Daemon(make_run(tmp_path_factory.mktemp("ended") / "run", TRAINER, every=50))
    settings = daemon.run.path / "run.toml"
    settings.write_text(
        settings.read_text().replace("[checkpoint]", "[checkpoint]\nkeep_last = 20")
    )
    try:
        assert daemon.start().wait() == 0
        yield daemon.run
    finally:
        daemon.finish()


@pytest.fixture
def run(ended: Run, tmp_path: Path) -> Run:
    return copy_of(ended, tmp_path / "run")


def go_on(run: Run) -> str:
    """Train to the end; what the supervisor said."""
    daemon = Daemon(run)
    try:
        assert daemon.start().wait() == 0, daemon.output()
    finally:
        daemon.finish()
    return daemon.output()


def trainer(run: Run, **options: object) -> None:
    """Give the run another trainer."""
    path = run.path / "run.toml"
    lines = [
        f"command = {json.dumps(scripted(**options))}" if line.startswith("command = ") else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines) + "\n")


def test_a_rewound_run_goes_on_from_the_checkpoint_and_keeps_every_line(run: Run) -> None:
    ledger = run.path / "demo.loss.json"
    before, head = ledger.read_bytes(), head_of(run, 200)
    told = command("rewind", run.path, "--step", 100, "--yes", "--json")
    facts = told.facts()
    assert (told.code, facts["from"], facts["to"]) == (0, 200, 100)
    assert facts["superseded"] == [200, 150]
    assert ledger.read_bytes() == before
    assert sorted(run.seals()) == [50, 100]
    assert run.checkpoints() == [50, 100]
    [event] = run.events("rewound")
    assert (event["from"], event["to"], event["attempt"]) == (200, 100, 1)
    assert event["by"].startswith("uid ")
    status = command("status", run.path, "--json").facts()
    assert (status["step"], status["rewound"], status["at_risk"]["steps"]) == (100, 200, 0)
    assert faults(run) == []
    go_on(run)
    assert ledger.read_bytes().startswith(before)
    steps = [line["step"] for line in run.ledger()]
    assert steps == [*range(1, 201), *range(101, 201)]
    assert {line["attempt"] for line in run.canonical().values()} == {1, 2}
    assert run.attempts()[1]["resume"]["step"] == 100
    assert sorted(run.seals()) == [50, 100, 150, 200]
    assert command("status", run.path, "--json").facts()["rewound"] is None
    assert faults(run, "--head", head) == []
    [named] = audit(run).facts()["rewinds"]
    assert (named["from"], named["to"]) == (200, 100)
    assert "from step 200 back to step 100 after attempt 1" in command("audit", run.path).out


def test_no_replay_is_claimed_or_blamed_across_a_rewind(run: Run) -> None:
    """Equal lines prove nothing of a resume, and others are what the operator wanted."""
    assert command("rewind", run.path, "--step", 100, "--yes").code == 0
    trainer(run, steps=STEPS, rate=2000, every=50, differ_from=151)
    said = go_on(run)
    assert "not equal" not in said
    assert run.events("replay") == []
    assert run.events("replay-differed") == []
    assert [a["ended"]["proved"] for a in run.attempts()] == [0, 0]
    assert run.attempts()[1]["ledger_step"] == 100
    replays = audit(run).facts()["replays"]
    assert (replays["proved"], replays["consistent"], replays["differed"]) == (0, 0, [])


def test_a_crash_after_a_rewind_is_a_replay_of_the_new_lines_alone(run: Run) -> None:
    """Steps 101 to 120 of the second attempt run again; nothing of the first one counts."""
    assert command("rewind", run.path, "--step", 100, "--yes").code == 0
    trainer(run, steps=STEPS, rate=2000, every=50, kill_at=120, attempts=2)
    said = go_on(run)
    assert "not equal" not in said
    [replay] = run.events("replay")
    assert (replay["attempt"], replay["first"], replay["last"]) == (3, 101, 120)
    assert replay["proved"] == 20
    assert [line["step"] for line in run.ledger()] == [*range(1, 201), *range(101, 201)]
    assert faults(run) == []


@pytest.mark.system
def test_a_supervisor_that_comes_back_after_a_rewind_reports_no_difference(
    run: Run,
) -> None:
    """The fold begins again at the checkpoint and meets the new lines in the place of the old."""
    assert command("rewind", run.path, "--step", 100, "--yes").code == 0
    trainer(run, steps=10_000, rate=60, every=1000)
    daemon = Daemon(run)
    try:
        daemon.start()
        daemon.until(lambda: len(run.ledger()) > 210, "steps after the rewind")
        daemon.kill()
        daemon.start()
        count = len(run.ledger())
        daemon.until(lambda: len(run.ledger()) > count + 10, "steps after the adoption")
        assert daemon.stop() == 0
        assert "not equal" not in daemon.output()
        assert run.events("replay-differed") == []
        assert len(run.attempts()) == 2
    finally:
        daemon.finish()
    assert faults(run) == []


def test_progress_counts_anew_from_where_the_run_was_rewound_to(run: Run) -> None:
    """Seals below the old best are progress: no crash in between is one of a losing streak."""
    assert command("rewind", run.path, "--step", 50, "--yes").code == 0
    trainer(run, steps=STEPS, rate=2000, every=50, kill_at=120, attempts=2)
    # As one finds it whose supervisor was killed: the next start counts from the beginning.
    intent = run.read("intent.json") or {}
    intent |= {"done": False, "start": {"after": 0, "boot_id": "another", "seconds": 0.0}}
    (run.path / "intent.json").write_text(json.dumps(intent))
    go_on(run)
    ends = [record["ended"] for record in run.attempts()]
    assert [(end["cause"], end["sealed"]) for end in ends] == [
        ("finished", True),
        ("killed", True),
        ("finished", True),
    ]


def test_a_rewind_across_a_pivot_keeps_the_policy_with_an_empty_bandit(run: Run) -> None:
    trainer(run, steps=2 * STEPS, rate=2000, every=50)
    assert command("pivot", run.path, "--cap", "a=0.8").code == 0
    go_on(run)
    assert run.canonical()[201]["policy"] == 2
    told = command("rewind", run.path, "--step", 150, "--yes")
    assert "policy 2 stays in force; the checkpoint is of policy 1" in told.out
    daemon = Daemon(run)
    try:
        daemon.start().wait()
    finally:
        daemon.finish()
    policies = {step: line["policy"] for step, line in run.canonical().items()}
    assert (policies[150], policies[151], policies[400]) == (1, 2, 2)
    bandit = run.read("demo.state.json") or {}
    assert sum(arm["served"] for arm in bandit["arms"].values()) == 250  # from step 151 on
    assert faults(run) == []


def test_twice_back_and_each_rewind_is_named(run: Run) -> None:
    assert command("rewind", run.path, "--step", 150, "--yes").code == 0
    assert command("rewind", run.path, "--step", 50, "--yes").code == 0
    go_on(run)
    assert [line["step"] for line in run.ledger()] == [*range(1, 201), *range(51, 201)]
    assert faults(run) == []
    assert [r["to"] for r in audit(run).facts()["rewinds"]] == [150, 50]
    assert command("rewind", run.path, "--step", 100, "--yes").code == 0
    go_on(run)
    assert faults(run) == []
    assert len(run.canonical()) == 200


# ---------------------------------------------------------------- refusals


def test_what_is_no_sealed_checkpoint_is_refused_with_the_nearest(run: Run) -> None:
    (run.path / "checkpoints/step_000050.bin").unlink()
    told = command("rewind", run.path, "--step", 120, "--yes")
    assert told.code == 1
    assert "the nearest one is of step 100 and of step 150" in told.complaint()
    told = command("rewind", run.path, "--step", 50, "--yes")
    assert told.code == 1
    assert "it was deleted; the nearest one is of step 100" in told.complaint()
    with (run.path / "checkpoints/step_000100.bin").open("r+b") as file:
        file.seek(20)
        file.write(b"\x01\x02\x03")
    told = command("rewind", run.path, "--step", 100, "--yes")
    assert told.code == 1
    assert "sha256" in told.complaint()
    newest = command("rewind", run.path, "--step", 200, "--yes")
    assert (newest.code, "goes on from it" in newest.out) == (0, True)
    assert run.events("rewound") == []
    assert sorted(run.seals()) == [50, 100, 150, 200]


def test_nothing_is_done_unasked(run: Run) -> None:
    for words in ((), ("--json",)):
        told = command("rewind", run.path, "--step", 100, *words)
        assert told.code == 2
        assert "add --yes" in told.complaint()
    assert run.read("rewind.json") is None


@pytest.mark.system
def test_a_run_that_lives_or_is_not_over_is_refused(supervise: Supervise) -> None:
    daemon = supervise(scripted(rate=100, every=50), every=50).start()
    daemon.until_seal(100)
    run = daemon.run
    told = command("rewind", run.path, "--step", 50, "--yes")
    assert told.code == 1
    assert f"pid {daemon.pid}" in told.complaint()
    daemon.kill()
    told = command("rewind", run.path, "--step", 50, "--yes")
    assert told.code == 1
    assert "its trainer runs" in told.complaint()
    assert command("stop", run.path).code == 0
    assert command("pivot", run.path, "--reset").code == 0
    told = command("rewind", run.path, "--step", 50, "--yes")
    assert told.code == 1
    assert "the pivot to policy 2 is under way" in told.complaint()
    assert command("pivot", run.path, "--cancel").code == 0
    step = run.checkpoints()[-2]
    assert command("rewind", run.path, "--step", step, "--yes").code == 0
    assert faults(run) == []


def test_a_ledger_that_was_changed_since_stops_the_next_start(run: Run) -> None:
    assert command("rewind", run.path, "--step", 100, "--yes").code == 0
    ledger = run.path / "demo.loss.json"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-20]))
    told = command("run", run.path)
    assert told.code == 11
    assert "the rewind or pivot to step 100 speaks of 200" in told.complaint()
    assert "entry 200 of step 200 does not end at byte" in faults(run)[0]


def test_a_rewind_that_the_ledger_contradicts_is_found(run: Run) -> None:
    assert command("rewind", run.path, "--step", 100, "--yes").code == 0
    go_on(run)
    for path in run.path.glob("checkpoints/**/step_000100.seal.json"):
        path.unlink()
    assert any("to rewind to" in fault for fault in faults(run))


# ---------------------------------------------------------------- death


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_rewind_survives_death_before_any_durable_call(
    ended: Run, tmp_path: Path, *, thorough: bool
) -> None:
    """Either nothing was begun, or the next start completes it; the audit is clean throughout."""
    outcomes = set()
    for at in range(1, MOST_CALLS, 1 if thorough else 31):
        run = copy_of(ended, tmp_path / f"killed-{at}")
        alive = not killed_at(at, tmp_path / "count", "rewind", run.path, "--step", 100, "--yes")
        assert faults(run) == [], at
        begun = run.read("rewind.json") is not None
        go_on(run)
        resumed = run.attempts()[-1]["resume"]["step"]
        assert resumed == (100 if begun else 200), at
        assert len(run.events("rewound")) == begun, at
        assert len(run.canonical()) == STEPS
        assert faults(run) == [], at
        outcomes.add(begun)
        shutil.rmtree(run.path)
        if alive:
            break
    assert alive
    assert outcomes == {False, True} or not thorough
