"""The state in words and plain values, for status and the service manager."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from supervisor.core import gating
from supervisor.core.ladder import Action
from supervisor.core.roster import Standing, roster
from supervisor.core.state import State


def one_line(state: State) -> str:
    """One line: life, step, loss and rate."""
    attempt = state.attempt
    parts = [str(state.life)]
    if attempt is not None:
        parts = [f"{state.life}: attempt {attempt.number}", f"step {attempt.last_step}"]
        if attempt.loss is not None:
            parts.append(f"loss {attempt.loss:.4f}")
        if attempt.rate:
            parts.append(f"{attempt.rate:.1f} steps/s")
        if attempt.doing not in ("train", "import") or not attempt.ready:
            parts.append(f"doing {attempt.doing}")
    if state.seals:
        parts.append(f"sealed {state.seals[0].point.step}")
    if state.trouble:
        parts.append(f"held: {state.trouble}")
    if state.pivot is not None:
        parts.append(f"pivot to policy {state.pivot.policy.number} {state.pivot.stage}")
    return ", ".join(parts)


def state_roster(state: State, sources: Iterable[str]) -> dict[str, Standing]:
    """Where each arm stands; ``sources`` are those of ``run.toml``."""
    bandit = state.bandit
    return roster(
        (arm.name for arm in state.policy.arms),
        sources,
        state.live,
        {arm.name: arm.changed > 0 for arm in bandit.arms},
        tuple(retired.arm.name for retired in bandit.retired),
    )


def describe(state: State, sources: Iterable[str] = ()) -> dict[str, Any]:
    """What the daemon knows beyond the files, as JSON values."""
    attempt, pivot = state.attempt, state.pivot
    return {
        "life": str(state.life),
        "want": str(state.want),
        "policy": state.policy.number,
        "failures": state.restarts.failures,
        "limits": {
            "stop_at": state.settings.limits.stop_at,
            "max_seconds": state.settings.limits.max_seconds,
        },
        "attempt": None
        if attempt is None
        else {
            "number": attempt.number,
            "pid": attempt.pid,
            "ready": attempt.ready,
            "companion": attempt.companion,
            "n_params": attempt.n_params,
            "step": attempt.last_step,
            "resumed": attempt.resumed,
            "doing": attempt.doing,
            "rate": attempt.rate,
            "loss": attempt.loss,
            "proved": attempt.proved,
            "consistent": attempt.consistent,
            "differed": attempt.differed,
        },
        "guards": {
            guard: step
            for guard, step in state.guards.bad.items()
            if state.settings.guards.action(guard) is not Action.RECORD
        },
        "sealed": state.seals[0].point.step if state.seals else None,
        "trouble": state.trouble,
        "gate": gating.facts(state),
        "pending": [pending.step for pending in state.pending],
        "pivot": None
        if pivot is None
        else {
            "policy": pivot.policy.number,
            "stage": str(pivot.stage),
            "asked_step": pivot.asked_step,
            "when": pivot.when,
            "pin": pivot.pin.step if pivot.pin else None,
        },
        "arms": {arm: str(standing) for arm, standing in state_roster(state, sources).items()},
        "line": one_line(state),
    }


def held(run: Path) -> str:
    """Why a run is not started, and what lets it start."""
    return f"held by stop --hold; run stepkeeper release {shlex.quote(str(run))}"
