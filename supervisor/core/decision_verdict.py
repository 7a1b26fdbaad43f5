"""Whether a phase that was decided once more is the one on record, and if not, why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from supervisor.core.draws import Draw
from supervisor.core.explaining import Recomputed, Result
from supervisor.core.propensities import propensity

Mix = Mapping[str, float]

_CAUSE = (
    "reports, seals or policy were changed since, the trainer reports other shares than it "
    "was ordered, or another version of the program decided"
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the record says of a phase and of one step of it.

    ``shares`` are None where no report and no order names the phase; ``steps`` where it was not
    finished. ``arm`` and ``propensity`` are the step's. ``older``: an earlier version of the
    program decided.
    """

    phase: int
    shares: Mix | None
    steps: int | None
    repeated: bool
    arm: str
    propensity: float | None
    older: bool = False


def verdict(
    found: Recomputed | None, recorded: Recorded, drawn: Draw | None
) -> tuple[Result, tuple[str, ...]]:
    """Equal to the last bit, or every difference with what is known of its cause."""
    if found is None:
        why = f"no report says what the decision of phase {recorded.phase} was made from"
        return Result.UNKNOWN, (why,)
    problems = [*_of_phase(found, recorded), *_of_step(found, recorded, drawn), *_missing(found)]
    if problems:
        return Result.DIFFERS, tuple(problems)
    if recorded.shares is None and recorded.propensity is None:
        why = f"neither reports nor orders hold the shares of phase {recorded.phase}"
        return Result.UNKNOWN, (why,)
    return Result.EQUAL, ()


def _of_phase(found: Recomputed, recorded: Recorded) -> Iterator[str]:
    number = recorded.phase
    if recorded.shares is None:
        return
    if recorded.repeated:
        yield (
            f"phase {number} ran the shares of phase {number - 1} once more: the trainer had no "
            "orders for it; those decided came too late"
        )
        return
    shares, told = dict(found.order.weights), dict(recorded.shares)
    if recorded.steps is not None and recorded.steps != found.order.steps:
        yield f"phase {number} lasted {recorded.steps} steps, decided were {found.order.steps}"
    if shares == told:
        return
    gone = [name for name in shares if name not in told]
    come = [name for name in told if name not in shares]
    if gone or come:
        yield f"phase {number} was of other arms: " + ", ".join(
            [*(f"{name} had left" for name in gone), *(f"{name} had come" for name in come)]
        )
    apart = [name for name in shares if told.get(name, shares[name]) != shares[name]]
    if apart:
        name = max(apart, key=lambda name: abs(told[name] - shares[name]))
        yield (
            f"the shares of {len(apart)} arms differ, most that of {name}: recorded "
            f"{told[name]!r}, recomputed {shares[name]!r}"
        )
    if recorded.older:
        yield "an earlier version of the program decided, by rules that are not today's"
    elif not found.missing:
        yield _CAUSE


def _missing(found: Recomputed) -> Iterator[str]:
    """A record that is not whole is not the one that decided, whatever follows from it."""
    if found.missing:
        one = len(found.missing) == 1
        names = ", ".join(map(str, found.missing))
        yield f"the report{'s' * (not one)} of phase {names} {'is' if one else 'are'} missing"


def _of_step(found: Recomputed, recorded: Recorded, drawn: Draw | None) -> Iterator[str]:
    if drawn is not None and not drawn.holds:
        if not 0.0 <= drawn.number < 1.0:
            yield f"the draw {drawn.number!r} is no number from 0 to 1"
        elif drawn.arm != recorded.arm:
            yield (
                f"the draw {drawn.number!r} falls to {drawn.arm} ({drawn.low:.6f} to "
                f"{drawn.high:.6f}), and {recorded.arm} served"
            )
        else:
            yield (
                f"the step tells a propensity of {recorded.propensity!r}, and its draw had one of "
                f"{drawn.propensity!r}"
            )
    if drawn is None and recorded.propensity is not None and not recorded.repeated:
        shares = dict(recorded.shares or found.order.weights)
        own = propensity(recorded.arm, shares)
        if own != recorded.propensity:
            told = repr(recorded.propensity)
            yield (
                f"the step tells a propensity of {told}, its phase one of {own!r}: they part where "
                "a source leaves amid a phase, which the trainer ends with the mix that it has"
            )
