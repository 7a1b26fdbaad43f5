"""Put a state on a disk, recover from it with the program's own code, and hold it to the laws.

Recovered is done twice, since the first one may die right after it. Then the run goes on as the
next life would: the reports that nobody has read, a new attempt from the newest seal, its replay
and three steps more, each with the facts that the recorded trainer gave.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from supervisor.cli.audit_shards import shard_faults
from supervisor.config import load
from supervisor.core.messages import LedgerPosition, Reports
from supervisor.daemon.recovery import Recovered, recover
from supervisor.errors import RefusedError
from supervisor.perform.spawning import reports_path
from supervisor.process.reports import Follower
from supervisor.sidecars import events
from supervisor.sidecars.checkpoints import (
    SealRecord,
    scan,
)
from supervisor.sidecars.checkpoints.superseding import supersede
from supervisor.sidecars.ledger import audit, canonical
from tests.support.crash_fs import Chosen
from tests.support.crash_fs.disk import Content
from trainer.contract.durable import remove_temporaries
from trainer.contract.wire import Step

WALL = "2026-01-31T12:00:00.123Z"
LEDGER = "demo.loss.json"
STAGES = ("", "requested", "stopped", "installed", "done")
# A power cut ends the boot: nobody there is still alive, no stop of this boot is unfinished.
_OTHER_BOOT = b"00000000-0000-0000-0000-000000000000"
_NAMING_BOOT = ("intent.json", "attempt.json")


class Broken(Exception):  # noqa: N818 - a law is broken; no error of a program
    """What a state led to that must not be."""


@dataclass(frozen=True)
class Truth:
    """What the recorded trainers reported, by step; ``boot`` is the boot id in the records.

    ``form`` is the format of their checkpoints.
    """

    steps: dict[int, Step]
    boot: bytes
    form: str

    def between(self, first: int, last: int) -> list[Step]:
        """These steps; beyond the recording, the last one's facts go on."""
        top = max(self.steps)
        return [
            self.steps[n] if n <= top else self.steps[top]._replace(step=n)
            for n in range(first, last + 1)
        ]


class Floor(NamedTuple):
    """What a state must not fall below, since it was durable: steps, seal, policy, pivot stage."""

    ledger: int
    seal: int
    policy: int
    stage: int


def put(run: Path, state: Chosen, truth: Truth) -> None:
    """Write the state into an empty place."""
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    power_cut = bool(state.lost)
    for name, data in state.content.items():
        path = run / name
        if data is None:
            path.mkdir()
        elif name in state.links:
            path.hardlink_to(run / state.links[name])
        elif power_cut and path.name in _NAMING_BOOT:
            path.write_bytes(data.replace(truth.boot, _OTHER_BOOT))
        else:
            path.write_bytes(data)


def floor_of(content: Content) -> Floor:
    """What this content, read naively, holds for sure."""
    steps = [line["step"] for line in _lines(content.get(LEDGER))]
    names = {name for name in content if name.startswith("checkpoints/step_")}
    seals = [int(name[17:23]) for name in names if name.endswith(".seal.json")]
    policies = [int(name[9:13]) for name in content if name.startswith("policies/0")]
    told = [line["event"] for line in _lines(content.get("events.jsonl"))]
    journal = content.get("pivot.json")
    word = json.loads(journal)["stage"] if journal else "done" if "pivot-done" in told else ""
    return Floor(
        max(steps, default=0),
        max(seals, default=0),
        max(policies, default=0),
        STAGES.index(word),
    )


