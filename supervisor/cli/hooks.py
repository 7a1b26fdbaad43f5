"""The command ``hooks``: what is called for which events, and a try of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor import clock
from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.config import load
from supervisor.config.hook_settings import Hook
from supervisor.control.asking import request
from supervisor.errors import UnknownError, UsageError
from supervisor.perform.hook_delivery import Origin, deliver, payload
from supervisor.sidecars.events import Appended, created

TEST = "hook-test"
_NO_CHAIN = "0" * 32
ANSWER_SECONDS = 1.0


def hooks(
    run: Run,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One hook.")] = None,
    *,
    test: Annotated[
        bool, typer.Option("--test", help="Send it a test event, and say what came back.")
    ] = False,
    as_json: Json = False,
) -> int:
    """List the hooks of run.toml and how they fare, or try them with --test.

    A test calls the hook once, as an event named hook-test does, from this terminal: no supervisor
    is needed and the journal gets no line. Exits 1 where a hook fails.
    """
    path = existing(run)
    config = load(path)
    found = [hook for hook in config.hooks if name in (None, hook.name)]
    if name is not None and not found:
        known = ", ".join(hook.name for hook in config.hooks) or "none"
        raise UsageError(f"cannot find the hook {name}: those of {path / 'run.toml'} are {known}")
    origin = Origin(_identity(path), config.name, path)
    told = [_tried(hook, origin) for hook in found] if test else _listed(path, found)
    if as_json:
        printing.emit({"run": str(path), "hooks": told})
    elif not told:
        printing.say(f"{path / 'run.toml'} has no hooks; see [hooks.NAME] in the README")
    for facts in told if not as_json else ():
        printing.say(_line(facts))
    return 1 if any(facts.get("problem") for facts in told) else 0


def _identity(run: Path) -> str:
    try:
        first = created(run / "events.jsonl")
    except OSError:
        first = None
    return str(first.facts["run"]) if first is not None else ""


def _tried(hook: Hook, origin: Origin) -> dict[str, Any]:
    """Call it with a line that is none of the journal's: its entry is 0."""
    line = Appended(0, TEST, {"hook": hook.name}, clock.wall(), _NO_CHAIN)
    began = clock.monotonic()
    outcome = deliver(hook, origin, line, payload(origin, line))
    seconds = round(clock.monotonic() - began, 3)
    facts = {**_facts(hook), "seconds": seconds, "said": outcome.said}
    return {**facts, "problem": outcome.problem}


def _listed(run: Path, found: list[Hook]) -> list[dict[str, Any]]:
    """Each with what the supervisor tells of it, where one runs and knows it."""
    live: dict[str, Any] = {}
    if standing.supervised(run):
        try:
            live = request(run, "status", {}, ANSWER_SECONDS).get("hooks") or {}
        except UnknownError:
            live = {}
    return [{**_facts(hook), **(live.get(hook.name) or {})} for hook in found]


def _facts(hook: Hook) -> dict[str, Any]:
    calls = {"command": list(hook.command)} if hook.command else {"url": hook.url}
    return {"hook": hook.name, "events": sorted(hook.events), **calls}


def _line(facts: dict[str, Any]) -> str:
    """One line for people."""
    call = facts["url"] if "url" in facts else json.dumps(facts["command"], ensure_ascii=False)
    parts = [f"{facts['hook']}: {', '.join(facts['events'])} -> {printing.plain(call)}"]
    if "seconds" in facts:
        verdict = f"FAILED: {facts['problem']}" if facts["problem"] else f"took it: {facts['said']}"
        parts.append(f"{printing.plain(verdict)} ({facts['seconds']:.2f} s)")
    elif "delivered" in facts:
        counts = [f"{facts[key]} {key}" for key in ("delivered", "failed", "dropped", "waiting")]
        parts.append(", ".join(counts))
        if facts["problem"]:
            parts.append(f"FAILS: {printing.plain(facts['problem'])}")
    return "\n  ".join(parts)
