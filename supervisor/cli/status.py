"""The command ``status``: where a run stands, and what is at risk now. Answers at once."""

from __future__ import annotations

import shlex
import sys
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor import clock
from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.cli.status_limits import line as limit_line
from supervisor.cli.status_limits import time_left
from supervisor.cli.status_settings import line as settings_line
from supervisor.cli.status_settings import settings_in_force
from supervisor.control.asking import request
from supervisor.errors import UnknownError
from supervisor.sidecars.checkpoints.seals import SealRecord

WATCH_SECONDS = 1.0
ANSWER_SECONDS = 1.0
_CLEAR = "\033[H\033[2J"


def status(
    run: Run,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Again each second.")] = False,
    as_json: Json = False,
) -> int:
    """Show where a run stands: its processes, its newest step and seal, and what is at risk.

    Exits 0 where it runs supervised or is at rest as it should be, 1 where it needs somebody.
    """
    path = existing(run)
    if not watch:
        return _show(path, as_json=as_json)
    try:
        while True:
            _show(path, as_json=as_json, clear=not as_json and sys.stdout.isatty())
            clock.pause(WATCH_SECONDS)
    except KeyboardInterrupt:
        return 0


def _show(run: Path, *, as_json: bool, clear: bool = False) -> int:
    facts = gather(run)
    if as_json:
        printing.emit(facts)
    else:
        printing.say((_CLEAR if clear else "") + "\n".join(_lines(facts)))
    return 1 if facts["alarms"] else 0


def gather(run: Path) -> dict[str, Any]:
    """Everything that ``status`` tells, as JSON values. Raises UnknownError."""
    supervised, alive = standing.supervised(run), standing.trained(run)
    live = _ask(run) if supervised else None
    attempt = standing.last_attempt(run)
    seals = standing.seals(run)
    report = standing.last_report(run, attempt["attempt"]) if attempt else None
    line = standing.last_line(run)
    step = max(int(found["step"]) for found in (report, line, {"step": 0}) if found)
    newest = report or line or {}
    if attempt is None and seals:  # a fork, or an import
        step = seals[0].step
    if rewound := standing.rewound(run, attempt):
        step, newest = int(rewound["to"]["step"]), {}
    intent = standing.record(run / "intent.json") or {}
    facts: dict[str, Any] = {
        "run": str(run),
        "name": standing.name_of(run),
        "state": "",
        "supervisor": {"alive": supervised, "answers": live is not None},
        "trainer": {"alive": alive, "pid": _pid(attempt) if alive else None},
        "step": step,
        "loss": newest.get("loss"),
        "rate": ((live or {}).get("attempt") or {}).get("rate") if alive else None,
        "doing": ((live or {}).get("attempt") or {}).get("doing") if alive else None,
        "silence": (live or {}).get("hang") if alive else None,
        "trouble": (live or {}).get("trouble", ""),
        "attempt": _attempt(attempt),
        "ledger": {"step": line["step"], "chain": line["chain"]} if line else None,
        "sealed": _sealed(run, seals[0]) if seals else None,
        "at_risk": _at_risk(step, seals[0] if seals else None, attempt),
        "head": standing.head_of(seals[0]) if seals else None,
        "policy": _policy(run),
        "settings": settings_in_force(run),
        "pivot": _pivot(standing.record(run / "pivot.json")),
        "rewound": rewound["ledger"]["step"] if rewound else None,
        "hold": bool(intent.get("hold")),
        "limits": time_left(run, live, intent),
        "arms": _arms(run),
        "live": live,
    }
    facts["state"] = _state(facts, intent)
    facts["alarms"] = _alarms(facts)
    return facts


def _ask(run: Path) -> dict[str, Any] | None:
    try:
        return request(run, "status", {}, ANSWER_SECONDS)
    except UnknownError:
        return None


def _pid(attempt: dict[str, Any] | None) -> int | None:
    identity = (attempt or {}).get("identity")
    return identity["pid"] if identity else None


def _attempt(attempt: dict[str, Any] | None) -> dict[str, Any] | None:
    if attempt is None:
        return None
    resume, ended = attempt.get("resume"), attempt.get("ended")
    return {
        "number": attempt["attempt"],
        "policy": attempt["policy"],
        "started": attempt["started"],
        "resumed": resume["step"] if resume else 0,
        "ended": ended["cause"] if ended else None,
    }


def _sealed(run: Path, seal: SealRecord) -> dict[str, Any]:
    path = str(run / "checkpoints" / seal.bin.name)
    facts = {"step": seal.step, "time": seal.time, "reason": seal.reason, "path": path}
    return {**facts, "companion": bool(seal.companion)}


def _at_risk(
    step: int, seal: SealRecord | None, attempt: dict[str, Any] | None
) -> dict[str, Any] | None:
    """What a crash of everything would cost now: steps, and seconds since the last seal."""
    since = seal.time if seal else attempt["started"] if attempt else None
    if since is None:
        return None
    now, then = (datetime.fromisoformat(text) for text in (clock.wall(), since))
    return {
        "steps": max(0, step - (seal.step if seal else 0)),
        "seconds": max(0.0, (now - then).total_seconds()),
    }


def _policy(run: Path) -> dict[str, Any]:
    number = standing.policy_in_force(run)
    try:
        edited = (run / "policy.toml").read_bytes()
        kept = (run / "policies" / f"{number:04d}.toml").read_bytes()
    except OSError:
        return {"number": number, "edited": False}
    return {"number": number, "edited": edited != kept}


