"""The command ``audit``: the whole history of a run, each part held against the others."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from supervisor.cli import printing, standing
from supervisor.cli.audit_attempts import check_lines, check_marks, read_records
from supervisor.cli.audit_checkpoints import check_checkpoints
from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_journal import NAME as JOURNAL
from supervisor.cli.audit_journal import check_journal, check_replays, check_sealed
from supervisor.cli.audit_origin import check_origin
from supervisor.cli.audit_pivots import check_pivots, check_policies, positions, read_pivots
from supervisor.cli.audit_rewinds import check_rewinds, read_rewinds
from supervisor.cli.audit_seals import SealFile, Seals, check_seals
from supervisor.cli.audit_served import check_served
from supervisor.cli.audit_trust import check_trust
from supervisor.cli.audit_words import Outcome, facts, lines
from supervisor.cli.parameters import Json, Run, existing
from supervisor.cli.reading_progress import Progress
from supervisor.core.messages import LedgerPosition
from supervisor.errors import StepkeeperError, UnknownError, UsageError
from supervisor.sidecars.ledger import SUFFIX, Audit
from supervisor.sidecars.ledger import audit as audit_ledger

_HEAD = re.compile(r"(?:head )?(\d+):([0-9a-f]{32}):([0-9a-f]{32})")
_SHARE = 1 << 24  # bytes of ledger that are worth a process of their own
_MOST_PROCESSES = 8


_Claim = tuple[LedgerPosition, Path]  # where the ledger stood, and who says so


class _Head(NamedTuple):
    """A witness that was noted outside: entries, chain, and the seal's digest."""

    entries: int
    chain: str
    seal: str


