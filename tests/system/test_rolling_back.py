"""Real processes whose loss is lost at one place of their data: rolled back, and past it."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.daemon import Daemon
from tests.support.runs import scripted

Supervise = Callable[..., Daemon]
RULES = "[guards]\nquarantine_steps = 60\n"


def test_nan_is_rolled_back_past_the_data_that_did_it_and_the_audit_is_clean(
    supervise: Supervise,
) -> None:
    trainer = scripted(steps=600, every=50, nan_draws="260-262", rate=600)
    daemon = supervise(trainer, every=50, settings=RULES)
    assert daemon.start().wait(40) == 0
    run = daemon.run
    (back,) = run.events("rolled-back")
    assert (back["attempt"], back["guard"], back["step"], back["to"]) == (1, "nonfinite", 260, 250)
    assert back["skip"] == back["last_step"] - 250
    assert [event["guard"] for event in run.events("guard")] == ["nonfinite"]
    begun = {event["attempt"]: event.get("skip") for event in run.events("attempt-started")}
    assert begun == {1: None, 2: back["skip"]}
    assert not run.events("replay-differed")
    canonical = run.canonical()
    assert sorted(canonical) == list(range(1, 601))
    assert {line["nonfinite"] for line in canonical.values()} == {""}
    assert [canonical[step]["attempt"] for step in (250, 251)] == [1, 2]
    voided = [line for line in run.ledger() if line["attempt"] == 1 and line["step"] > 250]
    assert "nan" in {line["nonfinite"] for line in voided}  # and it stays to be read
    assert run.seals()[300]["attempt"] == 2
    audit = daemon.cli("audit", "{run}")
    assert (audit.returncode, audit.stderr) == (0, "")
    assert "rolled back" in audit.stdout


def test_a_checkpoint_behind_a_nan_is_not_resumed_and_a_trainer_that_does_not_skip_is_stopped(
    supervise: Supervise,
) -> None:
    trainer = scripted(steps=600, every=50, nan_draws="240-245", rate=500, heedless=True)
    daemon = supervise(trainer, every=50, settings=RULES + "rollback_most = 1\n")
    assert daemon.start().wait(40) == 12
    run = daemon.run
    assert [event["to"] for event in run.events("rolled-back")] == [200]
    assert [event["attempt"] for event in run.events("skip-ignored")] == [2]
    told = [(event["action"], event["step"]) for event in run.events("guard")]
    assert told == [("rollback", 240), ("stop", 240)]
    kept = [event["step"] for event in run.events("quarantined")]
    assert kept
    assert all(run.seals()[step]["suspect"] for step in kept if step in run.seals())
    shown = daemon.cli("checkpoints", "{run}")
    assert "quarantined" in shown.stdout
    status = daemon.cli("status", "{run}")
    assert status.returncode == 1
    assert "guard nonfinite" in status.stdout
    for step in [step for step, seal in run.seals().items() if seal["suspect"]]:
        trusted = daemon.cli("unquarantine", "{run}", str(step))
        assert (trusted.returncode, trusted.stderr) == (0, "")
    assert "quarantined" not in daemon.cli("checkpoints", "{run}").stdout
    assert daemon.cli("audit", "{run}").returncode == 0
