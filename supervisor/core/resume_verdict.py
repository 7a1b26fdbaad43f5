"""Compare a resumed life of a run with an uninterrupted one, and say what that proves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

# What makes two steps the same, as in a replay.
FACTS: Final = ("loss", "nonfinite", "arm", "lr", "data")
# What a companion says of the state that the next step depends on.
STATES: Final = ("rng", "cursors", "schedule", "phase", "scaler")
CONTROLS: Final = ("rng", "scheduler", "cursor", "m", "v", "phase")

CPU: Final = "cpu"
DIVERGED: Final = "diverged"
REFUSED: Final = "refused"
SAME: Final = "no difference"
ABSENT: Final = "not kept"
LEFT: Final = "not run"

PROVED: Final = "proved"
FAILED: Final = "failed"
NO_CLAIM: Final = "no bit claim"
UNCONTROLLED: Final = "uncontrolled"


class Comparison(NamedTuple):
    """One thing that two lives are compared in. ``deviation`` is the largest one, where known."""

    what: str
    equal: bool
    detail: str
    deviation: float | None = None


class Control(NamedTuple):
    """A life that resumed without one state: how it is known from the others, or why not."""

    without: str
    result: str
    detail: str


def steps(
    what: str,
    one: Mapping[int, Mapping[str, Any]],
    other: Mapping[int, Mapping[str, Any]],
    span: range,
) -> Comparison:
    """Whether both lives recorded the same facts for each step of ``span``."""
    largest = 0.0
    first = ""
    for step in span:
        a, b = one.get(step), other.get(step)
        if a is None or b is None:
            first = first or f"step {step} is missing"
            continue
        unequal = [fact for fact in FACTS if a.get(fact) != b.get(fact)]
        if unequal and not first:
            fact = unequal[0]
            first = f"step {step}: {fact} {a.get(fact)} and {b.get(fact)}"
        losses = [line["loss"] for line in (a, b) if type(line["loss"]) is float]
        if len(losses) > 1:
            largest = max(largest, abs(losses[0] - losses[1]))
    told = first or f"steps {span.start} to {span.stop - 1}"
    return Comparison(what, not first, told, largest)


def phases(one: Sequence[object], other: Sequence[object]) -> Comparison:
    """Whether both lives finished the same phases, in what both have of them."""
    if list(one) == list(other):
        return Comparison("phases", equal=True, detail=f"{len(one)} finished")
    pairs = zip(one, other, strict=False)
    at = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    return Comparison("phases", equal=False, detail=f"the phase reported as number {at + 1}")


def states(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> list[Comparison]:
    """Whether both companions describe the same state; nothing where neither life keeps one."""
    if one is None and other is None:
        return []
    if one is None or other is None:
        return [Comparison("companion", equal=False, detail="only one life wrote one")]
    found = []
    for key in STATES:
        if one.get(key) is None and other.get(key) is None:
            continue
        unequal = difference(one.get(key), other.get(key))
        found.append(Comparison(key, not unequal, unequal or "as it is kept in the companion"))
    return found


def difference(one: object, other: object, place: str = "") -> str:
    """The first place in which two JSON values differ, or empty where none does."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            inner = f"{place}.{key}" if place else str(key)
            if key not in one or key not in other:
                return f"{inner} stands in one alone"
            if unequal := difference(one[key], other[key], inner):
                return unequal
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        found = (difference(a, b, f"{place}[{at}]") for at, (a, b) in pairs)
        return next((unequal for unequal in found if unequal), "")
    if type(one) is type(other) and one == other:
        return ""
    return f"{place or 'it'} differs"


def unequal(found: Sequence[Comparison]) -> str:
    """The first comparison that failed, in words, or empty."""
    return next((f"{c.what}: {c.detail}" for c in found if not c.equal), "")


def verdict(
    repeated: Sequence[Comparison],
    resumed: Sequence[Comparison],
    controls: Sequence[Control],
    *,
    repeats: bool = True,
) -> tuple[str, str]:
    """What the lives prove, in a word, and why.

    ``repeated`` compares two lives before the cut, which no resume parts: where they differ, or
    the trainer says that it ``repeats`` nothing, bits say nothing. A proof needs a control that
    fails.
    """
    apart = unequal(resumed)
    if why := unequal(repeated):
        return NO_CLAIM, f"two lives differ before the cut, so no resume can be bit-equal: {why}"
    if apart and not repeats:
        return NO_CLAIM, f"its device does not repeat itself: {apart}{_largest(resumed)}"
    if apart:
        return FAILED, f"the resumed life is not the uninterrupted one: {apart}"
    detected = [c.without for c in controls if c.result in (DIVERGED, REFUSED)]
    if not detected:
        return UNCONTROLLED, "no life without a state could be told from the others"
    return PROVED, f"resumed and uninterrupted are equal; detected without {', '.join(detected)}"


def repeats(identities: Mapping[str, Any]) -> bool:
    """Whether a trainer that says this of itself promises the same bits each time.

    One that says nothing of its device is taken at its deeds.
    """
    versions, settings = identities.get("versions"), identities.get("settings")
    device = versions.get("device", CPU) if isinstance(versions, dict) else CPU
    train = settings.get("train") if isinstance(settings, dict) else None
    deterministic = train.get("deterministic", True) if isinstance(train, dict) else True
    return device == CPU or bool(deterministic)


def shares(gpus: Sequence[str], device: object) -> str:
    """The GPUs that a second trainer would share with one on ``device`` (None: it does not say)."""
    return "" if device == CPU else ", ".join(dict.fromkeys(gpus))


def _largest(found: Sequence[Comparison]) -> str:
    known = {c.what: c.deviation for c in found if c.deviation}
    told = ", ".join(f"{what} {apart:.3g}" for what, apart in known.items())
    return f"; largest deviations: {told}" if told else ""
