"""Losses that a checkpoint holds are held against the ledger, which stands where they differ."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import scripted

pytestmark = pytest.mark.system


def test_another_loss_in_a_checkpoint_is_an_alarm_and_the_ledger_stands(
    supervise: Callable[..., Daemon],
) -> None:
    trainer = scripted(steps=300, every=100, losses=True, other_loss_at=150, kill_at=270)
    daemon = supervise([*trainer, "--attempts", "1"], every=100).start()
    assert daemon.wait() == 0
    assert sorted(daemon.run.seals()) == [100, 200, 300]
    [told] = daemon.run.events("losses-differ")
    line = daemon.run.canonical()[150]
    assert told["facts"] == {
        "attempt": 1,
        "checkpoint": 200,
        "step": 150,
        "payload": line["loss"] + 1.0,
        "ledger": line["loss"],
        "steps": 1,
    }
    assert f"step 150 has {line['loss'] + 1.0!r}, the ledger {line['loss']!r}" in daemon.output()
    said = daemon.cli("events", "{run}").stdout
    assert f"the checkpoint of step 200 holds loss {line['loss'] + 1.0!r} of step 150" in said
    plain = daemon.cli("checkpoints", "{run}", "--verify")
    assert plain.returncode == 0
    full = daemon.cli("checkpoints", "{run}", "--full", "--json")
    assert full.returncode == 1
    rows = {row["step"]: row for row in json.loads(full.stdout)["checkpoints"]}
    assert {step: row["losses"] for step, row in rows.items()} == {100: True, 200: False, 300: True}
    assert all(row["verified"] for row in rows.values())
    assert "step 150" in rows[200]["note"]
    assert "1 with other losses than the ledger" in (
        daemon.cli("checkpoints", "{run}", "--full").stdout
    )


def test_losses_of_replayed_steps_and_of_no_number_are_the_ledgers(
    supervise: Callable[..., Daemon],
) -> None:
    trainer = scripted(steps=300, every=100, rate=400, losses=True, differ_from=150, attempts=2)
    daemon = supervise(trainer, every=100).start()
    daemon.until_step(180)
    os.kill(daemon.until_trainer(), signal.SIGKILL)
    assert daemon.wait() == 0
    assert daemon.run.events("replay-differed")
    assert daemon.run.events("losses-differ") == []
    full = daemon.cli("checkpoints", "{run}", "--full", "--json")
    assert full.returncode == 0, full.stdout
    rows = json.loads(full.stdout)["checkpoints"]
    assert {row["losses"] for row in rows} == {True}