def _pivot(record: dict[str, Any] | None) -> dict[str, Any] | None:
    if record is None:
        return None
    pin = record.get("pin")
    keys = ("policy", "stage", "asked_step", "when")
    return {**{key: record.get(key) for key in keys}, "pin": pin["step"] if pin else None}


def _arms(run: Path) -> dict[str, Any]:
    """Shares and numbers per arm, and the arms that were retired."""
    state = standing.record(run / f"{standing.name_of(run)}.state.json") or {}
    phases = state.get("phases") or [{}]
    shares = phases[0].get("weights", {})
    arms = {
        name: {
            "share": shares.get(name, 0.0),
            "served": arm["served"],
            "failed": arm["failed"],
            "loss": arm["loss"],
        }
        for name, arm in (state.get("arms") or {}).items()
    }
    absent = _arms_of(run, state["policy"]) - arms.keys() if state else set()
    retired = dict.fromkeys(sorted(absent), "unavailable")
    retired |= {arm["arm"]: arm["why"] for arm in state.get("retired") or ()}
    return {"live": arms, "retired": {a: why for a, why in retired.items() if a not in arms}}


def _arms_of(run: Path, number: int) -> set[str]:
    """The arms that a policy has, whether or not their sources were ever there."""
    try:
        text = (run / "policies" / f"{number:04d}.toml").read_text("utf-8")
        return set(tomllib.loads(text).get("arms", {}))
    except (OSError, ValueError):
        return set()


def _state(facts: dict[str, Any], intent: dict[str, Any]) -> str:
    """One of a few words for the whole."""
    attempt = facts["attempt"]
    ended = attempt["ended"] if attempt else None
    stopped = intent.get("want") == "stop" and intent.get("done") and ended
    words = (
        (facts["supervisor"]["alive"], str((facts["live"] or {}).get("life", "supervised"))),
        (facts["trainer"]["alive"], "trainer alive, no supervisor"),
        (facts["hold"], "held"),
        (attempt is None, "never started"),
        (ended == "finished", "finished"),
        (stopped, "stopped"),
    )
    return next((word for holds, word in words if holds), "nothing runs")


def _alarms(facts: dict[str, Any]) -> list[str]:
    """What somebody should look at."""
    run, found = shlex.quote(facts["run"]), []
    if facts["state"] == "trainer alive, no supervisor":
        found.append(f"TRAINER ALIVE, NO SUPERVISOR: run stepkeeper run {run}, or stop it")
    if facts["state"] == "nothing runs":
        ended = (facts["attempt"] or {}).get("ended") or "unseen"
        found.append(
            f"nothing runs, and nobody stopped it (its end: {ended}): stepkeeper run {run}"
        )
    if facts["trouble"]:
        found.append(f"training is held: {facts['trouble']}")
    if facts["supervisor"]["alive"] and not facts["supervisor"]["answers"]:
        found.append("the supervisor holds the run but does not answer")
    return found


def _lines(facts: dict[str, Any]) -> list[str]:
    """The same for people."""
    attempt, risk, sealed = facts["attempt"], facts["at_risk"], facts["sealed"]
    lines = [f"{facts['name']}  {facts['run']}", _headline(facts)]
    if attempt is None and sealed is None:
        return [*lines, *facts["alarms"]]
    lines += _silence_lines(facts["silence"])
    if sealed is None:
        lines.append("sealed    nothing yet")
    else:
        lines.append(f"sealed    step {sealed['step']} at {sealed['time']} ({sealed['reason']})")
        if not sealed["companion"]:
            lines.append("          without a companion: a resume is exact but for data order")
    steps, ago = risk["steps"], printing.duration(risk["seconds"])
    lines.append(
        f"at risk   {steps} step{'s' * (steps != 1)}, {ago} since the "
        + ("last seal" if sealed else "start")
    )
    lines.append(_policy_line(facts))
    if facts["settings"]["edited"]:
        lines.append(settings_line(facts["settings"], supervised=facts["supervisor"]["alive"]))
    if facts["limits"]:
        lines.append(limit_line(facts["limits"], facts["state"]))
    for name, arm in facts["arms"]["live"].items():
        loss = "-" if arm["loss"] is None else f"{arm['loss']:.4f}"
        failed = f", {arm['failed']} failed" if arm["failed"] else ""
        lines.append(
            f"  {name:<16} share {arm['share']:.3f}  served {arm['served']}{failed}  loss {loss}"
        )
    lines += [f"  {name:<16} retired: {why}" for name, why in facts["arms"]["retired"].items()]
    if facts["head"]:
        lines.append(f"head      {facts['head']}")
    return [*lines, *(f"ALARM: {alarm}" for alarm in facts["alarms"])]


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
    if facts["rate"]:
        parts.append(f"{facts['rate']:.1f} steps/s")
    if facts["doing"] not in (None, "train"):
        parts.append(f"doing {facts['doing']}")
    return "state     " + ", ".join(parts)


def _silence_lines(silence: dict[str, Any] | None) -> list[str]:
    """How long the trainer has said nothing, once that is half of what it may."""
    if not silence or not silence["budget"] or silence["quiet"] <= silence["budget"] / 2:
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
