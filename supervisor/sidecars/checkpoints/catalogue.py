"""Which checkpoints a run has: sealed ones of its lineage, unsealed ones, and those refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from supervisor.sidecars.checkpoints import marks, seals
from supervisor.sidecars.checkpoints.presence import kind_of, measure, names_by_step
from supervisor.sidecars.checkpoints.seals import SealRecord
from trainer.contract.checkpoint_format import FORMATS, companion_of, form_of, seal_of, step_of

UNLIKE_SEAL = ("size: ", "companion: ")  # how a reason begins that a seal of the lineage gives
_ENDINGS = tuple(f".{form}" for form in FORMATS)


class Unsealed(NamedTuple):
    """A visible checkpoint that nobody has sealed."""

    step: int
    name: str


class Refused(NamedTuple):
    """A checkpoint that is not to be resumed from, and why; ``seal`` of one quarantined only."""

    step: int
    name: str
    reason: str
    seal: SealRecord | None = None


class Gap(NamedTuple):
    """A seal that a later one follows and that is not there."""

    step: int
    previous: str


class Retired(NamedTuple):
    """A seal of the lineage whose checkpoint was deleted, as retention does."""

    seal: SealRecord


_Found = SealRecord | Retired | Refused | Gap


class Catalogue:
    """What the folder held when it was listed; files of other names are left alone.

    Seals are read when asked for, newest first, and each once: ``newest`` of a run with ten
    thousand of them reads a few. No checkpoint is opened.
    """

    def __init__(self, folder: Path, names: frozenset[str]) -> None:
        self._folder = folder
        self._names = names
        self._read: dict[int, SealRecord | Refused] = {}

    @property
    def present(self) -> tuple[int, ...]:
        """Steps with a checkpoint and something named as its seal, newest first; reads none."""
        steps = (step for step in self._named if seal_of(step) in self._names)
        return tuple(sorted(steps, reverse=True))

    @property
    def head(self) -> SealRecord | None:
        """The newest seal that can be read, whatever became of what it sealed: history ends."""
        found = (self._seal(step) for step in self._steps())
        return next((seal for seal in found if isinstance(seal, SealRecord)), None)

    def newest(self, n: int = 1) -> tuple[SealRecord, ...]:
        """The newest ``n`` that the run can resume from. Raises RefusedError for bad marks."""
        return tuple(islice((seal for seal in self._walk() if isinstance(seal, SealRecord)), n))

    def passed_over(self, n: int) -> tuple[Refused, ...]:
        """What is refused above the newest ``n``; older seals are not read."""
        found: list[Refused] = []
        for checkpoint in self._walk():
            n -= isinstance(checkpoint, SealRecord)
            if isinstance(checkpoint, Refused):
                found.append(checkpoint)
            if n <= 0:
                break
        return (*found, *self._misnamed())

    def quarantined(self, n: int) -> tuple[SealRecord, ...]:
        """Those that are quarantined above the newest ``n``; older seals are not read."""
        found = (refused.seal for refused in self.passed_over(n))
        return tuple(seal for seal in found if seal is not None)

    @cached_property
    def sealed(self) -> tuple[SealRecord, ...]:
        """All that the run can resume from, newest first."""
        return tuple(found for found in self._everything if isinstance(found, SealRecord))

    @cached_property
    def retired(self) -> tuple[SealRecord, ...]:
        """The lineage's seals whose checkpoint is gone, newest first."""
        return tuple(found.seal for found in self._everything if isinstance(found, Retired))

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """Seals that are missing from the lineage."""
        return tuple(found for found in self._everything if isinstance(found, Gap))

    @cached_property
    def refused(self) -> tuple[Refused, ...]:
        """What is not to be resumed from, newest first."""
        found = [found for found in self._everything if isinstance(found, Refused)]
        return tuple(sorted([*found, *self._misnamed()], key=itemgetter(0, 1, 2), reverse=True))

    @cached_property
    def unsealed(self) -> tuple[Unsealed, ...]:
        """Visible checkpoints without a seal, newest first; reads no seal.

        Where a step has several, of different formats, none of them is: see ``refused``.
        """
        found = [Unsealed(step, names[0]) for step, names in self._loose if len(names) == 1]
        return tuple(sorted(found, reverse=True))

    @cached_property
    def _everything(self) -> tuple[_Found, ...]:
        return tuple(self._walk())

    @cached_property
    def _named(self) -> dict[int, list[str]]:
        return names_by_step(self._names)

    @property
    def _loose(self) -> Iterator[tuple[int, list[str]]]:
        """Steps that nothing is named as the seal of, each with the checkpoints that it has."""
        for step, names in self._named.items():
            if seal_of(step) not in self._names:
                yield step, sorted(name for name in names if self._is_there(name))

    def _misnamed(self) -> Iterator[Refused]:
        """What is named as a checkpoint and is none, or is another than the one that counts."""
        for name in self._names:
            if name.startswith("step_") and name.endswith(_ENDINGS) and step_of(name) is None:
                expected = "step_NNNNNN" + name[name.rindex(".") :]
                yield Refused(0, name, f"name: expected {expected}, found another form")
        for step, names in self._named.items():
            if seal_of(step) in self._names:
                yield from self._others_than_sealed(step, names)
                continue
            for name in names:
                if not self._is_there(name):
                    expected = kind_of(form_of(name))
                    yield Refused(step, name, f"kind: expected {expected}, found another")
        for step, names in self._loose:
            if len(names) > 1:
                reason = f"format: expected one of {' and '.join(names)}, and none is sealed"
                yield from (Refused(step, name, reason) for name in names)

    def _others_than_sealed(self, step: int, names: list[str]) -> Iterator[Refused]:
        """Those beside the sealed one; seals that were not asked for are read only for several."""
        seal = self._seal(step) if len(names) > 1 else self._read.get(step)
        if isinstance(seal, SealRecord):
            for name in names:
                if name != seal.bin.name:
                    yield Refused(step, name, f"format: expected {seal.bin.name} as sealed")

    def _walk(self) -> Iterator[_Found]:
        """Go from the newest seal back along ``previous``.

        A seal that the walk passes over belongs to another history. A predecessor that is not
        there at all is a gap: the walk says so and goes on with the next lower seal.
        """
        steps = self._steps()
        rejections = marks.rejections(self._folder)
        suspects = marks.quarantined(self._folder)
        later: SealRecord | None = None
        while steps:
            found = self._seal(steps.pop(0))
            if isinstance(found, Refused):
                yield found
                continue
            if later is not None and found.digest != later.previous:
                lower = [found.step, *steps]
                heir = self._find(later.previous, steps)
                if heir is not None or not later.previous:
                    passed = lower[: lower.index(heir)] if heir is not None else lower
                    yield from self._strangers(passed, later)
                    steps = lower[len(passed) :]
                    continue
                yield Gap(later.step, later.previous)
            later = found
            judged = self._judge(found, rejections)
            why = suspects.get(found.digest)
            if why is not None and isinstance(judged, SealRecord):
                judged = Refused(found.step, found.bin.name, f"quarantined: {why}", found)
            yield judged

    def _steps(self) -> list[int]:
        """Steps of everything named as a seal, newest first."""
        steps = (
            step_of(name.removesuffix(".seal.json") + ".bin")
            for name in self._names
            if name.endswith(".seal.json")
        )
        return sorted((step for step in steps if step is not None), reverse=True)

    def _seal(self, step: int) -> SealRecord | Refused:
        if step not in self._read:
            path = self._folder / seal_of(step)
            try:
                self._read[step] = seals.read(path)
            except (OSError, seals.SealError) as error:
                self._read[step] = Refused(step, path.name, str(error))
        return self._read[step]

    def _find(self, digest: str, steps: list[int]) -> int | None:
        """The step of the seal with that digest."""
        for step in steps:
            found = self._seal(step)
            if isinstance(found, SealRecord) and found.digest == digest:
                return step
        return None

    def _strangers(self, steps: list[int], later: SealRecord) -> Iterator[Refused]:
        for step in steps:
            found = self._seal(step)
            yield (
                found
                if isinstance(found, Refused)
                else Refused(
                    step,
                    seal_of(step),
                    f"lineage: the seal of step {later.step} follows another one than this",
                )
            )

    def _judge(self, seal: SealRecord, rejections: dict[str, str]) -> _Found:
        """Whether the run can resume from a seal of its lineage."""
        if seal.digest in rejections:
            return Refused(seal.step, seal.bin.name, f"rejected: {rejections[seal.digest]}")
        if seal.bin.name not in self._names:
            return Retired(seal)
        reason = ""
        size = measure(self._folder / seal.bin.name)
        if size != seal.bin.bytes:
            found = f"not {kind_of(form_of(seal.bin.name))}" if size is None else f"{size} bytes"
            reason = f"{UNLIKE_SEAL[0]}expected {seal.bin.bytes} bytes as sealed, found {found}"
        elif seal.companion and companion_of(seal.step) not in self._names:
            reason = f"{UNLIKE_SEAL[1]}expected {companion_of(seal.step)} as sealed, found none"
        return Refused(seal.step, seal.bin.name, reason) if reason else seal

    def _is_there(self, name: str) -> bool:
        return measure(self._folder / name) is not None


def scan(folder: Path) -> Catalogue:
    """List the folder; one that is not there holds nothing. Raises OSError."""
    try:
        names = frozenset(os.listdir(folder))  # noqa: PTH208 - names only, in the restart path
    except FileNotFoundError:
        names = frozenset()
    return Catalogue(folder, names)
