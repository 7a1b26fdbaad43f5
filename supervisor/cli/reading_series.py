"""The canonical losses one after the other, with averages over them and what sums them up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile, tee
from pathlib import Path
from typing import Any

from supervisor.cli import printing
from supervisor.core.smoothing import ema, smma
from supervisor.errors import UsageError
from supervisor.sidecars.ledger import Entry, canonical

_SHOWN = 10


class BadLines:
    """Names the first lines that cannot be read, and counts the rest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0

    def add(self, line: int, reason: str) -> None:
        """Line ``line`` is left out."""
        self._count += 1
        if self._count <= _SHOWN:
            printing.complain(f"cannot read line {line} of {self._path.name}: {reason}")

    def tell_rest(self) -> None:
        """Say how many were not named."""
        if self._count > _SHOWN:
            rest = self._count - _SHOWN
            printing.complain(f"cannot read {rest} more lines of {self._path.name}")


def points(path: Path, bad: BadLines) -> Iterator[Entry]:
    """The canonical lines that hold a step and a loss. Raises OSError."""
    for entry in canonical(path, bad.add):
        fields = entry.fields
        value = fields.get("loss", "")
        if type(fields.get("step")) is int and (value is None or type(value) is float):
            yield entry
        else:
            bad.add(entry.line, "it holds no step and loss")


class Smoothing:
    """Which averages to show: an EMA with ``alpha``, an SMMA ``over`` so many, or None of them.

    Raises UsageError for parameters that cannot be used.
    """

    def __init__(self, alpha: float | None, over: int | None) -> None:
        self.alpha = alpha
        self.over = over
        try:
            if alpha is not None:
                ema((), alpha)
            if over is not None:
                smma((), over)
        except ValueError as error:
            raise UsageError(str(error)) from None

    def names(self) -> tuple[str, ...]:
        """What the averages are called, parameters included."""
        found = []
        if self.alpha is not None:
            found.append(f"ema_{self.alpha:g}")
        if self.over is not None:
            found.append(f"smma_{self.over}")
        return tuple(found)

    def over_values(self, values: Iterable[float | None]) -> Iterator[tuple[float | None, ...]]:
        """The averages after each value, as ``names`` calls them."""
        copies = list(tee(values, len(self.names())))
        found = []
        if self.alpha is not None:
            found.append(ema(copies.pop(), self.alpha))
        if self.over is not None:
            found.append(smma(copies.pop(), self.over))
        return zip(*found, strict=False)

    def at(self, path: Path, step: int, bad: BadLines) -> dict[str, Any]:
        """The averages at one step, each with its parameters and what it was computed from."""
        if self.alpha is None and self.over is None:
            return {}
        known, first = 0, None
        averages: tuple[float | None, ...] = ()
        until = takewhile(lambda entry: entry.fields["step"] <= step, points(path, bad))
        for entry, averages in smoothed(until, self):  # noqa: B007 - the last ones are wanted
            if entry.fields["loss"] is not None:
                known += 1
                first = entry.fields["step"] if first is None else first
        values = iter(averages)
        facts: dict[str, Any] = {"from_step": first, "losses": known}
        found: dict[str, Any] = {}
        if self.alpha is not None:
            found["ema"] = {"value": next(values), "alpha": self.alpha, **facts}
        if self.over is not None:
            found["smma"] = {"value": next(values), "n": self.over, **facts}
        return found


def smoothed(
    entries: Iterable[Entry], smoothing: Smoothing
) -> Iterator[tuple[Entry, tuple[float | None, ...]]]:
    """Each entry with the averages after it."""
    if not smoothing.names():
        return ((entry, ()) for entry in entries)
    first, second = tee(entries)
    return zip(first, smoothing.over_values(e.fields["loss"] for e in second), strict=False)


class Summary:
    """What the canonical losses come to."""

    def __init__(self) -> None:
        self.first: Entry | None = None
        self.last: Entry | None = None
        self._count = 0
        self._known = 0
        self._total = 0.0
        self._low: tuple[float, int] | None = None
        self._high: tuple[float, int] | None = None

    def add(self, entry: Entry) -> None:
        """The next entry."""
        self.first = self.first or entry
        self.last = entry
        self._count += 1
        value, step = entry.fields["loss"], entry.fields["step"]
        if value is None:
            return
        self._known += 1
        self._total += value
        if self._low is None or value < self._low[0]:
            self._low = (value, step)
        if self._high is None or value > self._high[0]:
            self._high = (value, step)

    def facts(self) -> dict[str, Any]:
        """As data; a loss that is not known is None."""
        first, last = (e.fields if e else {} for e in (self.first, self.last))
        low, high = self._low or (None, None), self._high or (None, None)
        return {
            "steps": self._count,
            "first_step": first.get("step"),
            "last_step": last.get("step"),
            "loss": last.get("loss"),
            "lowest": low[0],
            "lowest_step": low[1],
            "highest": high[0],
            "highest_step": high[1],
            "mean": self._total / self._known if self._known else None,
            "not_finite": self._count - self._known,
        }

    def lines(self) -> list[str]:
        """As text."""
        facts = self.facts()
        said = facts["loss"]
        if said is None and self.last is not None:
            said = printing.plain(self.last.fields.get("nonfinite"))
        text = [
            f"{'steps':<10}  {facts['steps']}, from {facts['first_step']} to {facts['last_step']}",
            f"{'loss':<10}  {said}",
            f"{'lowest':<10}  {facts['lowest']}  at step {facts['lowest_step']}",
            f"{'highest':<10}  {facts['highest']}  at step {facts['highest_step']}",
            f"{'mean':<10}  {facts['mean']}",
        ]
        if facts["not_finite"]:
            text.append(f"{'not finite':<10}  {facts['not_finite']}")
        return text
