"""Attempts and marks on the ledger's lines, held against seals and the attempts' records."""

from __future__ import annotations

from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_seals import DIGITS, Seals
from supervisor.errors import RefusedError
from supervisor.sidecars import attempts
from supervisor.sidecars.attempts import AttemptModel
from supervisor.sidecars.ledger import Audit, MarkedLine

Records = dict[int, AttemptModel]


def read_records(seals: Seals, findings: Findings) -> Records:
    """Every attempt's record; each must have resumed from a seal that is there. Raises OSError."""
    records: Records = {}
    for number in attempts.numbers(findings.run):
        path = attempts.folder(findings.run, number) / "attempt.json"
        try:
            record = attempts.read(findings.run, number)
        except RefusedError as error:
            findings.fault(path, str(error).removeprefix(f"cannot read {path}: "))
            continue
        records[number] = record
        if record.attempt != number:
            findings.fault(path, f"it is the record of attempt {record.attempt}")
        if record.resume is None:
            continue
        seal = seals.find(record.resume.seal)
        if seal is None:
            findings.fault(path, f"no seal {record.resume.seal[:DIGITS]} is there to resume from")
        elif (seal.record.step, seal.record.bin.sha256) != (
            record.resume.step,
            record.resume.sha256,
        ):
            findings.fault(path, f"{findings.name(seal.path)} is not of what it resumed from")
    return records


def check_lines(ledger: Audit, name: str, records: Records, findings: Findings) -> None:
    """Every attempt that appended has a record, under the same policy."""
    for lines in ledger.attempts:
        record = records.get(lines.attempt)
        path = attempts.folder(findings.run, lines.attempt) / "attempt.json"
        if record is None and not path.is_file():
            findings.fault(name, f"attempt {lines.attempt} has no record", lines.first_line)
        elif record is not None and record.policy != lines.policy:
            what = f"policy {lines.policy}; {findings.name(path)} says {record.policy}"
            findings.fault(name, what, lines.first_line)


def check_marks(
    ledger: Audit, name: str, run: str, seals: Seals, records: Records, findings: Findings
) -> None:
    """Every mark must name something that is there. ``run`` is the first one, or empty."""
    for marked in ledger.marks:
        if why := _unheld(marked, run, seals, records):
            findings.fault(name, f"its mark {marked.mark!r} {why}", marked.line)


def _unheld(marked: MarkedLine, run: str, seals: Seals, records: Records) -> str:
    """Why a mark does not hold, or empty."""
    kind, _, digest = marked.mark.partition(":")
    if kind == "run":
        return f"is not of run {run}" if run and digest != run else ""
    if kind not in ("seal", "from") or len(digest) != DIGITS:
        return "is none that is known"
    if kind == "seal":
        return _unheld_seal(marked, digest, seals)
    return _unheld_origin(marked, digest, seals, records)


def _unheld_seal(marked: MarkedLine, digest: str, seals: Seals) -> str:
    seal = seals.find(digest)
    if seal is None:
        return "names a seal that is not there"
    return "" if seal.record.ledger.entries < marked.entry else "stands before its seal"


def _unheld_origin(marked: MarkedLine, digest: str, seals: Seals, records: Records) -> str:
    if seals.of_bin(digest) is None:
        return "names a checkpoint that no seal knows"
    record = records.get(marked.attempt)
    if record is None or not record.known:
        return ""
    if record.resume and record.resume.sha256.startswith(digest):
        return ""
    return f"is not what attempt {marked.attempt} resumed from"
