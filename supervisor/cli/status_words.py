"""What ``status`` says to people, from the facts that it gathered."""

from __future__ import annotations

from typing import Any

from supervisor.cli import printing
from supervisor.cli.status_arms import lines as arm_lines
from supervisor.cli.status_gate import gate_lines
from supervisor.cli.status_guards import line as guard_line
from supervisor.cli.status_hooks import line as hooks_line
from supervisor.cli.status_limits import line as limit_line
from supervisor.cli.status_proof import line as proof_line
from supervisor.cli.status_settings import line as settings_line

_QUIET, _FEW_STEPS = 2.0, 10  # seconds, and steps, after which a rate is no news any more


def lines(facts: dict[str, Any]) -> list[str]:
    """The same for people."""
    attempt, risk, sealed = facts["attempt"], facts["at_risk"], facts["sealed"]
    told = [f"{printing.plain(facts['name'])}  {printing.plain(facts['run'])}", _headline(facts)]
    if attempt is None and sealed is None:
        return [*told, *facts["alarms"]]
    told += _silence_lines(facts)
    if sealed is None:
        told.append("sealed    nothing yet that can be resumed from")
    else:
        told.append(f"sealed    step {sealed['step']} at {sealed['time']} ({sealed['reason']})")
        if not sealed["companion"]:
            told.append("          without a companion: a resume is exact but for data order")
    if suspect := guard_line(facts["guards"]):
        told.append(suspect)
    steps, ago = risk["steps"], printing.duration(risk["seconds"])
    told.append(
        f"at risk   {steps} step{'s' * (steps != 1)}, {ago} since the "
        + ("last seal" if sealed else "start")
    )
    told.append(_policy_line(facts))
    if facts["settings"]["edited"]:
        told.append(settings_line(facts["settings"], supervised=facts["supervisor"]["alive"]))
    told.append(proof_line(facts["proof"]))
    if facts["limits"]:
        told.append(limit_line(facts["limits"], facts["state"]))
    told += gate_lines(facts["gate"])
    told += arm_lines(facts["arms"])
    if facts["hooks"]:
        told.append(hooks_line(facts["hooks"]))
    if facts["head"]:
        told.append(f"head      {facts['head']}")
    return [*told, *(f"ALARM: {alarm}" for alarm in facts["alarms"])]


def _headline(facts: dict[str, Any]) -> str:
    attempt, parts = facts["attempt"], [facts["state"]]
    if attempt is not None:
        parts.append(f"attempt {attempt['number']}")
        parts.append(f"step {facts['step']}")
    if facts["rewound"] is not None:
        parts.append(f"rewound from step {facts['rewound']}")
    if facts["trainer"]["pid"]:
        parts.append(f"pid {facts['trainer']['pid']}")
    if facts["loss"] is not None:
        parts.append(f"loss {facts['loss']:.4f}")
    if facts["rate"] and not _is_quiet(facts):
        parts.append(f"{facts['rate']:.1f} steps/s")
    if facts["doing"] not in (None, "train"):
        parts.append(f"doing {facts['doing']}")
    return "state     " + ", ".join(parts)


def _is_quiet(facts: dict[str, Any]) -> bool:
    """Whether the last report is older than a few steps, and no other work explains it."""
    silence, rate = facts["silence"], facts["rate"] or 0.0
    if not silence or not silence["budget"]:
        return False
    quiet: float = silence["quiet"]
    few = silence["of"] == "step" and quiet > max(_QUIET, _FEW_STEPS / rate if rate else 0.0)
    return few or quiet > silence["budget"] / 2


def _silence_lines(facts: dict[str, Any]) -> list[str]:
    """How long the trainer has said nothing, once that is more than its work explains."""
    silence = facts["silence"]
    if not _is_quiet(facts):
        return []
    text = f"{silence['quiet']:.1f} s without a report, doing {silence['of']}"
    return [f"quiet     {text}; hung after {silence['budget']:g} s"]


def _policy_line(facts: dict[str, Any]) -> str:
    text = f"policy    {facts['policy']['number']}"
    if facts["policy"]["edited"]:
        text += "; policy.toml differs from it and has no effect before a pivot"
    if pivot := facts["pivot"]:
        text += (
            f"; pivot to {pivot['policy']} {pivot['stage']}, asked at step {pivot['asked_step']}"
        )
    return text
