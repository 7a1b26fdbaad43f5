"""Text as a model may say it: healthy, from the words of the licence; or collapsed."""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = 120
# As published, of step 110,000.
QUOTES = ["'" * n for n in (5, 5, 2, 3, 2, 3, 3, 3, 1, 2, 2, 1)]
QUOTES[6] = "'''?'"
COLLAPSED = (
    " ".join(["region"] * WORDS),
    " ".join((QUOTES * WORDS)[:WORDS]),
    " ".join(["games,"] * WORDS),
    " ".join(["Budy"] * WORDS),
)


@cache
def _followers() -> dict[str, list[str]]:
    words = (ROOT / "LICENSE").read_text("utf-8").split()
    found = defaultdict(list)
    for one, other in pairwise(words):
        found[one].append(other)
    return dict(found)


def healthy(rng: random.Random, words: int = WORDS) -> str:
    """Words that follow each other as they do in the licence."""
    followers = _followers()
    word = rng.choice(sorted(followers))
    said = [word]
    while len(said) < words:
        word = rng.choice(followers[word]) if word in followers else rng.choice(sorted(followers))
        said.append(word)
    return " ".join(said)


def collapsed(rng: random.Random) -> str:
    """One of the texts that the first run of the seed said."""
    return rng.choice(COLLAPSED)
