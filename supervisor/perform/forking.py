"""Make a run of its own out of a sealed checkpoint of another one, which is only read.

The new run has its own identity, ledger, journal and policy. The first line of its ledger names
the parent and the parent's head at the checkpoint; the parent's seal is kept in ``origin/``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from supervisor import clock
from supervisor.config import load, read_policy
from supervisor.config.toml_text import relocated
from supervisor.errors import StepkeeperError
from supervisor.perform import building
from supervisor.perform.unattended import by
from supervisor.process.filesystem import refuse_untrusted
from supervisor.sidecars import archive
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.checkpoints.seals import SCHEMA, EventsAt, LedgerAt, Replay, ReportsAt
from supervisor.sidecars.events import Events, created
from supervisor.sidecars.ledger import SUFFIX, ends_at
from trainer.contract.checkpoint_format import companion_of, seal_of
from trainer.contract.durable import AppendFile, write_file

REASON = "fork"
ORIGIN = "origin"
Alter = Callable[[Path, SealRecord], SealRecord]


class Parent(NamedTuple):
    """What a fork takes from its parent. ``name`` is that of the parent's sidecars."""

    run: Path
    name: str
    run_id: str
    seal: SealRecord
    head: str
    settings: str
    policy: bytes


def read_parent(run: Path, name: str, seal: SealRecord) -> Parent:
    """Read it without a lock. Raises StepkeeperError where the run does not vouch for the seal."""
    first = created(run / "events.jsonl")
    if first is None:
        raise StepkeeperError(f"cannot fork {run}: {run / 'events.jsonl'} does not name the run")
    ledger = run / f"{name}{SUFFIX}"
    if not ends_at(ledger, seal.ledger.bytes, seal.ledger.chain):
        raise StepkeeperError(
            f"cannot fork {run} at step {seal.step}: {ledger} does not hold the line that its seal "
            "speaks of; see stepkeeper audit"
        )
    return Parent(
        run=run,
        name=name,
        run_id=str(first.facts["run"]),
        seal=seal,
        head=f"{seal.ledger.entries}:{seal.ledger.chain}:{seal.digest[:32]}",
        settings=(run / "run.toml").read_text("utf-8"),
        policy=policy_at(run, seal.policy).read_bytes(),
    )


def policy_at(run: Path, number: int) -> Path:
    """The policy that a checkpoint was sealed under; an imported one is followed by the first."""
    if number or archive.policies(run):
        return archive.policy_path(run, number or 1)
    return run / "policy.toml"


def fork(parent: Parent, target: Path, policy: bytes | None, alter: Alter | None = None) -> str:
    """Make the run in ``target`` and return its identity.

    Under the checkpoint's own policy the bandit goes on where it stood; another ``policy`` begins
    with an empty one. ``alter`` may change the copied checkpoint in the folder that it is given,
    and returns what the seal then has to say. Raises StepkeeperError, OSError; then nothing is
    left.
    """
    old = parent.seal
    with building.building(target) as place:
        write_file(place / "run.toml", relocated(parent.settings, parent.run).encode("utf-8"))
        number = _policies(parent, place, policy)
        _copy_checkpoint(parent, place)
        if alter is not None:
            old = alter(place / "checkpoints", old)
        events = Events.open(place / "events.jsonl")
        try:
            run_id = building.name_run(events, f"fork:{parent.run_id} head:{parent.head}")
            facts = {"parent": parent.run_id, "path": str(parent.run), "step": old.step}
            facts |= {"head": parent.head, "policy": number, "by": by()}
            events.append("forked", facts, clock.wall())
            events.sync()
            record = old._replace(
                attempt=0,
                previous="",
                ledger=LedgerAt(0, 0, building.NO_LINE, old.step),
                reports=ReportsAt(0, 0, 0),
                events=EventsAt(*events.head),
                sample=None,
                reason=REASON,
                save=None,
                replay=Replay(0, 0),
                time=clock.wall(),
                verdict=None,
                schema=SCHEMA,
            )
            building.seal(place, events, record)
            events.sync()
        finally:
            events.close()
        name = load(place).file.name or target.name
        AppendFile(place / f"{name}{SUFFIX}", create=True).close()
    return run_id


def _policies(parent: Parent, place: Path, policy: bytes | None) -> int:
    """Write the policies; the number of the one in force. Raises SettingsError."""
    config = load(place)
    refuse_untrusted(place, trust=config.trust_locks)
    number = parent.seal.policy or 1
    text = parent.policy
    archive.install_policy(place, number, text)
    if policy is not None:
        number, text = number + 1, policy
        read_policy(text, number, "the new policy", config, present=True)
        archive.install_policy(place, number, text)
    write_file(place / "policy.toml", text)
    return number


def _copy_checkpoint(parent: Parent, place: Path) -> None:
    """The checkpoint, its companion, and the parent's seal for whoever audits the fork."""
    old, source = parent.seal, parent.run / "checkpoints"
    target = building.folder(place, "checkpoints")
    if old.companion:
        name = companion_of(old.step)
        write_file(target / name, (source / name).read_bytes())
    building.copied(source / old.bin.name, target, old.bin.sha256, companion=bool(old.companion))
    write_file(building.folder(place, ORIGIN) / seal_of(old.step), old.encode())