def audit(
    run: Run,
    *,
    head: Annotated[
        str, typer.Option("--head", metavar="E:C:S", help="A head noted earlier: is it held?")
    ] = "",
    digests: Annotated[
        bool, typer.Option("--digests", help="Read every checkpoint, however large all are.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Verify the whole history: ledger, journal, seals, checkpoints, attempts, pivots.

    Exits 0 where all of it holds, 1 for a fault, 2 where that could not be determined. Locks
    nothing, writes nothing, and may be asked while the run goes on.
    """
    noted = _parse(head)
    folder = existing(run)
    with Progress() as progress:
        findings, outcome = examine(folder, noted, progress, digests=digests)
    if as_json:
        printing.emit(facts(folder, outcome, findings))
    else:
        printing.say("\n".join(lines(outcome, findings)))
    if findings.faults:
        first, *more = findings.faults
        rest = f"; {len(more)} more faults" if more else ""
        raise StepkeeperError(f"cannot vouch for {folder}: {printing.plain(first.text)}{rest}")
    return 0


def _parse(head: str) -> _Head | None:
    if not head:
        return None
    found = _HEAD.fullmatch(head.strip())
    if found is None:
        raise UsageError(
            f"cannot use the head {head!r}: give ENTRIES:CHAIN:SEAL as the supervisor printed it, "
            "a number and twice 32 hex digits"
        )
    return _Head(int(found[1]), found[2], found[3])


def examine(
    folder: Path, head: _Head | None, progress: Progress, *, digests: bool
) -> tuple[Findings, Outcome]:
    """All checks, in an order that a living run cannot upset: what is named is read last.

    A seal names lines of ledger and journal, which are durable before it; marks and events that
    name a newer seal make the seals be read again.
    """
    findings = Findings(folder)
    path = standing.ledger_path(folder)
    seals = Seals(findings)
    pivots = read_pivots(findings)
    rewinds = read_rewinds(findings)
    claims: list[_Claim] = [(at, pivot.path) for pivot in pivots for at in set(positions(pivot))]
    claims += [(rewind.at, folder / JOURNAL) for rewind in rewinds]
    ledger = _audit_ledger(path, seals, claims, head, progress, findings)
    journal = check_journal(seals, findings)
    if journal.sound:
        check_sealed(journal, seals, findings)
    check_seals(seals, findings)
    check_trust(journal, seals, findings)
    if ledger is not None:
        check_served(seals, path, findings)
    whole = None
    if ledger is not None:
        _blame(ledger, path, seals, claims, findings)
        whole = None if ledger.fault_line else ledger
    records = read_records(seals, findings)
    if ledger is not None:
        name = path.name
        check_lines(ledger, name, records, findings)
        check_marks(ledger, name, journal.mark if journal.sound else "", seals, records, findings)
        check_policies(ledger, name, pivots, journal, seals, findings)
    check_pivots(pivots, journal, seals, findings)
    check_rewinds(rewinds, ledger, seals, findings)
    origin = check_origin(journal, seals, findings) if journal.sound else None
    replays = check_replays(journal, whole, findings)
    checkpoints = check_checkpoints(seals, findings, progress.show, force=digests)
    held = _check_head(head, ledger, path, seals, findings)
    outcome = Outcome(
        path.name,
        ledger,
        journal,
        seals,
        pivots,
        len(records),
        replays,
        checkpoints,
        held,
        rewinds,
        origin,
    )
    return findings, outcome


def _audit_ledger(
    path: Path,
    seals: Seals,
    claims: list[_Claim],
    head: _Head | None,
    progress: Progress,
    findings: Findings,
) -> Audit | None:
    """The ledger by itself; None where it is missing. Raises UnknownError for a run without one."""
    for other in sorted(path.parent.glob(f"*{SUFFIX}")):
        if other != path:
            findings.fault(other, f"a second ledger stands beside {path.name}")
    wanted = [LedgerPosition(*file.record.ledger) for file in seals.files.values()]
    wanted += [position for position, _ in claims]
    try:
        cores = len(os.sched_getaffinity(0))
        found = audit_ledger(
            path,
            positions=wanted,
            head=head[:2] if head else None,
            processes=max(1, min(cores, _MOST_PROCESSES, path.stat().st_size // _SHARE)),
            progress=lambda done, total: progress.show(path.name, done, total),
        )
    except FileNotFoundError:
        if not findings.faults and not seals.files and not (path.parent / "attempts").is_dir():
            raise UnknownError(
                f"cannot audit {path.parent}: it has no history yet; it begins with stepkeeper run"
            ) from None
        findings.fault(path, "it is missing")
        return None
    if found.fault_line:
        findings.fault(path, found.fault, found.fault_line)
    return found


def _blame(
    ledger: Audit, path: Path, seals: Seals, claims: list[_Claim], findings: Findings
) -> None:
    """Say whose word each position is that the ledger does not hold."""
    accused = {fault.file for fault in findings.faults}
    owners: dict[LedgerPosition, list[str]] = {position: [] for position in ledger.missed}
    for file in seals.files.values() if owners else ():
        owners.get(LedgerPosition(*file.record.ledger), []).append(findings.name(file.path))
    for position, claimant in claims:
        owners.get(position, []).append(findings.name(claimant))
    for nth, (position, names) in enumerate(owners.items()):
        line = 0 if nth or ledger.torn_regions else position.entries
        if accused.isdisjoint(names):
            what = (
                f"entry {position.entries} of step {position.step} does not end at byte "
                f"{position.bytes} with chain {position.chain}, as {' and '.join(names)} says"
            )
            findings.fault(path, what, line)


def _check_head(
    head: _Head | None, ledger: Audit | None, path: Path, seals: Seals, findings: Findings
) -> bool | None:
    """Whether ledger and seals still hold the head; None where there was none, or no telling."""
    if head is None:
        return None
    held = ledger.head_held if ledger is not None else None
    if held is False:
        what = f"the head is not held: entry {head.entries} with chain {head.chain} is not there"
        findings.fault(path, what)
    seal: SealFile | None = seals.find(head.seal)
    if seal is None:
        findings.fault("checkpoints", f"the head is not held: no seal {head.seal} is there")
        return False
    if seal.record.ledger[:3:2] != (head.entries, head.chain):
        what = f"the head is not held: it is the seal of entry {seal.record.ledger.entries}"
        findings.fault(seal.path, what)
        return False
    return held
