"""Whether the present code, given a finished life's reports, orders the mixes that it was given.

A policy that was changed since decides otherwise, and then the life says nothing of it.
"""

from __future__ import annotations

from pathlib import Path

from supervisor.config import load, read_policy
from supervisor.core.bandit import finish_phase, fresh
from trainer.contract.wire import Phase, read_report


def decides_alike(run: Path) -> bool:
    """Fold the reported phases; each must be the one that stands decided, to the last bit."""
    config = load(run)
    path = run / "policies/0001.toml"
    policy = read_policy(path.read_bytes(), 1, path, config)
    state = fresh(policy, config.live, config.seed + policy.number)
    for phase in _phases(run):
        order = state.phases[0]
        steps = phase.last - phase.first + 1
        if (phase.phase, steps, phase.weights) != (order.phase, order.steps, order.weights):
            return False
        state = finish_phase(state, policy, phase)
    return True


def _phases(run: Path) -> list[Phase]:
    """Each finished phase once, as it was last reported."""
    found: dict[int, Phase] = {}
    for path in sorted(run.glob("attempts/*/reports.jsonl")):
        for line in path.read_bytes().splitlines():
            if b'"report":"phase"' in line and isinstance(report := read_report(line), Phase):
                found[report.phase] = report
    return [found[number] for number in sorted(found)]
