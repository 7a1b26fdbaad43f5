"""Numbers of one text: the published score from 0 to 100, and what others call degeneration.

The score is 35 times the share of distinct pairs of tokens, 35 times that of distinct triples, 20
times the share of words that are in the word list, 10 times distinct characters by 26, at most 10.
Without a list the 20 are left out and the rest is rescaled to 100.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from supervisor.core.coherence.tokens import JUDGED_CHARACTERS, Token, tokens

PAIRS, TRIPLES, WORDS, CHARACTERS = 35.0, 35.0, 20.0, 10.0
ALPHABET: Final = 26
_UNREADABLE: Final = frozenset({"Cc", "Cn", "Co", "Cs"})


class Scores(NamedTuple):
    """All of one text. ``words`` is None without a word list; shares are from 0 to 1.

    ``distinct_N`` is the share of N-grams that are not repeats, ``rep_4`` that of 4-grams that
    are. ``run`` is the longest run of one token, ``top`` the share of the most frequent one,
    ``compressed`` the bytes after zlib by those before. ``garbled`` is the share of characters
    that are no text: replacement characters, controls. ``script`` is the share of letters of the
    script that most are of.
    """

    score: float
    pairs: float
    triples: float
    words: float | None
    characters: float
    tokens: int
    distinct_1: float
    distinct_2: float
    distinct_3: float
    rep_4: float
    run: int
    top: float
    compressed: float
    garbled: float
    script: float


def measure(text: str, known: frozenset[str] | None = None) -> tuple[Scores, tuple[Token, ...]]:
    """The scores of the text's judged end, and its tokens. ``known`` are words in lower case.

    The work is bounded by ``JUDGED_CHARACTERS``, however long the text is.
    """
    text = text[-JUDGED_CHARACTERS:]
    found = tokens(text)
    words = [token.text for token in found]
    two, three = distinct(words, 2), distinct(words, 3)
    pairs, triples = PAIRS * two, TRIPLES * three
    characters = CHARACTERS * min(1.0, _alphabet(text) / ALPHABET)
    listed = None if known is None else WORDS * _listed(found, known)
    score = pairs + triples + characters + (listed or 0.0)
    if listed is None:
        score *= 100.0 / (100.0 - WORDS)
    counts = Counter(words)
    scores = Scores(
        score=score,
        pairs=pairs,
        triples=triples,
        words=listed,
        characters=characters,
        tokens=len(words),
        distinct_1=distinct(words, 1),
        distinct_2=two,
        distinct_3=three,
        rep_4=1.0 - distinct(words, 4) if len(words) > 3 else 0.0,  # noqa: PLR2004 - 4-grams
        run=max((sum(1 for _ in same) for _, same in groupby(words)), default=0),
        top=max(counts.values()) / len(words) if words else 0.0,
        compressed=_compressed(text),
        garbled=_garbled(text),
        script=_script(text),
    )
    return scores, found


def distinct(words: Sequence[str], n: int) -> float:
    """The share of distinct ones among all ``n``-grams; 0 where there is none."""
    grams = list(zip(*(words[at:] for at in range(n)), strict=False))
    return len(set(grams)) / len(grams) if grams else 0.0


def _alphabet(text: str) -> int:
    """Distinct characters but spaces, in lower case. Of any script: 26 of them give full marks."""
    return sum(1 for character in set(text.casefold()) if not character.isspace())


def _listed(found: Sequence[Token], known: frozenset[str]) -> float:
    words = [token.text for token in found if token.word]
    return sum(word in known for word in words) / len(words) if words else 0.0


def _compressed(text: str) -> float:
    data = text.encode("utf-8", "replace")
    return len(zlib.compress(data, 6)) / len(data) if data else 0.0


def _garbled(text: str) -> float:
    shown = [character for character in text if not character.isspace()]
    return sum(map(_is_garbled, shown)) / len(shown) if shown else 0.0


@lru_cache(maxsize=8192)
def _is_garbled(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in _UNREADABLE


def _script(text: str) -> float:
    scripts = Counter(map(_script_of, filter(str.isalpha, text)))
    return max(scripts.values()) / scripts.total() if scripts else 0.0


@lru_cache(maxsize=8192)
def _script_of(character: str) -> str:
    """The first word of its name: LATIN, HANGUL, CJK; kana and ideographs are one script here."""
    first = unicodedata.name(character, "NONE").partition(" ")[0]
    return "CJK" if first in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH") else first
