"""One sample and the verdict on it: pass, fail, or cannot judge what is too short."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from supervisor.core.coherence.scores import Scores, measure
from supervisor.core.coherence.sketch import Sketch, most_similar, sketch

KEPT_CHARACTERS: Final = 16_384  # of a text, and of a prompt; the trainer's reports keep all of it
GARBLED: Final = 0.3  # of the characters: as much is no cut in mid-character, it is no text
_DIGITS: Final = 4


class Verdict(StrEnum):
    """What is said of a sample, and of all samples of a step together."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    CANNOT = "cannot judge"


class Said(NamedTuple):
    """What the trainer reported of one sample."""

    step: int
    prompt: str
    text: str
    temperature: float


class Judged(NamedTuple):
    """A sample as it is kept: ``text`` cut to a bound, ``characters`` of the whole one.

    ``scores`` are numbers by name; ``verdict`` is empty where so many samples came of one step
    that this one was not looked at.
    """

    step: int
    prompt: str
    text: str
    characters: int
    temperature: float
    scores: tuple[tuple[str, float], ...]
    verdict: str


class Bar(NamedTuple):
    """What a sample has to reach: ``fail_below`` of 100 points, in at least ``tokens`` tokens."""

    tokens: int
    fail_below: float
    words: frozenset[str] | None = None


def judge(said: Said, bar: Bar, earlier: Iterable[Sketch]) -> tuple[Judged, Sketch]:
    """The sample with its scores and verdict, and the sketch that later ones are compared with."""
    scores, found = measure(said.text, bar.words)
    own = sketch([token.text for token in found])
    numbers = {**_plain(scores), "similar": round(most_similar(own, earlier), _DIGITS)}
    return _kept(said, tuple(numbers.items()), str(_verdict(scores, bar))), own


def unjudged(said: Said) -> Judged:
    """The sample as it is kept where nobody looked at it."""
    return _kept(said, (), "")


def _kept(said: Said, scores: tuple[tuple[str, float], ...], verdict: str) -> Judged:
    return Judged(
        said.step,
        said.prompt[:KEPT_CHARACTERS],
        said.text[:KEPT_CHARACTERS],
        len(said.text),
        said.temperature,
        scores,
        verdict,
    )


def _verdict(scores: Scores, bar: Bar) -> Verdict:
    if scores.tokens < bar.tokens:
        return Verdict.CANNOT
    failed = scores.score < bar.fail_below or scores.garbled >= GARBLED
    return Verdict.FAIL if failed else Verdict.PASS


def _plain(scores: Scores) -> dict[str, float]:
    """Numbers by name, rounded; what was left out is left out here too."""
    return {
        key: round(float(value), _DIGITS)
        for key, value in scores._asdict().items()
        if value is not None
    }
