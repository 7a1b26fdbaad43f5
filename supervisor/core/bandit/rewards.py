"""Rewards: what an arm is rewarded for in a phase, scaled so that raw sizes never matter.

Raw rewards would drown every exploration term, and which of them is large depends on the data
alone; so each is mapped to [0, 1] by the 20 % and 80 % quantiles of recent ones (Graves et al.
2017), and the window of these is part of the state.
"""

from __future__ import annotations

import math
from typing import assert_never

from supervisor.core.bandit.state import ArmState
from supervisor.core.policy import Policy, Reward
from trainer.contract.wire import ArmResult

SCALER_WINDOW = 128
_LOW, _HIGH = 0.2, 0.8


def raw(policy: Policy, arm: ArmState, result: ArmResult) -> float | None:
    """What the arm earned in this phase, or None where nothing can be said.

    ``progress``: the arm's smoothed loss before the phase minus its mean loss in it (Graves et al.
    2017). ``loss``: the mean loss (Albalak et al. 2023). ``excess``: what the mean loss lies above
    the arm's target, or 0 (Xie et al. 2023).
    """
    if result.loss is None:
        return None
    match policy.reward:
        case Reward.PROGRESS:
            value = None if arm.loss is None else arm.loss - result.loss
        case Reward.LOSS:
            value = result.loss
        case Reward.EXCESS:
            target = next((a.target for a in policy.arms if a.name == arm.name), None)
            value = None if target is None else max(0.0, result.loss - target)
        case _:
            assert_never(policy.reward)
    # The difference of the largest floats is not finite.
    return value if value is not None and math.isfinite(value) else None


def quantiles(values: tuple[float, ...]) -> tuple[float, float]:
    """The 20 % and 80 % quantile, by nearest rank; of nothing, twice 0."""
    if not values:
        return 0.0, 0.0
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[round(_LOW * last)], ordered[round(_HIGH * last)]


def scaled(value: float | None, low: float, high: float) -> float | None:
    """``value`` mapped linearly so that ``low`` is 0 and ``high`` is 1, clipped to [0, 1].

    Where both are one number (most arms earn just that), what lies above it is 1, below it 0.
    """
    if value is None:
        return None
    if high <= low:
        return 0.5 + 0.5 * ((value > high) - (value < low))
    return min(1.0, max(0.0, (value - low) / (high - low)))
