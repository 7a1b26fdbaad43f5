"""The reference trainer kept in torch's formats: killed, resumed, pivoted, sealed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.control import request
from tests.support.audited import faults
from tests.support.daemon import Daemon
from tests.support.runs import make_run
from tests.trainer.tiny import MODEL, TRAIN, toml
from trainer.contract.checkpoint_format import form_of

pytestmark = [pytest.mark.system, pytest.mark.torch]


@pytest.fixture(params=["pt", "sharded"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Daemon]]:
    """A run of a tiny model in that format, and its supervisor."""
    settings = toml({"model": MODEL, "train": {**TRAIN, "steps": 100_000}})
    run = make_run(tmp_path / "run", ["{python}", "-m", "trainer"], every=50, settings=settings)
    path = run.path / "run.toml"
    cadence = "every_steps = 50"
    path.write_text(
        path.read_text().replace(cadence, f'{cadence}\nformat = "{request.param}"\nshards = 3')
    )
    daemon = Daemon(run)
    yield request.param, daemon
    daemon.finish()


@pytest.mark.timeout(120)
def test_a_killed_trainer_goes_on_to_the_bit_and_a_pivot_keeps_the_weights(
    kept: tuple[str, Daemon], *, thorough: bool
) -> None:
    form, daemon = kept
    if form == "pt" and not thorough:
        pytest.skip("the other format: run it with --thorough")
    run = daemon.run
    first = daemon.start().until_trainer(seconds=40)
    daemon.until_seal(100, 40)
    daemon.until(lambda: 5 <= run.last_step() % 50 < 30, "steps behind a checkpoint", 40)
    os.kill(first, signal.SIGKILL)
    second = daemon.until_trainer(other_than=first, seconds=40)
    daemon.until(lambda: run.events("replay"), "the replayed steps", 40)
    policy = (run.path / "policy.toml").read_text().replace("cap = 1.0", "cap = 0.8")
    request(run.path, "pivot", {"policy": policy, "when": "boundary"}, 5.0)
    daemon.until(lambda: run.events("pivot-done"), "the pivot's end", 40)
    assert daemon.until_trainer(other_than=second, seconds=40)
    pin = run.events("pivot-done")[0]["pin"]
    daemon.until_seal(int(pin) + 50, 40)
    assert daemon.stop(40) == 0, daemon.output()

    seals = run.seals().values()
    assert {form_of(seal["bin"]["name"]) for seal in seals} == {form}
    [replay] = run.events("replay")
    assert replay["proved"] == replay["last"] - replay["first"] + 1 > 0
    assert replay["differed"] is None
    steps = [line["step"] for line in run.ledger()]
    assert steps == list(range(1, steps[-1] + 1))
    assert run.events("checkpoint-rejected") == []
    assert [event for event in run.events() if "loss" in event["event"]] == []
    assert faults(run) == []
