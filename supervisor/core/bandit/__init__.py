"""The bandit over arms: what is known of each, and which mix the next phases get.

    finish_phase   learning (rewards, statistics) -> who was read enough -> deciding
    reconcile      who is there at all
    freeze         no more learning from rewards: the configured shares until the next pivot

Every function is pure: a state, a policy and a report in, a state out.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.bandit.deciding import AHEAD, Decision, decide_phase, fill, penalty
from supervisor.core.bandit.learning import count_steps, learn
from supervisor.core.bandit.proposal import Proposal
from supervisor.core.bandit.reconciling import (
    READ_ENOUGH,
    fresh,
    reconcile,
    retire_read,
    with_contents,
)
from supervisor.core.bandit.rewards import SCALER_WINDOW
from supervisor.core.bandit.state import ArmState, BanditState, Discounted, Retired
from supervisor.core.policy import Policy
from trainer.contract.wire import Phase

__all__ = [
    "AHEAD",
    "READ_ENOUGH",
    "SCALER_WINDOW",
    "ArmState",
    "BanditState",
    "Decision",
    "Discounted",
    "Proposal",
    "Retired",
    "count_steps",
    "decide_phase",
    "finish_phase",
    "freeze",
    "fresh",
    "learn",
    "penalty",
    "reconcile",
    "with_contents",
]


def finish_phase(state: BanditState, policy: Policy, phase: Phase) -> BanditState:
    """Learn from a finished phase and decide the next one that is due."""
    return fill(retire_read(learn(state, policy, phase), policy), policy)


def freeze(state: BanditState, why: str) -> BanditState:
    """Decide as under ``static`` from the next decision on; phases decided already are kept."""
    return state if state.frozen else replace(state, frozen=why)
