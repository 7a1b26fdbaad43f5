"""What an algorithm proposes for a phase, before any bound: weights, and why each is what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Proposal:
    """Tentative weights of the arms that take part, penalties included.

    ``scores`` and ``bonuses`` are the algorithm's own, empty where it has none. ``order``, where
    it is not empty, are groups of arms from best to worst: under bounds of shares, what the
    floors leave is poured into them in turn up to their caps, which no weights can say.
    ``generator`` is the state after what was drawn.
    """

    weights: Mapping[str, float]
    generator: int
    scores: Mapping[str, float] = field(default_factory=dict)
    bonuses: Mapping[str, float] = field(default_factory=dict)
    order: tuple[tuple[str, ...], ...] = ()
