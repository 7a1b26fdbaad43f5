"""How likely each mishap of a simulated run is."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Chances:
    """How likely each mishap is: at every move, for a new attempt, or at the effect it names.

    ``lost`` is data, by its place in the order, whose loss is no number.
    """

    trainer_killed: float = 0.0
    trainer_stopped: float = 0.0
    supervisor_killed: float = 0.0
    both_killed: float = 0.0
    stop: float = 0.0
    save: float = 0.0
    pivot: float = 0.0
    cancel: float = 0.0
    silence: float = 0.0
    disk: float = 0.0
    limit: float = 0.0
    fuse: float = 0.0
    bad: float = 0.0
    differs: float = 0.0
    ignores_exit: float = 0.0
    gap: float = 0.0
    lost: frozenset[int] = frozenset()
    fails: dict[str, float] = field(default_factory=dict)
