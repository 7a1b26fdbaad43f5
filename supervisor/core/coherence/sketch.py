"""A few numbers that stand for a text, by which texts are compared without being kept.

The least hash values of a text's triples of tokens: two texts share as many of them as they share
triples, about. So a model that says the same at every step is seen, which no sample alone shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

SIZE: Final = 16

Sketch = tuple[int, ...]


def sketch(words: Sequence[str]) -> Sketch:
    """At most ``SIZE`` numbers of 32 bits, ascending; none for fewer than three tokens."""
    triples = {
        crc32("\0".join(three).encode("utf-8", "replace"))
        for three in zip(words, words[1:], words[2:], strict=False)
    }
    return tuple(sorted(triples)[:SIZE])


def similarity(one: Sketch, other: Sketch) -> float:
    """The share of triples that two texts have in common, estimated; 0 where one has none."""
    if not one or not other:
        return 0.0
    least = set(sorted({*one, *other})[:SIZE])
    return len(least & set(one) & set(other)) / len(least)


def most_similar(one: Sketch, others: Iterable[Sketch]) -> float:
    """The similarity to the likest of ``others``; 0 without any."""
    return max((similarity(one, other) for other in others), default=0.0)
