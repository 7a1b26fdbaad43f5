"""The demo's run directory: its settings, its first policy, and the one that it pivots to."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from supervisor.cli.demo_sources import build

NAME = "demo"
POLISH = "polish.toml"


class Bounds(NamedTuple):
    """Floor and cap of an arm, in shares of probability."""

    floor: float
    cap: float


POLISHED = {
    "reference": Bounds(0.30, 1.00),
    "docstrings": Bounds(0.20, 1.00),
    "code": Bounds(0.00, 0.40),
    "names": Bounds(0.00, 0.10),
}


class Plan(NamedTuple):
    """How far the demo goes: ``shown`` steps now, ``steps`` in the run's settings.

    A tour leaves a run behind that can go on, so its settings name more steps than it shows.
    """

    shown: int
    steps: int
    cadence: int


def plan_for(steps: int, *, tour: bool) -> Plan:
    """Twelve checkpoints over the steps that are shown, however many these are."""
    return Plan(steps, 2 * steps if tour else steps, max(1, steps // 12))


def prepare(run: Path, plan: Plan) -> dict[str, int]:
    """Make the run directory; bytes of text by arm. Raises UsageError and OSError."""
    run.mkdir(parents=True, exist_ok=True)
    sizes = build(run / "sources")
    (run / "policy.toml").write_text(_WIDE, encoding="utf-8")
    (run / POLISH).write_text(polished(), encoding="utf-8")
    (run / "run.toml").write_text(_settings(plan, sizes), encoding="utf-8")
    return sizes


def _settings(plan: Plan, sizes: dict[str, int]) -> str:
    head = f"""\
# A real run, small enough for a CPU. Every key is in the README and in: stepkeeper init
schema = "stepkeeper.run/1"
name = "{NAME}"

[model]
preset = "demo"      # 0.87 M parameters, 128 bytes of context

[train]
steps = {plan.steps}
batch = 16
lr = 0.002
warmup_steps = {max(1, plan.cadence)}
threads = 1          # keeps its pace while other programs want the CPU too

[data]
mix = "sequence"     # every sequence of a step draws an arm of its own

[checkpoint]
every_steps = {plan.cadence}

[samples]
every = {plan.cadence}
prompts = ["The "]
length = 64
"""
    return head + "".join(
        f'\n[sources.{arm}]   # {size} bytes\npath = "sources/{arm}"\n'
        for arm, size in sizes.items()
    )


_WIDE = """\
# Policy 1: every arm may have nearly everything; the bandit decides.
schema = "stepkeeper.policy/2"
algorithm = "ucb1"
unit = "share"       # floor and cap are shares of probability
focus = 1

[arms.reference]
floor = 0.05

[arms.docstrings]
floor = 0.05

[arms.code]
floor = 0.05

[arms.names]
floor = 0.05
"""


def polished() -> str:
    """The text of the policy that the demo pivots to."""
    head = """\
# Policy 2: more prose, less source code, and the list of names kept small.
schema = "stepkeeper.policy/2"
algorithm = "ucb1"
unit = "share"
focus = 1
"""
    return head + "".join(
        f"\n[arms.{arm}]\nfloor = {bounds.floor:.2f}\ncap = {bounds.cap:.2f}\n"
        for arm, bounds in POLISHED.items()
    )