def _lines(data: bytes | None) -> Iterator[dict[str, object]]:
    for line in (data or b"").split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def examine(run: Path, truth: Truth, floor: Floor) -> str:
    """The reason of an allowed refusal, or empty where it recovered. Raises Broken."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            first = _summary(_recovered(run))
            second = recover(load(run))
    except RefusedError as error:
        return str(error).replace(str(run), "RUN")
    try:
        if _summary(second) != first:
            raise Broken("a second recovery finds another state")
        _hold_to_floor(run, second, floor)
        _go_on(run, second, truth)
    finally:
        _close(second)
    _hold(run)
    return ""


def _recovered(run: Path) -> Recovered:
    found = recover(load(run))
    _close(found)
    return found


def _close(recovered: Recovered) -> None:
    recovered.parts.events.close()
    recovered.parts.ledger.close()


def _summary(recovered: Recovered) -> tuple[object, ...]:
    """Without what tells the time."""
    found = recovered.found
    attempt = found.attempt
    restarts = recovered.state.restarts
    return (
        recovered.state.seals,
        recovered.state.policy,
        recovered.state.bandit,
        (restarts.failures, restarts.against, restarts.best),
        attempt and (attempt.number, attempt.position, attempt.last_step, attempt.resume),
        found.pivot,
        found.stop_unfinished,
    )


def _hold_to_floor(run: Path, recovered: Recovered, floor: Floor) -> None:
    seals = [point.point.step for point in recovered.state.seals]
    step = recovered.parts.ledger.position.step
    if step < floor.ledger:
        raise Broken(f"step {floor.ledger} was durable, the ledger ends at {step}")
    if max(seals, default=0) < floor.seal:
        raise Broken(f"seal {floor.seal} was durable, the newest is {max(seals, default=0)}")
    pivot = recovered.found.pivot
    stage = STAGES.index(pivot.stage.value) if pivot else 0
    policy = recovered.state.policy.number
    if pivot is None and policy >= 2:
        stage = STAGES.index("done")
    if stage < floor.stage:
        raise Broken(f"the pivot was {STAGES[floor.stage]}, now it is {STAGES[stage] or 'gone'}")
    for seal in scan(run / "checkpoints").newest(2):
        _hold_checkpoint(run, seal)


def _hold_checkpoint(run: Path, seal: SealRecord) -> None:
    path = run / "checkpoints" / seal.bin.name
    data = (path / "index.json" if path.is_dir() else path).read_bytes()
    if sha256(data).hexdigest() != seal.bin.sha256:
        raise Broken(f"the seal of step {seal.step} is used, what it sealed is another")
    if path.is_dir() and (wrong := [*shard_faults(path, {}, lambda _: None)]):
        raise Broken(f"the seal of step {seal.step} is used, and of its shards {wrong[0]}")
    companion = (run / "checkpoints" / seal.bin.name).with_suffix(".json").read_bytes()
    if sha256(companion).hexdigest() != seal.companion:
        raise Broken(f"the seal of step {seal.step} is used, its companion is another")


def _go_on(run: Path, recovered: Recovered, truth: Truth) -> None:
    parts, attempt = recovered.parts, recovered.found.attempt
    number = recovered.state.last_attempt
    if attempt is not None:
        unread = _unread(run, recovered)
        for at in range(0, len(unread), 7):
            batch = unread[at : at + 7]
            parts.ledger.record(attempt.number, attempt.policy, batch, WALL)
        number = attempt.number
    newest = recovered.state.seals[0].point if recovered.state.seals else None
    step = newest.step if newest else 0
    remove_temporaries(run / "checkpoints")
    supersede(run / "checkpoints", number + 1, step if newest else -1)
    parts.ledger.begin(number + 1, step, newest.sha256 if newest else "")
    rest = truth.between(step + 1, max(step, parts.ledger.position.step) + 3)
    outcome = parts.ledger.record(number + 1, recovered.state.policy.number, rest, WALL)
    if outcome.difference and recovered.found.pivot is None:
        raise Broken(f"replaying is not equal at step {outcome.differed}: {outcome.difference}")
    parts.ledger.sync()
    parts.events.append("examined", {"step": rest[-1].step}, WALL)
    parts.events.sync()


def _unread(run: Path, recovered: Recovered) -> list[Step]:
    attempt = recovered.found.attempt
    if attempt is None:
        return []
    follower = Follower(reports_path(run, attempt.number), attempt.position)
    found: list[Step] = []
    try:
        while not follower.exhausted:
            for event in follower.poll():
                if isinstance(event, Reports):
                    found += [r for r in event.reports if isinstance(r, Step)]
    finally:
        follower.close()
    return found


def _hold(run: Path) -> None:
    """What must be true of the files afterwards."""
    seals = scan(run / "checkpoints").sealed
    positions = [LedgerPosition(*seal.ledger) for seal in seals]
    verdict = audit(run / LEDGER, positions=positions)
    if verdict.fault or verdict.torn_tail:
        raise Broken(f"ledger line {verdict.fault_line}: {verdict.fault or 'a torn tail'}")
    steps = [entry.fields["step"] for entry in canonical(run / LEDGER)]
    if steps != list(range(1, len(steps) + 1)):
        raise Broken("the canonical ledger has a gap")
    journal = events.verify(run / "events.jsonl", [events.Head(*seal.events) for seal in seals])
    if journal.fault or journal.torn_tail:
        raise Broken(f"events.jsonl line {journal.fault_line}: {journal.fault or 'a torn tail'}")
    for path in run.rglob("*.tmp"):
        raise Broken(f"a temporary is left: {os.fspath(path.relative_to(run))}")
