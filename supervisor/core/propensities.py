"""The probability with which each step's arm was drawn, recorded with the step.

With it, and with the reward of each pull, the mix that another policy would have chosen can be
judged from what happened under this one (inverse propensity scoring: Horvitz, Thompson 1952).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from trainer.contract.wire import PhaseOrder, Step

NAME = "propensity"


def with_propensities(steps: Sequence[Step], phases: Iterable[PhaseOrder]) -> list[Step]:
    """The steps, each with an extra ``propensity``, unless the trainer reported its own.

    It is the share that the step's phase, one of ``phases`` (a later one counts), gave its arm;
    where sequences of several arms were mixed, the geometric mean over the pulls; null where the
    phase or the arm is not known.
    """
    shares = {phase.phase: dict(phase.weights) for phase in phases}
    told: dict[tuple[int, str], tuple[str, float | None]] = {}
    found = []
    for step in steps:
        extras = step.extras
        if NAME in dict(extras):
            found.append(step)
            continue
        key = (step.phase, step.arm)
        own = told.get(key)
        if own is None:
            own = told[key] = (NAME, propensity(step.arm, shares.get(step.phase, {})))
        found.append(step._replace(extras=(*extras, own)))
    return found


def propensity(arm: str, shares: dict[str, float]) -> float | None:
    """Of one arm, or of ``chat=12 prose=4``; None for an arm that has no share."""
    parts = [part.partition("=") for part in arm.split(" ")] if "=" in arm else [(arm, "", "1")]
    pulls = total = 0.0
    for name, _, count in parts:
        share = shares.get(name, 0.0)
        if share <= 0.0:
            return None
        pulls += int(count)
        total += int(count) * math.log(share)
    return math.exp(total / pulls) if len(parts) > 1 and pulls else shares.get(parts[0][0])
