"""The undisturbed run of the same policy history, and the weights that both end with."""

from __future__ import annotations

import json
import signal
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from supervisor.control import request
from tests.chaos.world import EVERY, SECONDS, Broken, ClockedDaemon, chaos_run
from tests.support.runs import Run


class Pivot(NamedTuple):
    """A pivot that happened: the step it went on from, and the policy that it put in force."""

    pin: int
    text: str


def pivots_of(run: Run) -> list[Pivot]:
    """From the certificates, in the order of the policies."""
    found = []
    for path in sorted(run.path.glob("archive/pivot-*/certificate.json")):
        facts = json.loads(path.read_bytes())
        text = (run.path / f"policies/{facts['policy_after']:04d}.toml").read_text()
        found.append(Pivot(facts["pin"]["step"], text))
    return found


def compare(disturbed: Run, folder: Path) -> int:
    """Live it again without a fault; the step at which all weights were found equal.

    Raises Broken where they differ, in a ledger line first of all.
    """
    aside = folder / "reference-aside"
    # When it saves changes no weight; fewer checkpoints to be read back make it faster.
    run = chaos_run(folder / "reference", aside, 0.0, 5 * EVERY)
    last = max(step for step in disturbed.seals() if step in disturbed.checkpoints())
    daemon = ClockedDaemon(run, aside)
    halt = aside / "halt"
    pivots = pivots_of(disturbed)
    try:
        halt.write_text(str(pivots[0].pin if pivots else last))
        daemon.begin()
        for number, pivot in enumerate(pivots, 1):
            _until(daemon, pivot.pin)
            wanted = {"policy": pivot.text, "when": "now", "reset": True}
            _until_taken(daemon, "pivot", wanted)
            _until_ordered(daemon)
            halt.write_text(str(pivots[number].pin if number < len(pivots) else last))
            _pivoted(daemon, number)
        _until(daemon, last)
        _until_taken(daemon, "save", {"align": "step"})
        _until_ordered(daemon)
        halt.write_text(str(last + 1))
        daemon.until_seal(last, SECONDS)
        daemon.signal(signal.SIGTERM)
        halt.write_text("")
        code = daemon.wait(SECONDS)
    finally:
        daemon.finish()
    if code:
        raise Broken(f"the undisturbed run's stop ended with {code}")
    _equal(disturbed, run, last)
    return last


def _pivoted(daemon: ClockedDaemon, number: int) -> None:
    def done() -> bool:
        return len(daemon.run.events("pivot-done")) == number

    daemon.until(done, f"pivot {number} of the undisturbed run", SECONDS)


def _until_taken(daemon: ClockedDaemon, verb: str, fields: dict[str, Any]) -> None:
    """Ask until it is not refused: while a pivot ends, as the journal tells a moment sooner, it is.

    Raises Broken with the refusal where that does not end.
    """
    refusals: list[str] = []

    def taken() -> bool:
        answer = request(daemon.run.path, verb, fields, 10.0)
        if "error" in answer:
            refusals.append(str(answer["error"]))
        return "error" not in answer

    try:
        daemon.until(taken, f"a {verb} that is not refused", SECONDS)
    except Broken as broken:
        raise Broken(f"{broken}: {refusals[-1:]}") from None


def _until_ordered(daemon: ClockedDaemon) -> None:
    """The trainer, which stands still, finds the order when it goes on."""

    def ordered() -> bool:
        orders = daemon.run.read("orders.json")
        return orders is not None and orders["save"] is not None

    daemon.until(ordered, "the order to save", SECONDS)


def _until(daemon: ClockedDaemon, step: int) -> None:
    daemon.until_step(step, 4 * SECONDS + step / 20)


def _equal(disturbed: Run, run: Run, last: int) -> None:
    ours, theirs = disturbed.canonical(), run.canonical()
    for step in range(1, last + 1):
        for name in ("loss", "nonfinite", "arm", "lr", "policy", "data", "grad_norm", "tokens"):
            if ours[step].get(name) != theirs[step].get(name):
                was, is_ = theirs[step].get(name), ours[step].get(name)
                raise Broken(f"step {step}: {name} is {is_}, undisturbed it is {was}")
    name = f"checkpoints/step_{last:06d}.bin"
    one, other = ((place.path / name).read_bytes() for place in (disturbed, run))
    if sha256(one).digest() != sha256(other).digest():
        raise Broken(f"the weights of step {last} are not those of the undisturbed run")
