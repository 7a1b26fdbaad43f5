"""The fixed mix: each arm in proportion to its configured weight, whatever it earned."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.bandit.proposal import Proposal
from supervisor.core.bandit.state import ArmState
from supervisor.core.policy import Policy


def propose(arms: Sequence[ArmState], policy: Policy, generator: int) -> Proposal:
    """The configured weights; no penalty, since what is configured is what is wanted."""
    configured = {arm.name: arm.weight for arm in policy.arms}
    return Proposal({arm.name: configured[arm.name] for arm in arms}, generator)
