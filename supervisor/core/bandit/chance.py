"""Chance that can be repeated: draws from a generator whose 64-bit state is a value.

SplitMix64 (Steele, Lea, Flood 2014); each draw returns the advanced state beside its result.
"""

from __future__ import annotations

import math

MASK = (1 << 64) - 1


def draw(state: int, below: int) -> tuple[int, int]:
    """A whole number from range(below)."""
    state, bits = _bits(state)
    return state, bits * below >> 64


def normals(state: int, count: int) -> tuple[int, list[float]]:
    """Standard normal numbers, two from each pair of draws (Box and Muller 1958)."""
    found: list[float] = []
    while len(found) < count:
        state, first = _bits(state)
        state, second = _bits(state)
        radius = math.sqrt(-2.0 * math.log((first + 1) / (MASK + 1)))
        angle = 2.0 * math.pi * second / (MASK + 1)
        found += (radius * math.cos(angle), radius * math.sin(angle))
    return state, found[:count]


def _bits(state: int) -> tuple[int, int]:
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)
