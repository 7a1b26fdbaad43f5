"""What is let in: a start within its limits, and the requests that the core decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor import clock
from supervisor.config import Config
from supervisor.core.messages import Asked
from supervisor.core.state import State
from supervisor.daemon.describe import describe, held
from supervisor.errors import StepkeeperError, UsageError
from supervisor.perform import read_intent, say, unattended
from supervisor.perform.intent import Start, write_start
from supervisor.perform.retaining import refuse_to_pin, refuse_to_unpin
from supervisor.sidecars import archive, attempts


def admit(
    config: Config, state: State, asked: Asked, known: dict[str, Any]
) -> dict[str, Any] | None:
    """The answer to a request for the state or to a policy that does not hold; None for the core.

    A policy's text is replaced by the checked policy in ``asked.fields``; ``known`` is what
    the daemon tells beside the state.
    """
    if asked.verb == "status":
        return {**describe(state, config.sources), **known}
    if asked.verb in ("pin", "unpin"):
        return _look_for(config.run, asked.verb, asked.fields["step"])
    if asked.verb == "pivot":
        return _read_policy(config, state, asked.fields)
    return None


def _look_for(run: Path, verb: str, step: int) -> dict[str, Any] | None:
    """The refusal of a pin without a checkpoint, or of an unpin without a pin."""
    try:
        (refuse_to_pin if verb == "pin" else refuse_to_unpin)(run, step)
    except StepkeeperError as error:
        return {"error": str(error)}
    return None


def _read_policy(config: Config, state: State, fields: dict[str, Any]) -> dict[str, Any] | None:
    text = fields["policy"]
    try:
        if text is None:  # with reset: the policy in force anew
            text = archive.policy_path(config.run, state.policy.number).read_text("utf-8")
        if not isinstance(text, str):
            return {"error": "cannot pivot: the policy must be given as TOML text"}
        _, policy = unattended.next_policy(config, text)
        unattended.refuse_the_same(policy, state.policy, reset=bool(fields.get("reset")))
        step = state.attempt.last_step if state.attempt else state.bandit.step
        unattended.refuse_to_over_read(config, policy, state.bandit, step)
    except StepkeeperError as error:
        return {"error": str(error)}
    except (OSError, UnicodeError) as error:  # the file is gone; half a character in the text
        return {"error": f"cannot pivot: {error}"}
    fields.update(policy=policy, text=text)
    return None


def may_begin(run: Path, start: Start, *, hold: bool) -> bool:
    """Whether the run is to be kept: not where it is held. Since when it is, is made durable."""
    if hold:
        say(held(run))
        return False
    try:
        write_start(run, start, unattended.by())
    except OSError as error:  # no reason to leave a trainer alone, which the disk may hold up too
        say(f"cannot write down that the run was started: {error}", alarm=True)
    return True


def refuse_after_limit(config: Config) -> None:
    """Raise UsageError where ``stop_at`` has passed and nothing is left to stop and seal."""
    stop_at, now = config.settings.limits.stop_at, clock.unix()
    if stop_at is None or now < stop_at:
        return
    last, intent = attempts.last(config.run), read_intent(config.run)
    stopping = intent.get("want") == "stop" and not intent.get("done")
    if stopping or (last is not None and last.ended is None):
        return
    raise UsageError(
        f"cannot start {config.run}: limits.stop_at = {clock.wall_of(stop_at)} in run.toml was "
        f"{now - stop_at:.0f} s ago; set a later one or remove it, then start again"
    )
