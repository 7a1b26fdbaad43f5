"""Which requests the core decides, and the answers to those that it never sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from supervisor.config import Config, read_policy
from supervisor.core.messages import Asked
from supervisor.core.policy import Policy
from supervisor.core.state import State
from supervisor.daemon.describe import describe
from supervisor.errors import SettingsError
from supervisor.sidecars import archive


def admit(config: Config, state: State, asked: Asked) -> dict[str, Any] | None:
    """The answer to a request for the state or to a policy that does not hold; None for the core.

    A policy's text is replaced by the checked policy in ``asked.fields``.
    """
    if asked.verb == "status":
        return describe(state)
    if asked.verb == "pivot":
        return _read_policy(config, state, asked.fields)
    return None


def _read_policy(config: Config, state: State, fields: dict[str, Any]) -> dict[str, Any] | None:
    text = fields["policy"]
    if text is None:  # with reset: the policy in force anew
        text = archive.policy_path(config.run, state.policy.number).read_text("utf-8")
    if not isinstance(text, str):
        return {"error": "cannot pivot: the policy must be given as TOML text"}
    number = archive.policies(config.run)[-1] + 1
    try:
        policy = read_policy(text.encode("utf-8"), number, "the new policy", config, present=True)
    except SettingsError as error:
        return {"error": str(error), "problems": list(error.problems)}
    if is_same(policy, state.policy) and not fields.get("reset"):
        return {
            "error": f"cannot pivot: the policy is the same as policy {state.policy.number} in "
            "force; to begin it anew ask for a reset"
        }
    fields.update(policy=policy, text=text)
    return None


def is_same(one: Policy, other: Policy) -> bool:
    """Whether two policies mean the same, however their texts are written."""
    return replace(one, number=0, digest="") == replace(other, number=0, digest="")
