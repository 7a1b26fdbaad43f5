"""Cut a text into tokens: words where a script has spaces, single characters where it has none.

A run of punctuation is a token of its own. Vowel signs and accents belong to the letter before
them. What is longer than any word is cut into pieces, or a loop without spaces were one token.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final, NamedTuple

JUDGED_CHARACTERS: Final = 4096  # of the text's end: a text that has begun to loop goes on looping
JUDGED_TOKENS: Final = 512
_LONGEST_WORD, _PIECE = 24, 4
# Between two letters of a word: apostrophes, and what joins letters of Indic scripts.
_JOINERS: Final = "'\u2019\u200c\u200d"

# First and last code point of scripts that are written without spaces between words.
_SPACELESS: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),
    (0x3040, 0x312F),  # kana, Bopomofo
    (0x31F0, 0x31FF),
    (0x3400, 0x9FFF),  # ideographs
    (0xA000, 0xA4CF),  # Yi
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)


class Token(NamedTuple):
    """``text`` in lower case; ``word`` says that it is one of letters or digits."""

    text: str
    word: bool


def tokens(text: str) -> tuple[Token, ...]:
    """The last ``JUDGED_TOKENS`` tokens of the text's last ``JUDGED_CHARACTERS`` characters."""
    found: list[Token] = []
    begun, kind = "", "space"
    shown = text[-JUDGED_CHARACTERS:].casefold()
    for at, character in enumerate(shown):
        now = kind_of(character)
        if now == "mark" and begun:
            begun += character
            continue
        if character in _JOINERS and kind == "word" and _goes_on(shown, at + 1):
            begun += character
            continue
        if now == "mark":
            now = "word"
        if now != kind or now == "alone":
            _finish(found, begun, kind)
            begun, kind = "", now
        if now != "space":
            begun += character
    _finish(found, begun, kind)
    return tuple(found[-JUDGED_TOKENS:])


def _goes_on(text: str, at: int) -> bool:
    return at < len(text) and kind_of(text[at]) in ("word", "mark")


def _finish(found: list[Token], begun: str, kind: str) -> None:
    if not begun:
        return
    word = kind in ("word", "alone")
    if len(begun) <= _LONGEST_WORD:
        found.append(Token(begun, word))
        return
    found += (Token(begun[at : at + _PIECE], word) for at in range(0, len(begun), _PIECE))


@lru_cache(maxsize=8192)
def kind_of(character: str) -> str:
    """``word``, ``alone`` (a letter of a script without spaces), ``mark``, ``space``, ``other``."""
    category = unicodedata.category(character)
    if category[0] == "M":
        return "mark"
    if category[0] in "LN":
        point = ord(character)
        spaceless = any(first <= point <= last for first, last in _SPACELESS)
        return "alone" if spaceless and category[0] == "L" else "word"
    if character.isspace() or category[0] == "Z":
        return "space"
    return "other"
