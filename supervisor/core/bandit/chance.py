"""Chance that can be repeated: draws from a generator whose 64-bit state is a value.

SplitMix64 (Steele, Lea, Flood 2014); each draw returns the advanced state beside its result.
"""

from __future__ import annotations

MASK = (1 << 64) - 1


def draw(state: int, below: int) -> tuple[int, int]:
    """A whole number from range(below)."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, (z ^ (z >> 31)) * below >> 64
