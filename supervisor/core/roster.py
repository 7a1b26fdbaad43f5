"""Every arm that policy, settings or state know of, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum


class Standing(StrEnum):
    """Where an arm stands."""

    LIVE = "live"
    CHANGED = "changed"  # live, and its source holds something else than when it was first seen
    NEW = "new"  # a source without an arm: it waits until a pivot names it
    UNAVAILABLE = "unavailable"  # in the policy, and its source is not there
    REMOVED = "removed"  # in the policy, and no source of run.toml any more
    ZOMBIE = "zombie"  # in the state alone
    LEFT = "left"  # retired under this policy for another reason, as read enough


WHAT_IT_MEANS = {
    Standing.LIVE: "",
    Standing.CHANGED: "its content changed; its numbers are kept",
    Standing.NEW: "waits until a pivot names it",
    Standing.UNAVAILABLE: "its source is not there; it holds no weight",
    Standing.REMOVED: "it has no source in run.toml; a pivot to a policy without it ends that",
    Standing.ZOMBIE: "no policy has it; it holds no weight",
    Standing.LEFT: "retired until the next pivot",
}


def roster(
    policy: Iterable[str],
    sources: Iterable[str],
    live: Iterable[str],
    arms: Mapping[str, bool],
    retired: Iterable[str] = (),
) -> dict[str, Standing]:
    """Where each arm stands, those of the policy first.

    ``live`` are sources that are there. ``arms`` are those of the bandit's state, with whether
    their content changed; ``retired`` those that it has retired.
    """
    policy, sources, live = tuple(policy), tuple(sources), frozenset(live)
    found = {name: _of_policy(name, sources, live, arms, retired) for name in policy}
    found |= {name: Standing.NEW for name in sources if name not in found}
    for name in (*arms, *retired):
        if name not in policy:
            found[name] = Standing.ZOMBIE
    return found


def in_words(found: Mapping[str, Standing]) -> str:
    """One line: how many arms stand where, and which."""
    groups = {standing: [n for n, s in found.items() if s is standing] for standing in Standing}
    told = []
    for standing, names in groups.items():
        if names:
            means = WHAT_IT_MEANS[standing]
            told.append(f"{standing} {', '.join(names)}" + (f" ({means})" if means else ""))
    return "arms: " + ("; ".join(told) or "none")


def _of_policy(
    name: str,
    sources: tuple[str, ...],
    live: frozenset[str],
    arms: Mapping[str, bool],
    retired: Iterable[str],
) -> Standing:
    if name not in sources:
        return Standing.REMOVED
    if name not in live:
        return Standing.UNAVAILABLE
    if name in arms:
        return Standing.CHANGED if arms[name] else Standing.LIVE
    return Standing.LEFT if name in retired else Standing.LIVE
