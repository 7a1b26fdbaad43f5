"""A sixth attempt of the made-up run, which goes on until it is told that it is enough."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from threading import Event

from supervisor.sidecars import attempts
from supervisor.sidecars.attempts import AttemptModel, ResumeModel
from supervisor.sidecars.events import Events
from supervisor.sidecars.ledger import Ledger
from tests.support.made_run import ID, wall
from tests.support.made_steps import Life, made_step
from tests.support.runs import Run

_LAST = 2400
_MOST = 50_000
_BATCH = 20


def writing(run: Run) -> tuple[Callable[[], None], Event]:
    """What appends steps, events and samples as a supervisor does, and how to end it.

    The attempt's record and its first steps are written before this returns.
    """
    enough = Event()
    seal = (run.path / f"checkpoints/step_{_LAST:06}.seal.json").read_bytes()
    resumed = json.loads(seal)["bin"]["sha256"]
    resume = ResumeModel(step=_LAST, sha256=resumed, seal=sha256(seal).hexdigest())
    life = Life(6, 2, _LAST, _MOST, "")
    record = AttemptModel(
        attempt=life.number,
        policy=life.policy,
        token="t",  # noqa: S106 - no secret, as no trainer bears it
        command=("true",),
        settings="",
        resume=resume,
        ledger_step=_LAST,
        started=wall(_LAST),
    )
    attempts.write(run.path, record)
    ledger = Ledger.open(run.path / "demo.loss.json", ID, None, fresh=False)
    ledger.begin(life.number, _LAST, resumed)
    journal = Events.open(run.path / "events.jsonl")
    samples = json.loads((run.path / "demo.samples.json").read_text())

    def append(first: int) -> None:
        steps = [made_step(step, life, 1) for step in range(first, first + _BATCH)]
        last = first + _BATCH - 1
        ledger.record(life.number, life.policy, steps, wall(last))
        journal.append("evaluation", {"step": last, "losses": {}}, wall(last))
        samples["samples"][-1]["step"] = last
        whole = run.path / ".samples"
        whole.write_text(json.dumps(samples))
        whole.replace(run.path / "demo.samples.json")

    def go_on() -> None:
        first = _LAST + _BATCH + 1
        while not enough.is_set() and first < _MOST:
            append(first)
            first += _BATCH
        ledger.close()
        journal.close()

    append(_LAST + 1)
    return go_on, enough
