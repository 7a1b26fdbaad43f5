"""Steps of a made-up run, and a ledger kept through lives as the supervisor keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supervisor.core.messages import LedgerPosition
from supervisor.sidecars.ledger import Ledger, Outcome
from trainer.contract.wire import Step

WALL = "2026-01-31T12:00:00.123Z"
LATER = "2027-03-01T23:59:59.999Z"
DIGEST = "ab" * 32


def step(number: int, salt: float = 0.0, **changes: object) -> Step:
    """Step ``number`` of a deterministic run; another ``salt`` gives another loss."""
    loss = 5.0 + math.sin(number) + salt
    made = Step(number, number / 8, number, loss, "", "chat", 3e-4, f"{number:016x}", 1, ())
    return made._replace(**changes)


def steps(first: int, last: int, salt: float = 0.0, **changes: object) -> list[Step]:
    """Steps ``first`` to ``last``."""
    return [step(number, salt, **changes) for number in range(first, last + 1)]


def new(path: Path, attempt: int = 1) -> Ledger:
    """An empty ledger of run R with its first attempt begun."""
    ledger = Ledger.open(path, "R", None, fresh=True)
    ledger.begin(attempt, 0, "")
    return ledger


def again(path: Path, after: LedgerPosition | None = None) -> Ledger:
    """The ledger of run R, opened by another supervisor."""
    return Ledger.open(path, "R", after, fresh=False)


def keep(path: Path, *lives: tuple[int, int, Sequence[Step]]) -> list[Outcome]:
    """One supervisor per life: (attempt, resumed after, steps)."""
    found = []
    for attempt, resumed, taken in lives:
        ledger = Ledger.open(path, "R", None, fresh=True)
        ledger.begin(attempt, resumed, DIGEST if resumed else "")
        found.append(ledger.record(attempt, 1, taken, WALL))
        ledger.close()
    return found


def fields(path: Path) -> list[dict[str, Any]]:
    """Every physical line, parsed by the standard library alone, which must succeed."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
