"""Carry out a stage of the pivot; each is safe to repeat and durable before the next begins."""

from __future__ import annotations

import contextlib
from hashlib import sha256
from pathlib import Path
from typing import Any

from supervisor import clock
from supervisor.core.messages import LedgerPosition, ResumePoint
from supervisor.errors import RefusedError
from supervisor.perform.parts import Parts
from supervisor.sidecars import archive, attempts
from supervisor.sidecars.archive import Certificate, PinModel, PivotModel, PositionModel
from supervisor.sidecars.ledger import Cut
from trainer.contract.durable import write_file


def advance(parts: Parts, stage: str, facts: dict[str, Any]) -> None:
    """Make ``stage`` durable. Raises OSError or RefusedError."""
    match stage:
        case "requested":
            _request(parts, facts)
        case "stopped":
            _stop(parts, facts)
        case "installed":
            install(parts)
        case "done":
            _finish(parts, facts)
        case "cancelled":
            archive.forget_pivot(parts.run)
            with contextlib.suppress(OSError):  # the journal has taken it, and owes the line
                parts.events.append("pivot-cancelled", facts, clock.wall())
        case _:
            raise RefusedError(f"cannot carry out the pivot's stage {stage!r}: unknown")


def _request(parts: Parts, facts: dict[str, Any]) -> None:
    record = PivotModel(
        stage="requested",
        policy=facts["policy"],
        text=facts["text"],
        asked_step=facts["asked_step"],
        when=facts["when"],
        by=facts["by"],
        requested=clock.wall(),
    )
    archive.write_pivot(parts.run, record)


def _stop(parts: Parts, facts: dict[str, Any]) -> None:
    record = _under_way(parts.run)
    attempts.settle(parts.run)
    parts.ledger.sync()
    pin: ResumePoint = facts["pin"]
    changed = {
        "stage": "stopped",
        "pin": PinModel(**pin._asdict()),
        "honoured": facts["honoured"],
        "ledger": _position(parts.ledger.position),
    }
    _journal(parts, "pivot-stopped", {"policy": record.policy, "pin": pin.step})
    archive.write_pivot(parts.run, record.model_copy(update=changed))


def install(parts: Parts) -> None:
    """Put samples and bandit state away, install the policy, write the certificate so far."""
    record = _under_way(parts.run)
    if record.pin is None or record.ledger is None:
        raise RefusedError(f"cannot install policy {record.policy}: pivot.json names no pin")
    run, config = parts.run, parts.config
    number = archive.policies(run)[-1]
    before_number = number if number < record.policy else record.policy - 1
    before = archive.policy_path(run, before_number).read_bytes()
    text = record.text.encode("utf-8")
    target = archive.folder(run, record.policy, record.pin.step)
    archive.put_away((config.samples, config.bandit), target)
    write_file(target / "policy.toml", before)
    edited = archive.edit_policy(run, before, text, target)
    archive.install_policy(run, record.policy, text)
    archived = archive.put_away((config.samples, config.bandit), target)
    certificate = Certificate(
        run=parts.run_id,
        policy_before=before_number,
        policy_after=record.policy,
        policy_before_sha256=sha256(before).hexdigest(),
        policy_after_sha256=sha256(text).hexdigest(),
        asked_step=record.asked_step,
        asked_by=record.by,
        honoured=record.honoured,
        pin=record.pin,
        ledger_at_stop=record.ledger,
        ledger_at_install=_position(parts.ledger.position),
        archived=archived,
    )
    archive.write_certificate(target, certificate)
    parts.ledger.note_cut(Cut(record.pin.step, parts.ledger.position))
    facts = {"policy": record.policy, "pin": record.pin.step, "edited": edited}
    _journal(parts, "pivot-installed", facts)
    archive.write_pivot(run, record.model_copy(update={"stage": "installed"}))
    parts.samples.forget()


def _finish(parts: Parts, facts: dict[str, Any]) -> None:
    record = _under_way(parts.run)
    parts.ledger.sync()
    if record.pin is None:
        raise RefusedError("cannot finish the pivot: pivot.json names no pin")
    target = archive.folder(parts.run, record.policy, record.pin.step)
    certificate = archive.read_certificate(target)
    if certificate is not None:
        done = {"first_step": facts["first_step"], "done": clock.wall()}
        archive.write_certificate(target, certificate.model_copy(update=done))
    told = {"policy": record.policy, "pin": record.pin.step, "first_step": facts["first_step"]}
    _journal(parts, "pivot-done", told)
    archive.forget_pivot(parts.run)


def _journal(parts: Parts, event: str, facts: dict[str, Any]) -> None:
    """Make the event durable before the stage that nobody begins again."""
    parts.events.append(event, facts, clock.wall(), once=True)
    parts.events.sync()


def _under_way(run: Path) -> PivotModel:
    record = archive.read_pivot(run)
    if record is None:
        raise RefusedError(f"cannot go on with the pivot: {archive.journal_path(run)} is gone")
    return record


def _position(position: LedgerPosition) -> PositionModel:
    return PositionModel(**position._asdict())
