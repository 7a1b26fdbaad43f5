"""What the scripted trainer says where a sample is due: always the same of one step."""

from __future__ import annotations

from typing import Any

LOOP = "region " * 60


def say_at_cadence(life: Any) -> None:  # noqa: ANN401 - the trainer, which imports this
    """A sample each ``sample_every`` steps."""
    every = life.options.sample_every
    if every and life.step % every == 0:
        say(life)


def say_as_ordered(life: Any, order: dict[str, Any] | None) -> None:  # noqa: ANN401 - as above
    """A sample where the save that is honoured now asks for one."""
    if order is not None and order.get("sample"):
        say(life)


def say(life: Any) -> None:  # noqa: ANN401 - as above
    """Report a sample of its step, once."""
    options, step = life.options, life.step
    if life.spoken == step or options.mute:
        return
    life.spoken = step
    text = options.sample_text or f"said at {step}"
    if 0 < options.collapse_at <= step:
        text = LOOP
    life.reports.send("sample", step=step, prompt="say", text=text, temperature=0.8)
