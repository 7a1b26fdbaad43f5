"""Whether two states are the same, and how far apart they are at most.

Numbers with a point may differ by ``TOLERANCE``, absolutely; everything else is equal or it is
not. A number that is not finite, and a difference of structure, are failures whatever is on the
other side.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from trainer.proof.facts import NONFINITE

TOLERANCE: Final = 1e-12  # absolute; the relative one is 0


class Difference(NamedTuple):
    """``deviation`` is the largest of all numbers compared, None where they cannot be compared.

    ``why`` names the first place that does not agree, or is empty.
    """

    deviation: float | None
    why: str

    @property
    def agrees(self) -> bool:
        """Whether the two are the same within the tolerance."""
        return not self.why


def compare(found: Any, expected: Any, place: str = "") -> Difference:  # noqa: ANN401 - any state
    """Compare two plain states, piece by piece."""
    if _is_nonfinite(found) or _is_nonfinite(expected):
        return Difference(None, f"{place or 'value'}: not finite: {found!r} and {expected!r}")
    if isinstance(found, float) and isinstance(expected, float):
        return _numbers(found, expected, place)
    if type(found) is not type(expected):
        text = f"{type(found).__name__} and {type(expected).__name__}"
        return Difference(None, f"{place or 'value'}: of another kind: {text}")
    if isinstance(found, dict):
        return _dicts(found, expected, place)
    if isinstance(found, list):
        return _lists(found, expected, place)
    why = "" if found == expected else f"{place or 'value'}: {found!r} and {expected!r}"
    return Difference(None if why else 0.0, why)


def _is_nonfinite(value: Any) -> bool:  # noqa: ANN401 - any state
    if isinstance(value, dict):
        return NONFINITE in value
    return isinstance(value, float) and not math.isfinite(value)


def _numbers(found: float, expected: float, place: str) -> Difference:
    deviation = abs(found - expected)
    if deviation <= TOLERANCE:
        return Difference(deviation, "")
    return Difference(deviation, f"{place or 'value'}: {found!r} and {expected!r}")


def _lists(found: list[Any], expected: list[Any], place: str) -> Difference:
    if len(found) != len(expected):
        return Difference(None, f"{place or 'list'}: {len(found)} and {len(expected)} values")
    pairs = zip(found, expected, strict=True)
    return _worst([compare(f, e, f"{place}[{i}]") for i, (f, e) in enumerate(pairs)])


def _dicts(found: dict[str, Any], expected: dict[str, Any], place: str) -> Difference:
    odd = sorted(found.keys() ^ expected.keys())
    if odd:
        return Difference(None, f"{place or 'object'}: only on one side: {', '.join(odd)}")
    dot = f"{place}." if place else ""
    return _worst([compare(found[key], expected[key], f"{dot}{key}") for key in found])


def _worst(parts: list[Difference]) -> Difference:
    """The first disagreement and the largest deviation; None if any part has none."""
    why = next((part.why for part in parts if part.why), "")
    known = [part.deviation for part in parts if part.deviation is not None]
    if len(known) < len(parts):
        return Difference(None, why)
    return Difference(max(known, default=0.0), why)
