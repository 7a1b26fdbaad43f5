"""What the guards knew at each seal, from the ledger's lines before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from supervisor.core.guard_rules import Guards
from supervisor.core.guards import NOTHING_SEEN, GuardState, seed
from supervisor.core.state import State
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.ledger import before
from trainer.contract.wire import Step

_EXACT = 2  # the newest seal, and the one that is fallen back to, are known from all they need


def with_guards(
    state: State, ledger: Path, head: SealRecord | None, seals: Sequence[SealRecord], began: int
) -> State:
    """What the guards knew at each of the state's seals, and at step ``began`` of the fold.

    ``head`` is the newest seal, whatever became of it. Raises OSError.
    """
    if head is None:
        return state
    records = seals if seals and seals[0] == head else (head, *seals)
    known = known_at(ledger, state.settings.guards, records)
    points = tuple(replace(seal, guards=known.get(seal.point.step)) for seal in state.seals)
    return replace(state, seals=points, guards=known.get(began, NOTHING_SEEN))


def known_at(ledger: Path, rules: Guards, seals: Sequence[SealRecord]) -> dict[int, GuardState]:
    """The guards' state at the steps of ``seals``, newest first, as far as it can be told.

    Costs a read of ``rules.tail`` lines, or twice as many where the newest two are far apart.
    Raises OSError.
    """
    if not seals:
        return {}
    newest = seals[0]
    far = min(newest.step - seals[:_EXACT][-1].step, rules.tail)
    lines = before(ledger, newest.ledger.bytes, newest.step - far - rules.tail + 1)
    return seed(rules, [_step(line) for line in lines], [seal.step for seal in seals])


def _step(line: dict[str, Any]) -> Step:
    loss, word, arm = line.get("loss"), str(line.get("nonfinite", "")), str(line.get("arm", ""))
    loss = loss if isinstance(loss, float) else None
    return Step(0, 0.0, line["step"], loss, word, arm, 0.0, "", 0, ())
