"""What the guards knew at each seal, from the ledger's lines before it, and what was marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from supervisor.config import Config
from supervisor.core.guard_rules import Guards
from supervisor.core.guards import NOTHING_SEEN, GuardState, seed
from supervisor.core.state import Attempt, SealPoint, State
from supervisor.sidecars.checkpoints import SealRecord, marks
from supervisor.sidecars.ledger import before
from trainer.contract.wire import Step

_EXACT = 3  # the newest, the one resumed from and the one fallen back to: from all they need


def with_guards(
    state: State, config: Config, head: SealRecord | None, attempt: Attempt | None
) -> tuple[State, Attempt | None]:
    """What the guards knew at each of the state's seals, and where the fold of ``attempt`` begins.

    ``head`` is the newest seal, whatever became of it. What is skipped at a seal is added. Raises
    OSError, RefusedError.
    """
    folder = config.run / "checkpoints"
    skips = marks.skips(folder)
    if attempt is not None and attempt.resume is not None:
        told = skips.get(attempt.resume.seal, ())
        marked = ((number, steps) for number, steps in reversed(told) if number < attempt.number)
        rolled, skip = next(marked, (0, 0))
        attempt = replace(attempt, rolled=rolled, skip=skip)
    if head is None:
        return state, attempt
    known = known_at(config.ledger, state.settings.guards, head, _steps(state))

    def with_all(seals: tuple[SealPoint, ...]) -> tuple[SealPoint, ...]:
        return tuple(
            replace(seal, guards=known.get(seal.point.step), skips=skips.get(seal.point.seal, ()))
            for seal in seals
        )

    began = known.get(attempt.began, NOTHING_SEEN) if attempt is not None else NOTHING_SEEN
    seals, kept = with_all(state.seals), with_all(state.quarantined)
    return replace(state, seals=seals, quarantined=kept, guards=began), attempt


def last_rolled(run: Path, seals: Sequence[SealRecord]) -> int:
    """The last attempt that was rolled back to the newest of ``seals``, 0 without one.

    Raises RefusedError.
    """
    told = marks.skips(run / "checkpoints").get(seals[0].digest, ()) if seals else ()
    return told[-1][0] if told else 0


def _steps(state: State) -> list[int]:
    return sorted((s.point.step for s in (*state.seals, *state.quarantined)), reverse=True)


def known_at(
    ledger: Path, rules: Guards, newest: SealRecord, steps: Sequence[int]
) -> dict[int, GuardState]:
    """The guards' state at the newest seal and ``steps``, newest first, as far as it can be told.

    Costs a read of ``rules.tail`` lines, or twice as many where the first two are far apart.
    Raises OSError.
    """
    at = [newest.step, *steps]
    far = min(newest.step - at[:_EXACT][-1], rules.tail)
    first = newest.step - far - rules.tail + 1
    stood = [_step(line) for line in before(ledger, newest.ledger.bytes, first)]
    return seed(rules, stood, at, whole=bool(stood) and stood[0].step > first)


def _step(line: dict[str, Any]) -> Step:
    loss, word, arm = line.get("loss"), str(line.get("nonfinite", "")), str(line.get("arm", ""))
    loss = loss if isinstance(loss, float) else None
    return Step(0, 0.0, line["step"], loss, word, arm, 0.0, "", 0, ())
