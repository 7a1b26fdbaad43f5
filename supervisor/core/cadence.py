"""How often to save: from how long a save takes and how often a run is interrupted."""

from __future__ import annotations

from math import sqrt


def best_interval(save: float, between_failures: float) -> float:
    """Seconds of training between two saves that lose the least time to saves and failures.

    ``save`` and ``between_failures`` (the mean) are seconds above 0. The formula is equation 37 of
    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
    Future Generation Computer Systems 22 (2006), pages 303 to 312. Its first term alone is
    J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications
    of the ACM 17 (1974), pages 530 and 531.
    """
    if save >= 2 * between_failures:
        return between_failures
    share = save / (2 * between_failures)
    young = sqrt(2 * save * between_failures)
    return young * (1 + sqrt(share) / 3 + share / 9) - save


def overhead(save: float, interval: float) -> float:
    """The share of time that saves take, with ``interval`` seconds of training between two."""
    return save / (interval + save)


def waste(save: float, interval: float, between_failures: float) -> float:
    """About which share of time is lost to saves and to steps done twice (Young's first order)."""
    return overhead(save, interval) + interval / (2 * between_failures)


def round_steps(steps: float) -> int:
    """A cadence that a person would choose: 1, 2 or 5 times a power of ten, at most ``steps``."""
    if steps < 1:
        return 1
    power = 1
    while 10 * power <= steps:
        power *= 10
    return max(factor * power for factor in (1, 2, 5) if factor * power <= steps)
