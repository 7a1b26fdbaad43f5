"""The command ``status``: where a run stands, and what is at risk now. Answers at once."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from supervisor import clock
from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.cli.samples import standing_of
from supervisor.cli.status_arms import NO_ARMS, arms_of
from supervisor.cli.status_arms import alarms as arm_alarms
from supervisor.cli.status_gate import gate_alarms
from supervisor.cli.status_guards import alarms, guards_of
from supervisor.cli.status_hooks import alarms as hook_alarms
from supervisor.cli.status_hooks import hooks_of
from supervisor.cli.status_limits import time_left
from supervisor.cli.status_proof import proof_of
from supervisor.cli.status_settings import settings_in_force
from supervisor.cli.status_words import lines
from supervisor.control.asking import request
from supervisor.errors import UnknownError
from supervisor.process.identity import stat
from supervisor.process.locks import holders
from supervisor.sidecars.checkpoints.seals import SealRecord

Attempt = dict[str, Any] | None
_T = TypeVar("_T")

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
    try:
        facts = gather(run)
        told = "\n".join(lines(facts))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnknownError(
            f"cannot tell where {run} stands: one of its files is damaged ({error!r}); "
            f"stepkeeper audit {shlex.quote(str(run))} looks at each"
        ) from None
    if as_json:
        printing.emit(facts)
    else:
        printing.say((_CLEAR if clear else "") + told)
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
    unread: list[str] = []
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
        "proof": proof_of(run, seals[0] if seals else None, supervised=supervised),
        "guards": guards_of(run, live, intent),
        "gate": _read(lambda: _gate(run, live, step if rewound else None), None, unread),
        "arms": _read(lambda: arms_of(run, live), NO_ARMS, unread),
        "hooks": hooks_of(live),
        "live": live,
    }
    facts["state"] = _state(run, facts, attempt, intent)
    facts["alarms"] = unread + _alarms(facts, run) + alarms(run, facts["guards"], facts["state"])
    return facts


def _read(get: Callable[[], _T], otherwise: _T, unread: list[str]) -> _T:
    """What ``get`` reads; of a file that cannot be read, a line in ``unread``: the rest counts."""
    try:
        return get()
    except UnknownError as error:
        unread.append(str(error))
        return otherwise


def _gate(run: Path, live: dict[str, Any] | None, rewound: int | None) -> dict[str, Any] | None:
    """Where the gate stands; what it knew of steps behind a rewind is of no weights any more."""
    gate = (live or {}).get("gate") or standing_of(run)
    last = (gate or {}).get("last")
    return None if last and rewound is not None and last["step"] > rewound else gate


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


def _state(run: Path, facts: dict[str, Any], attempt: Attempt, intent: dict[str, Any]) -> str:
    """One of a few words for the whole. Raises UnknownError."""
    if facts["supervisor"]["alive"]:
        return str((facts["live"] or {}).get("life", "supervised"))
    if facts["trainer"]["alive"]:
        return "trainer alive, no supervisor"
    return standing.at_rest(run, attempt, intent)


def _is_suspended(pid: int) -> bool:
    """Whether SIGSTOP or a debugger has the process stand still."""
    facts = stat(pid)
    return facts is not None and facts.state in "Tt"


def _silent(run: Path) -> str:
    """What to do about a supervisor that holds its lock and says nothing."""
    text = "the supervisor holds the run but does not answer"
    pids = [pid for pid in holders(run / "run.lock") if pid != os.getpid()]
    if not pids:
        return text
    if _is_suspended(pids[0]):
        return f"{text}: it is suspended by a signal; kill -CONT {pids[0]}"
    return (
        f"{text}: if that lasts, kill -KILL {pids[0]}, then stepkeeper run "
        f"{shlex.quote(str(run))}; the trainer goes on meanwhile"
    )


def _alarms(facts: dict[str, Any], folder: Path) -> list[str]:
    """What somebody should look at, and what to do about it."""
    run, found = shlex.quote(facts["run"]), []
    if facts["state"] == "trainer alive, no supervisor":
        found.append(f"TRAINER ALIVE, NO SUPERVISOR: run stepkeeper run {run}, or stop it")
    if facts["state"] == "gave up":
        found.append(
            f"nothing runs, and nobody stopped it: gave up, {standing.gave_up(folder)}; see "
            f"stepkeeper logs {run}, mend the cause, then stepkeeper run {run}"
        )
    if facts["state"] == "nothing runs" or facts["state"].startswith("failed"):
        ended = (facts["attempt"] or {}).get("ended") or "unseen"
        found.append(
            f"nothing runs, and nobody stopped it (its end: {ended}): stepkeeper run {run}"
        )
    if facts["trainer"]["pid"] and _is_suspended(facts["trainer"]["pid"]):
        pid = facts["trainer"]["pid"]
        found.append(f"the trainer is suspended by a signal, so nothing goes on: kill -CONT {pid}")
    found += gate_alarms(facts["gate"], run)
    if facts["trainer"]["alive"]:
        found += arm_alarms(facts["arms"], run)
    if facts["trouble"]:
        found.append(f"training is held: {facts['trouble']}")
    if facts["supervisor"]["alive"] and not facts["supervisor"]["answers"]:
        found.append(_silent(folder))
    return found + hook_alarms(facts["hooks"], facts["run"])
