"""What a report says of samples, checkpoints and the journal, whatever state their files are in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from supervisor.cli.checkpoints import rows
from supervisor.cli.events_words import in_words
from supervisor.core.alarms import is_alarm
from supervisor.errors import RefusedError
from supervisor.sidecars.checkpoints import SealRecord, marks, scan, seals
from supervisor.sidecars.checkpoints.superseding import SUPERSEDED
from supervisor.sidecars.events import EventLine, read
from trainer.contract.checkpoint_format import seal_of, step_of

_EVICTED = "samples-evicted.jsonl"
_KEPT_TEXT = 4000  # characters of a sample
_WITH_TEXT = 100  # of the newest samples; of older ones scores and verdict are told
_MOVES = ("rewound", "rolled-back", "guard")


def samples(
    run: Path, name: str, last_step: int | None, problems: list[str]
) -> list[dict[str, Any]]:
    """Every sample that was kept anywhere, in the order of steps; none above ``last_step``."""
    archived = run / "archive"
    found: list[dict[str, Any]] = []
    places = [*sorted(archived.glob(f"*/{_EVICTED}")), archived / _EVICTED]
    for path in places:
        found += _each(run, path, _lines(path), problems)
    file = f"{name}.samples.json"
    for path in [*sorted(archived.glob(f"*/{file}")), run / file]:
        found += _each(run, path, lambda path=path: _listed(path), problems)  # type: ignore[misc] # bound now
    once = {(s["step"], s["attempt"], s["prompt"], s["text"]): s for s in found}
    kept = [s for s in once.values() if last_step is None or s["step"] <= last_step]
    kept.sort(key=lambda s: (s["step"], s["attempt"], s["prompt"]))
    for sample in kept[:-_WITH_TEXT]:
        sample.update(text="", prompt="", cut=True)
    return kept


def _each(
    run: Path, path: Path, get: Callable[[], Iterable[object]], problems: list[str]
) -> list[dict[str, Any]]:
    """The samples that a file gives; what is none is counted in ``problems``."""
    where = str(path.relative_to(run))
    try:
        records = list(get())
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        problems.append(f"{where}: {str(error).splitlines()[0] if str(error) else error!r}")
        return []
    found = [sample for record in records if (sample := _sample(record, where)) is not None]
    if bad := len(records) - len(found):
        problems.append(f"{where}: {bad} of {len(records)} records are no samples")
    return found


def _listed(path: Path) -> list[object]:
    record = json.loads(path.read_bytes())
    return list(record["samples"])


def _lines(path: Path) -> Callable[[], Iterator[object]]:
    def get() -> Iterator[object]:
        for line in path.read_bytes().split(b"\n"):
            if line:
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError):
                    yield None

    return get


def _sample(record: object, where: str) -> dict[str, Any] | None:
    if not isinstance(record, dict) or type(record.get("step")) is not int:
        return None
    scores = record.get("scores")
    scores = scores if isinstance(scores, dict) else {}
    text = str(record.get("text", ""))
    attempt = record.get("attempt")
    return {
        "step": record["step"],
        "attempt": attempt if type(attempt) is int else 0,
        "policy": record.get("policy"),
        "prompt": str(record.get("prompt", "")),
        "text": text[:_KEPT_TEXT],
        "cut": len(text) > _KEPT_TEXT,
        "scores": {str(k): float(v) for k, v in scores.items() if type(v) in (int, float)},
        "verdict": _verdict(record.get("verdict")),
        "file": where,
    }


def _verdict(verdict: object) -> str:
    """A verdict is a word, or an object that holds one."""
    if isinstance(verdict, dict):
        verdict = verdict.get("verdict", "")
    return verdict if isinstance(verdict, str) else ""


def checkpoints(run: Path, entries: int | None, problems: list[str]) -> dict[str, Any]:
    """Every checkpoint, newest first, with its state; none sealed behind ``entries`` lines."""
    folder = run / "checkpoints"
    pins: dict[int, str] = {}
    try:
        pins = marks.pins(folder)
    except (RefusedError, OSError) as error:
        problems.append(str(error))
    catalogue = scan(folder)
    listed = rows(catalogue, pins)
    held = [r.seal for r in catalogue.refused if r.seal is not None]
    known = {s.step: s for s in (*catalogue.retired, *catalogue.sealed, *held)}
    found = [row for row in listed if not _is_late(known.get(row["step"]), entries)]
    for row in found:
        note = str(row["note"])
        if row["state"] == "refused" and note.startswith("rejected: "):
            row["state"] = "rejected"
            known[row["step"]] = seals.read(folder / seal_of(row["step"]))
            row.update(_sealed(known[row["step"]]))
        row["note"] = note.removeprefix(f"{row['state']}: ")
        seal = known.get(row["step"])
        row["verdict"] = _verdict(seal.verdict) if seal is not None else ""
    left = [p for p in (folder / SUPERSEDED).glob("*/step_*") if step_of(p.name) is not None]
    return {"rows": found, "superseded": len(left)}


def _sealed(seal: SealRecord) -> dict[str, Any]:
    """What the list of checkpoints does not say of one that was rejected."""
    told = {name: getattr(seal, name) for name in ("policy", "attempt", "reason", "time")}
    return {**told, "bytes": seal.bin.bytes}


def _is_late(seal: SealRecord | None, entries: int | None) -> bool:
    return seal is not None and entries is not None and seal.ledger.entries > entries


def journal(run: Path, problems: list[str]) -> list[EventLine]:
    """Every event as it stands now. A journal that is missing is a problem too."""
    found = []
    try:
        for line in read(run / "events.jsonl"):
            if isinstance(line, EventLine):
                found.append(line)
            else:
                problems.append(f"events.jsonl: {line}")
    except OSError as error:
        problems.append(f"events.jsonl: {error.strerror}; what only it tells is not shown")
    return found


def told(events: Iterable[EventLine]) -> list[dict[str, Any]]:
    """The events as words, oldest first, alarms marked."""
    return [
        {
            "line": event.line,
            "time": str(event.time),
            "event": str(event.event),
            "step": _step(event),
            "alarm": is_alarm(event.event, _facts(event)),
            "words": in_words(event.event, _facts(event)),
        }
        for event in events
    ]


def moves(events: Iterable[EventLine]) -> list[dict[str, Any]]:
    """Marks for the chart: where a run went back, and what its guards did."""
    found = []
    for event in events:
        facts, step = _facts(event), _step(event)
        if event.event not in _MOVES or step is None:
            continue
        if event.event == "guard" and not is_alarm(event.event, facts):
            continue
        back = event.event != "guard"
        words = in_words(event.event, facts)
        found.append({"step": step, "kind": "rollback" if back else "guard", "text": words})
    return found


def _facts(event: EventLine) -> dict[str, Any]:
    facts: object = event.facts  # as it stands in the file
    return facts if isinstance(facts, dict) else {}


def _step(event: EventLine) -> int | None:
    facts = _facts(event)
    named = (facts.get(key) for key in ("step", "last_step", "to", "pin"))
    return next((step for step in named if type(step) is int), None)
