"""Where a run comes from: the parent of a fork, or the files of other software, held to account."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_journal import Journal
from supervisor.cli.audit_seals import DIGITS, SealFile, Seals
from supervisor.sidecars.checkpoints.seals import SealError, SealRecord, decode

FOLDER = "origin"
_BLOCK = 1 << 20


class Origin(NamedTuple):
    """``kind`` is fork or import; ``of`` the parent's identity, or the old loss file's digest.

    ``head`` is the parent's at step ``step``, the last one that is not this run's own.
    """

    kind: str
    of: str
    head: str
    step: int
    path: str


def check_origin(journal: Journal, seals: Seals, findings: Findings) -> Origin | None:
    """The origin that the journal tells of, or None. Raises OSError."""
    words = journal.origin.split(" ")
    kind, _, of = words[0].partition(":")
    told = journal.named("forked", "imported")
    path = str(told[0].facts.get("path", "")) if told else ""
    own = [file for file in seals.files.values() if not file.record.attempt]
    step = max((file.record.step for file in own), default=0)
    if kind == "fork" and len(words) > 1:
        head = words[1].removeprefix("head:")
        _check_parent(head, own, findings)
        return Origin(kind, of, head, step, path)
    if kind == "import":
        _check_old(of, findings)
        return Origin(kind, of, "", step, path)
    return None


def _check_parent(head: str, own: list[SealFile], findings: Findings) -> None:
    """The parent's seal is the one that the head names, and of the very bytes begun from."""
    parts = head.split(":")
    folder = findings.run / FOLDER
    kept = sorted(folder.glob("step_*.seal.json"))
    if not kept:
        findings.fault(folder, "the parent's seal is missing")
        return
    data = kept[0].read_bytes()
    try:
        record = decode(data)
    except SealError as error:
        findings.fault(kept[0], str(error).removeprefix("cannot use seal: "))
        return
    if [
        str(record.ledger.entries),
        record.ledger.chain,
        sha256(data).hexdigest()[:DIGITS],
    ] != parts:
        findings.fault(kept[0], f"it is not of the parent's head {head}")
    if not any(_same(file.record, record) for file in own):
        findings.fault(kept[0], "no seal of this run is of the checkpoint that it names")


def _same(own: SealRecord, parent: SealRecord) -> bool:
    return (own.step, own.bin, own.companion) == (parent.step, parent.bin, parent.companion)


def _check_old(digest: str, findings: Findings) -> None:
    """The old loss file is kept as it was."""
    folder = findings.run / FOLDER
    kept = sorted(folder.glob("*.loss.json"))
    if not kept:
        findings.fault(folder, "the old loss file is missing")
    elif _digest(kept[0]) != digest:
        findings.fault(kept[0], "it is not the old loss file that was imported")


def _digest(path: Path) -> str:
    seen = sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            seen.update(block)
    return seen.hexdigest()
