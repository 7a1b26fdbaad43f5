"""The real trainer, stuck in a step under the real supervisor: its own stack tells where."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import ROOT

pytestmark = [pytest.mark.system, pytest.mark.torch]

# The first life never comes back from its 15th step.
STUCK = """
import sys, threading
from trainer import __main__ as program
prepare = program._train
def train(launch, reports, requests):
    from trainer import loop
    advance = loop.advance
    def a_step_that_is_stuck(run, batch, lr):
        if run.state.step == 14 and launch.attempt == 1:
            threading.Event().wait()
        return advance(run, batch, lr)
    loop.advance = a_step_that_is_stuck
    prepare(launch, reports, requests)
program._train = train
sys.exit(program.main())
"""
SETTINGS = """
[model]
vocabulary = 256
width = 16
heads = 2
layers = 1
context = 16
[train]
steps = 20
batch = 2
threads = 1
device = "cpu"
[hang]
least = 2.0
[stop]
grace = 0.5
"""


def test_the_stack_of_the_real_trainer_stands_in_its_output(
    supervise: Callable[..., Daemon],
) -> None:
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", STUCK]
    daemon = supervise(command, every=10, settings=SETTINGS).start()
    assert daemon.wait(50) == 0
    run = daemon.run
    [facts] = run.events("hang")
    assert (facts["doing"], facts["step"], facts["budget"]) == ("step", 14, 2.0)
    said = (run.path / "attempts/000001/output.log").read_text()
    assert "in a_step_that_is_stuck" in said
    assert "trainer/loop.py" in said
    assert [a["ended"]["cause"] for a in run.attempts()] == ["hung", "finished"]
    assert [line["step"] for line in run.ledger()] == list(range(1, 21))
    assert run.events("replay")[0]["proved"] == 4
