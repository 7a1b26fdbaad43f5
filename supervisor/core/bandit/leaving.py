"""Arms that have left: their numbers are kept, and go on where a trainer still reports of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from supervisor.core.bandit.state import ArmState, BanditState, Discounted, Retired
from trainer.contract.wire import ArmResult

STRANGERS = 8  # names that are kept of what is no arm; a trainer may invent any number


def left(retired: tuple[Retired, ...], gone: tuple[Retired, ...]) -> tuple[Retired, ...]:
    """Those that have left, with ``gone``; who left for the same reason before is one record.

    A source that comes and goes must not fill the state, which every seal holds.
    """
    for one in gone:
        before = next((r for r in retired if (r.arm.name, r.why) == (one.arm.name, one.why)), None)
        if before is not None:
            retired = tuple(other for other in retired if other is not before)
            one = replace(one, arm=_together(before.arm, one.arm))  # noqa: PLW2901 - the same arm
        retired = (*retired, one)
    return retired


def count_elsewhere(
    state: BanditState, served: Mapping[str, int], last: Mapping[str, int]
) -> BanditState:
    """Count pulls of what is no arm of the state: of one that has left, else of a stranger."""
    retired, strangers = list(state.retired), dict(state.strangers)
    for name, pulls in served.items():
        at = max((i for i, r in enumerate(retired) if r.arm.name == name), default=None)
        if at is not None:
            arm = retired[at].arm
            arm = replace(arm, served=arm.served + pulls, last_step=last[name])
            retired[at] = replace(retired[at], arm=arm)
            continue
        known = name in strangers or len(strangers.keys() - {""}) < STRANGERS
        key = name if known else ""
        strangers[key] = strangers.get(key, 0) + pulls
    return replace(state, retired=tuple(retired), strangers=tuple(strangers.items()))


def count_failed(
    retired: tuple[Retired, ...], results: Mapping[str, ArmResult]
) -> tuple[Retired, ...]:
    """Count the pulls that failed because the arm had left while the trainer still drew it."""
    counted = list(retired)
    for name, result in results.items():
        at = max((i for i, r in enumerate(counted) if r.arm.name == name), default=None)
        if at is not None and result.failed:
            arm = counted[at].arm
            arm = replace(arm, failed=arm.failed + result.failed)
            counted[at] = replace(counted[at], arm=arm)
    return tuple(counted)


def _together(before: ArmState, after: ArmState) -> ArmState:
    """The numbers of two stays: counts and sums of both, what is smoothed of the later one."""
    n = before.n + after.n
    total = before.mean * before.n + after.mean * after.n
    sums = (one + two for one, two in zip(before.discounted, after.discounted, strict=True))
    return replace(
        after,
        served=before.served + after.served,
        failed=before.failed + after.failed,
        n=n,
        mean=total / n if n else 0.0,
        ema=after.ema if after.n else before.ema,
        loss=before.loss if after.loss is None else after.loss,
        last_step=max(before.last_step, after.last_step),
        discounted=Discounted(*sums),
    )
