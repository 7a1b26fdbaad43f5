"""What ``status`` says of hooks, from what the supervisor knows of this life's lines."""

from __future__ import annotations

import shlex
from typing import Any

from supervisor.cli import printing

Hooks = dict[str, dict[str, Any]]


def hooks_of(live: dict[str, Any] | None) -> Hooks:
    """By name: lines delivered, failed, dropped and waiting, and why it fails; empty without."""
    return (live or {}).get("hooks") or {}


def line(hooks: Hooks) -> str:
    """The same for people, all of them on one line."""
    told = []
    for name, facts in hooks.items():
        counts = [f"{facts['delivered']} delivered"]
        counts += [f"{facts[k]} {k}" for k in ("failed", "dropped", "waiting") if facts[k]]
        told.append(f"{name} {', '.join(counts)}")
    return "hooks     " + "; ".join(told)


def alarms(hooks: Hooks, run: str) -> list[str]:
    """A line for each that fails."""
    return [
        f"hook {name} fails: {printing.plain(facts['problem'])}; try it: stepkeeper hooks "
        f"{shlex.quote(run)} {name} --test"
        for name, facts in hooks.items()
        if facts["problem"]
    ]
