"""The numbers of a made-up run: its arms and bounds, its mix, its losses, what is reported."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import lru_cache

from supervisor.core.bounds import project
from trainer.contract.wire import Step, number

ARMS = ("chat", "gutenberg", "dictionary", "repo-docs", "repo-commits", "irc")
BEFORE = {
    "chat": {"floor": 0.15, "cap": 0.5},
    "gutenberg": {"floor": 0.1, "cap": 0.4},
    "dictionary": {"floor": 0.05, "cap": 0.2},
    "repo-docs": {"cap": 0.3},
    "repo-commits": {"cap": 0.3},
    "irc": {"cap": 0.2},
}
AFTER = {**BEFORE, "chat": {"floor": 0.3, "cap": 0.6}, "repo-docs": {"cap": 0.08}}
_PHASE = 25


class Life:
    """One attempt: steps after ``resumed`` up to ``last``, and how it ended."""

    def __init__(self, n: int, policy: int, resumed: int, last: int, cause: str) -> None:
        self.number, self.policy, self.resumed, self.last = n, policy, resumed, last
        self.cause = cause


def weights(step: int, policy: int) -> dict[str, float]:
    """The mix that a step's phase was ordered with."""
    return _weights((step - 1) // _PHASE, policy)


@lru_cache(maxsize=4)
def _weights(phase: int, policy: int) -> dict[str, float]:
    bounds = AFTER if policy == 2 else BEFORE
    wanted = [1.2 + math.sin(phase / 7 + 1.7 * nth) for nth in range(len(ARMS))]
    floors = [bounds[arm].get("floor", 0.0) for arm in ARMS]
    caps = [bounds[arm]["cap"] for arm in ARMS]
    return dict(zip(ARMS, project(wanted, floors, caps), strict=True))


def made_step(step: int, life: Life, scale: int) -> Step:
    """Step ``step`` of a life, of a run ``scale`` times as long as the shortest."""
    at = step / scale
    noise = math.sin(12.9898 * step) * 43758.5453
    noise -= math.floor(noise)
    loss = 2.3 + 4.2 * math.exp(-at / 520) + 0.5 * (noise - 0.5)
    if 1500 < at < 1520:
        loss += 1.4 * (1520 - at) / 20
    if life.number >= 3 and 1203 <= at <= 1215:
        loss += 0.02
    word = "nan" if step == 333 * scale else ""
    shares = weights(step, life.policy)
    point, arm = (step * 0.6180339887498949) % 1.0, ARMS[-1]
    for name, share in shares.items():
        point -= share
        if point < 0:
            arm = name
            break
    lr = 3e-4 * min(1.0, at / 100)
    data = f"{step:016x}"
    return Step(
        step, step / 8, step, None if word else loss, word, arm, lr, data, 1, (("grad_norm", 0.5),)
    )


def reports_of(batch: list[Step], life: Life) -> Iterator[str]:
    """The lines of ``reports.jsonl`` for these steps and the phases that end in them."""
    for step in batch:
        at = 10.0 * (step.step - life.resumed)
        yield (
            f'{{"seq":{step.step},"report":"step","at":{at},"step":{step.step},'
            f'"loss":{number(step.loss)},"nonfinite":"{step.nonfinite}","arm":"{step.arm}",'
            f'"lr":{number(step.lr)},"data":"{step.data}","phase":1}}\n'
        )
        if step.step % _PHASE == 0:
            mix = json.dumps(weights(step.step, life.policy))
            first = max(life.resumed, step.step - _PHASE) + 1
            yield (
                f'{{"seq":{step.step},"report":"phase","at":{at},"phase":{step.step // _PHASE},'
                f'"first":{first},"last":{step.step},"repeated":false,"weights":{mix},"arms":[]}}\n'
            )
