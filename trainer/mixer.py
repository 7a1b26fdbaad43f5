"""Batches from several arms: which arm is drawn, and what happens when one cannot serve.

The draws come from a generator of the mixer's own, so that nothing else, sampling and evaluation
least of all, moves them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from trainer.data import Arm, Cursor, Digest, cursor_record, read_cursor
from trainer.full_state.rng import put_state, state_of
from trainer.sources import SourceError, Tokens

Weights = Mapping[str, float]


class Batch(NamedTuple):
    """What one step trains on.

    ``sequences`` is uint16 [sequences, context + 1]; ``arms`` names the arm of each one (of all,
    where there is one entry). ``failed`` counts pulls that an arm could not serve, ``digest``
    identifies what was consumed, ``problems`` say what failed or was skipped. ``first``
    is where each arm began. Where one arm serves all, ``draw`` in [0, 1) is the number that chose
    it among the arms still to choose from, and ``propensity`` its probability among them.
    """

    sequences: Tokens
    arms: tuple[str, ...]
    failed: Counter[str]
    digest: str
    problems: tuple[str, ...]
    first: Mapping[str, str] = MappingProxyType({})
    draw: float | None = None
    propensity: float | None = None


class _Drawn(NamedTuple):
    """An arm, the number in [0, 1) that chose it, and how probable it was."""

    arm: str
    number: float
    propensity: float


class NothingServedError(Exception):
    """Every arm with weight has failed; carries the counts and the reasons."""

    def __init__(self, failed: Counter[str], problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems) or "no arm has weight")
        self.failed = failed
        self.problems = problems


class Mixer:
    """Cursors of all arms, and the generator that chooses among them."""

    def __init__(self, arms: list[Arm], *, mix: Literal["step", "sequence"], seed: int) -> None:
        self.arms = {arm.name: arm for arm in arms}
        self.cursors = {arm.name: Cursor() for arm in arms}
        self._absent: dict[str, Any] = {}
        self._mix = mix
        self._generator = random.Random(f"mixer/{seed}")  # noqa: S311 - data order, no secret

    def batch(self, weights: Weights, sequences: int) -> Batch:
        """Draw, read and move the cursors. Raises NothingServedError, and then none has moved."""
        cursors = dict(self.cursors)
        digest, failed = Digest(), Counter[str]()
        problems: list[str] = []
        pulls = 1 if self._mix == "step" else sequences
        taken: list[Tokens] = []
        arms: list[str] = []
        for _ in range(pulls):
            while True:
                drawn = self._draw(weights, failed)
                if drawn is None:
                    raise NothingServedError(failed, tuple(problems))
                name = drawn.arm
                try:
                    tokens, cursors[name] = self._take(name, cursors, sequences // pulls, digest)
                except SourceError as error:
                    failed[name] += 1
                    problems.append(str(error))
                    continue
                taken.append(tokens)
                arms.append(name)
                break
        self.cursors = cursors
        for name in set(arms):
            problems += self.arms[name].remarks
            self.arms[name].remarks.clear()
        whole = taken[0] if pulls == 1 else np.concatenate(taken)
        batch = Batch(whole, tuple(arms), failed, digest.text(), tuple(problems), digest.first)
        if pulls > 1 or drawn is None:
            return batch
        return batch._replace(draw=drawn.number, propensity=drawn.propensity)

    def record(self) -> dict[str, Any]:
        """All cursors, as the companion holds them; an absent arm's waits for its return."""
        here = {name: cursor_record(self.arms[name], c) for name, c in self.cursors.items()}
        return self._absent | here

    def upcoming(self) -> dict[str, str]:
        """The place where the next sequence of each arm begins."""
        return {name: arm.place(self.cursors[name]) for name, arm in self.arms.items()}

    def epochs(self) -> dict[str, float]:
        """How often the documents of each arm were read since the run began."""
        places = self.cursors.items()
        return {name: at.epoch + at.position / len(self.arms[name]) for name, at in places}

    def generator_state(self) -> list[Any]:
        """The generator's state, as the companion holds it."""
        return list(state_of(self._generator))

    def restore_generator(self, state: list[Any]) -> None:
        """Let the draws go on from there. Raises ValueError."""
        put_state(self._generator, state, "of the mixer")

    def restore(self, cursors: dict[str, Any]) -> list[str]:
        """Go where the cursors say; returns what does not match. Raises ValueError."""
        self._absent = {name: c for name, c in cursors.items() if name not in self.arms}
        remarks = [f"arm {name} is gone" for name in self._absent]
        for name, arm in self.arms.items():
            if name not in cursors:
                remarks.append(f"arm {name} is new and begins at its first document")
                continue
            self.cursors[name] = read_cursor(arm, cursors[name])
        return remarks

    def _draw(self, weights: Weights, failed: Counter[str]) -> _Drawn | None:
        """One arm by weight, among those that have not failed in this batch."""
        names = [name for name, weight in weights.items() if weight > 0 and name not in failed]
        if not names:
            return None
        total = sum(weights[name] for name in names)
        number = self._generator.random()
        point = number * total
        for name in names:
            point -= weights[name]
            if point < 0:
                return _Drawn(name, number, weights[name] / total)
        return _Drawn(names[-1], number, weights[names[-1]] / total)

    def _take(
        self, name: str, cursors: dict[str, Cursor], sequences: int, digest: Digest
    ) -> tuple[Tokens, Cursor]:
        if name not in self.arms:
            raise SourceError(f"cannot draw from {name}: no such source could be opened")
        return self.arms[name].take(cursors[name], sequences, digest)
