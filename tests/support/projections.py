"""Projections done slowly and exactly, random cases for them, and the wrong ways of doing them."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import fsum
from typing import NamedTuple

from supervisor.core.bounds import infeasible

KINDS = ("plain", "wide", "ties", "full", "equal", "masked", "zeros")


class Case(NamedTuple):
    """What is projected (weights, or points of any sign), and the bounds."""

    values: list[float]
    floors: list[float]
    caps: list[float]


def exact_kl(case: Case) -> list[float]:
    """The KL projection in rational numbers: no digit is lost before the end."""
    largest = max(case.values)
    least = Fraction(10) ** -300
    weights = [
        max(Fraction(w) / Fraction(largest), least) if largest > 0 else Fraction(1)
        for w in case.values
    ]
    floors, caps = [[Fraction(b) for b in bounds] for bounds in (case.floors, case.caps)]
    arms = list(zip(weights, floors, caps, strict=True))
    marks = sorted({bound / w for w, floor, cap in arms for bound in (floor, cap)})
    return _solved(marks, lambda c: [min(cap, max(floor, c * w)) for w, floor, cap in arms])


def exact_euclidean(case: Case) -> list[float]:
    """The Euclidean projection in rational numbers."""
    points, floors, caps = [[Fraction(value) for value in values] for values in case]
    arms = list(zip(points, floors, caps, strict=True))
    marks = sorted({bound - y for y, floor, cap in arms for bound in (floor, cap)})
    return _solved(marks, lambda by: [min(cap, max(floor, y + by)) for y, floor, cap in arms])


def _solved(marks: list[Fraction], clipped: Callable[[Fraction], list[Fraction]]) -> list[float]:
    """Halve what is between the breakpoints until a sum of 1 is between two neighbours."""
    at = bisect_left(marks, Fraction(1), key=lambda mark: sum(clipped(mark)))
    high = marks[min(at, len(marks) - 1)]
    low = marks[max(0, at - 1)]
    below, above = sum(clipped(low)), sum(clipped(high))
    part = (1 - below) / (above - below) if above > below else Fraction(1)
    return [float(share) for share in clipped(low + min(part, Fraction(1)) * (high - low))]


def a_case(rng: random.Random, count: int, kind: str, *, signed: bool = False) -> Case:
    """A feasible case: bounds around random shares, tight or loose; ``KINDS`` are the odd ones."""
    while True:
        case = _drawn(rng, count, kind, signed=signed)
        if not infeasible(case.floors, case.caps):
            return case


def _drawn(rng: random.Random, count: int, kind: str, *, signed: bool) -> Case:
    inside = [rng.random() ** rng.choice((1, 4)) + 1e-3 for _ in range(count)]
    if kind == "masked" and count > 1:
        inside[1:] = [rng.choice((0.0, value)) for value in inside[1:]]
    inside = [value / fsum(inside) for value in inside]
    tight = rng.choice((0.0, 0.3, 0.9))
    floors = [value * rng.choice((tight, tight * rng.random(), 0.0)) for value in inside]
    caps = [
        min(1.0, value + (1.0 - value) * rng.choice((1.0 - tight, rng.random(), 1.0)))
        if value or kind != "masked"
        else 0.0
        for value in inside
    ]
    if kind == "full":  # a thing of rounding: floors, caps or both that sum to 1
        floors, caps = rng.choice(((inside, caps), (floors, inside), (inside, inside)))
    if kind == "equal":
        one = rng.uniform(0.0, 1.0 / count)
        floors, caps = [one] * count, [rng.uniform(1.0 / count, 1.0)] * count
    return Case([_value(rng, kind, signed=signed) for _ in range(count)], floors, caps)


def _value(rng: random.Random, kind: str, *, signed: bool) -> float:
    if kind == "wide":
        value = 10.0 ** rng.uniform(-150.0, 150.0)
    elif kind == "ties":
        value = rng.choice((0.25, 0.5, 1.0))
    elif kind == "zeros":
        value = rng.choice((0.0, 0.0, rng.random()))
    else:
        value = rng.choice((rng.random(), rng.random() ** 8, 1.0))
    return value * rng.choice((-1.0, 1.0)) if signed else value


def clamped_and_divided(case: Case, rounds: int = 10) -> list[float]:
    """Wrong: clamp to the bounds, divide by the sum, again and again."""
    shares = [value / fsum(case.values) for value in case.values]
    for _ in range(rounds):
        shares = [
            min(cap, max(floor, share))
            for share, floor, cap in zip(shares, case.floors, case.caps, strict=True)
        ]
        shares = [share / fsum(shares) for share in shares]
    return shares


def lifted_and_divided(shares: Sequence[float], floors: Sequence[float]) -> list[float]:
    """Wrong: take the maximum with the floor, then divide by the sum."""
    lifted = [max(share, floor) for share, floor in zip(shares, floors, strict=True)]
    return [share / fsum(lifted) for share in lifted]
