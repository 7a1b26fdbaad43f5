"""How often a rule fires on a healthy model: its false-alarm rate, stated beside its standing.

Each is an upper bound of the share of outcomes with which an episode begins, where outcomes fail
independently of each other, a healthy one with the probability ``HEALTHY``.
"""

from __future__ import annotations

import math
from typing import Final

from supervisor.core.coherence.gate import Rules, log_odds

HEALTHY: Final = 0.02  # of a good model's samples fail all the same
OUTCOMES: Final = 2000  # of a run of 200,000 steps with a sample each 100


def false_alarms(rules: Rules) -> dict[str, float]:
    """Expected episodes in ``OUTCOMES`` healthy outcomes, by rule, those that are off left out."""
    rates = {
        f"{rules.in_a_row} in a row": in_a_row(rules.in_a_row) if rules.in_a_row else None,
        f"{rules.failing} of {rules.window}": _several(rules) if rules.failing else None,
        f"cusum {rules.cusum:g}": _cusum(rules) if rules.cusum else None,
    }
    return {name: OUTCOMES * rate for name, rate in rates.items() if rate is not None}


def in_a_row(n: int, share: float = HEALTHY) -> float:
    """One by the mean wait for ``n`` failing outcomes in a row."""
    return share**n * (1 - share) / (1 - share**n)


def _several(rules: Rules, share: float = HEALTHY) -> float:
    """An episode begins with a failing outcome that has K - 1 more among the N - 1 before it."""
    n, least = rules.window - 1, rules.failing - 1
    tail = (math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(least, n + 1))
    return share * sum(tail)


def _cusum(rules: Rules, share: float = HEALTHY) -> float:
    """Wald's bound: exp(-t h), t being where the moment generating function of a rise is 1."""
    up, down = log_odds(rules, failed=True), log_odds(rules, failed=False)

    def excess(t: float) -> float:
        return share * math.exp(t * up) + (1 - share) * math.exp(t * down) - 1

    low, high = 1e-6, 1.0
    if excess(low) >= 0:
        return 1.0  # the sum rises on healthy samples: it says nothing
    while excess(high) < 0:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return math.exp(-high * rules.cusum)
