"""The pivots' certificates, held against every other file that they speak of."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_journal import NAME, Journal
from supervisor.cli.audit_seals import Seals
from supervisor.core.messages import LedgerPosition
from supervisor.errors import RefusedError
from supervisor.sidecars import archive
from supervisor.sidecars.archive import Certificate, PositionModel
from supervisor.sidecars.events import EventLine
from supervisor.sidecars.ledger import Audit


class Pivot(NamedTuple):
    """A certificate and where it is."""

    path: Path
    certificate: Certificate


def read_pivots(findings: Findings) -> list[Pivot]:
    """Every certificate, in the order of policies."""
    found = []
    for path in sorted((findings.run / "archive").glob("pivot-*/certificate.json")):
        try:
            certificate = archive.read_certificate(path.parent)
        except RefusedError as error:
            findings.fault(path, str(error).removeprefix(f"cannot read {path}: "))
            continue
        if certificate is not None:
            found.append(Pivot(path, certificate))
    return sorted(found, key=lambda pivot: pivot.certificate.policy_after)


def positions(pivot: Pivot) -> list[LedgerPosition]:
    """Where the certificate says that the ledger stood."""
    certificate = pivot.certificate
    return [_position(certificate.ledger_at_stop), _position(certificate.ledger_at_install)]


def _position(model: PositionModel) -> LedgerPosition:
    return LedgerPosition(model.entries, model.bytes, model.chain, model.step)


def check_pivots(pivots: list[Pivot], journal: Journal, seals: Seals, findings: Findings) -> None:
    """Every certificate says what the other files say. Raises OSError."""
    for path, certificate in pivots:
        for why in (
            *_about_ledger(certificate),
            *_about_pin(path, certificate, seals, findings.run),
            *_about_policies(certificate, findings.run),
            *_about_archived(path.parent, certificate),
            *_about_journal(certificate, journal),
        ):
            findings.fault(path, why)
    for event in journal.named("pivot-done"):
        _check_done(event, findings)


def _about_ledger(certificate: Certificate) -> list[str]:
    stop, install = certificate.ledger_at_stop, certificate.ledger_at_install
    if stop != install:
        return [f"the ledger grew from entry {stop.entries} to {install.entries} in the pivot"]
    if stop.step < certificate.pin.step:  # above it stand steps of a trainer that died unsaved
        return [f"the ledger stood at step {stop.step}, the pin is of step {certificate.pin.step}"]
    return []


def _about_pin(path: Path, certificate: Certificate, seals: Seals, run: Path) -> list[str]:
    pin = certificate.pin
    found = []
    if path.parent != archive.folder(run, certificate.policy_after, pin.step):
        found.append(f"it is of the pivot to policy {certificate.policy_after} at step {pin.step}")
    seal = seals.find(pin.seal)
    if seal is None:
        found.append(f"no seal {pin.seal[:32]} is there for its pin")
    elif (seal.record.step, seal.record.bin.sha256) != (pin.step, pin.sha256):
        found.append(f"the seal of its pin, {seal.path.name}, is of another checkpoint")
    if certificate.first_step not in (None, pin.step + 1):
        found.append(f"its first step is {certificate.first_step}, its pin is of step {pin.step}")
    return found


def _about_policies(certificate: Certificate, run: Path) -> list[str]:
    found = []
    for number, digest in (
        (certificate.policy_before, certificate.policy_before_sha256),
        (certificate.policy_after, certificate.policy_after_sha256),
    ):
        path = archive.policy_path(run, number)
        if not path.is_file():
            found.append(f"policies/{path.name} is missing")
        elif sha256(path.read_bytes()).hexdigest() != digest:
            found.append(f"policies/{path.name} is not the policy that it speaks of")
    return found


def _about_archived(folder: Path, certificate: Certificate) -> list[str]:
    found = []
    for file in certificate.archived:
        path = folder / Path(file.name).name
        if not path.is_file():
            found.append(f"{file.name}, which was put away, is missing")
        elif sha256(path.read_bytes()).hexdigest() != file.sha256:
            found.append(f"{file.name} is not what was put away")
    return found


def _about_journal(certificate: Certificate, journal: Journal) -> list[str]:
    found = []
    if journal.run and certificate.run != journal.run:
        found.append(f"it is of run {certificate.run}, this run is {journal.run}")
    asked = [
        event.facts.get("step")
        for event in journal.named("pivot-requested")
        if event.facts.get("policy") == certificate.policy_after
    ]
    if asked and asked[-1] != certificate.asked_step:
        found.append(f"asked at step {certificate.asked_step}; {NAME} says step {asked[-1]}")
    return found


def _check_done(event: EventLine, findings: Findings) -> None:
    """The certificate of a pivot that is done says so; it is read anew, since it may just be."""
    policy, pin = event.facts.get("policy"), event.facts.get("pin")
    if type(policy) is not int or type(pin) is not int:
        findings.fault(NAME, "a pivot without its numbers", event.line)
        return
    folder = archive.folder(findings.run, policy, pin)
    try:
        certificate = archive.read_certificate(folder)
    except RefusedError:
        return  # said already
    path = folder / "certificate.json"
    if certificate is None:
        findings.fault(path, f"it is missing; {NAME} line {event.line} tells of the pivot")
    elif certificate.done is None or certificate.first_step != event.facts.get("first_step"):
        findings.fault(path, f"it does not say what {NAME} line {event.line} says of its end")


def check_policies(
    ledger: Audit,
    name: str,
    pivots: list[Pivot],
    journal: Journal,
    seals: Seals,
    findings: Findings,
) -> None:
    """Where the ledger goes on under another policy, a pivot must tell of it."""
    told: set[object] = {pivot.certificate.policy_after for pivot in pivots}
    told |= {event.facts.get("policy") for event in journal.named("pivot-by-hand")}
    told |= {event.facts.get("policy") for event in journal.named("pivot-installed")}
    # The journal is synced with each seal: before the first one under a policy it may lag behind.
    sealed = {file.record.policy for file in seals.files.values()}
    before: int | None = None
    for lines in ledger.attempts:
        if before not in (None, lines.policy) and lines.policy in sealed - told:
            what = f"policy {lines.policy} begins, and no pivot tells of it"
            findings.fault(name, what, lines.first_line)
        before = lines.policy
