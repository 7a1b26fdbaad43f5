"""The phase in progress: how far it is, what each arm did in it, and which one follows.

Plain values; the loop reads the orders and keeps the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trainer.contract.wire import Orders, PhaseOrder


@dataclass
class Tally:
    """One arm in one phase: pulls served and failed; ``total`` sums the ``counted`` finite losses.

    A loss that is not finite counts as a pull and is left out of the mean.
    """

    pulls: int = 0
    failed: int = 0
    counted: int = 0
    total: float = 0.0

    def add(self, loss: float) -> None:
        """One more pull served."""
        self.pulls += 1
        if math.isfinite(loss):
            self.counted += 1
            self.total += loss


@dataclass
class Phase:
    """Phase ``number``: ``steps`` steps from step ``first`` on, of which ``done`` are done."""

    number: int
    steps: int
    weights: dict[str, float]
    first: int
    repeated: bool = False
    done: int = 0
    arms: dict[str, Tally] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether its last step is done."""
        return self.done >= self.steps

    def served(self, arm: str, loss: float) -> None:
        """Count a pull of ``arm``."""
        self.arms.setdefault(arm, Tally()).add(loss)

    def failed(self, counts: Mapping[str, int]) -> None:
        """Count pulls that failed."""
        for arm, count in counts.items():
            self.arms.setdefault(arm, Tally()).failed += count

    def report(self, epochs: Mapping[str, float]) -> dict[str, object]:
        """The fields of its report; ``epochs`` says how often each arm was read so far."""
        return {
            "phase": self.number,
            "first": self.first,
            "last": self.first + self.done - 1,
            "repeated": self.repeated,
            "weights": self.weights,
            "arms": [
                {
                    "arm": arm,
                    "pulls": tally.pulls,
                    "failed": tally.failed,
                    "loss": tally.total / tally.counted if tally.counted else None,
                    "epochs": epochs.get(arm),
                }
                for arm, tally in sorted(self.arms.items())
            ],
        }


def rejoin(saved: Phase | None, orders: Orders, step: int) -> Phase | None:
    """The phase to go on with after a resume; ``step`` is the last one done.

    The saved one, if the orders name it unchanged, or only the one after it; where it is over, if
    they name the one after it. In every other case the policy has changed and the first one
    ordered begins.
    """
    ordered = {order.phase: order for order in _usable(orders)}
    if saved is None or not ordered:
        return saved
    same = ordered.get(saved.number)
    if (same is None or saved.over) and saved.number + 1 in ordered:
        return saved
    unchanged = same is not None and (same.steps, dict(same.weights)) == (
        saved.steps,
        saved.weights,
    )
    if unchanged and not saved.over:
        return saved
    return _begin(ordered[min(ordered)], step)


def follow(last: Phase | None, orders: Orders, step: int) -> Phase | None:
    """The phase after ``last`` if the orders name it; the first one ordered if there was none."""
    ordered = {order.phase: order for order in _usable(orders)}
    if not ordered:
        return None
    order = ordered.get(last.number + 1) if last else ordered[min(ordered)]
    return _begin(order, step) if order else None


def repeat(last: Phase, step: int) -> Phase:
    """The phase after ``last`` when no order came: the same mix once more."""
    return Phase(last.number + 1, last.steps, dict(last.weights), step + 1, repeated=True)


def phase_record(phase: Phase | None) -> dict[str, Any] | None:
    """A phase as the companion holds it."""
    return asdict(phase) if phase else None


def read_phase(record: dict[str, Any] | None) -> Phase | None:
    """A phase from the companion. Raises ValueError for what is none."""
    if record is None:
        return None
    try:
        arms = {arm: Tally(**tally) for arm, tally in record["arms"].items()}
        return Phase(**{**record, "arms": arms})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"cannot use the phase {record!r}: {error!r}") from None


def _usable(orders: Orders) -> list[PhaseOrder]:
    return [
        order
        for order in orders.phases
        if order.steps > 0 and any(weight > 0 for _, weight in order.weights)
    ]


def _begin(order: PhaseOrder, step: int) -> Phase:
    return Phase(order.phase, order.steps, dict(order.weights), step + 1)
