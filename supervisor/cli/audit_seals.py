"""Every seal that a run has, superseded ones too: whether they hold, and form one lineage."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from supervisor.cli.audit_findings import Findings
from supervisor.errors import UnknownError
from supervisor.sidecars.checkpoints.seals import SealError, SealRecord, decode
from supervisor.sidecars.checkpoints.superseding import SUPERSEDED
from trainer.contract.checkpoint_format import seal_of

_NAMED = re.compile(r"(step_\d+\.seal\.json)(\.\d+)?")
DIGITS = 32  # of a digest, as marks and heads give them
_TRIES = 20
_LOOKS = 20  # times that a missing seal is looked for again: a living run writes new ones


class SealFile(NamedTuple):
    """A seal as it was read; ``digest`` is that of its bytes."""

    path: Path
    record: SealRecord
    digest: str
    superseded: bool


class Seals:
    """The seals of a run by digest; those written later are read when they are asked for."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._folder = findings.run / "checkpoints"
        self._looks = _LOOKS
        self.bad: dict[Path, str] = {}
        self.files: dict[str, SealFile] = {}
        self._seals: dict[str, SealFile] = {}
        self._bins: dict[str, SealFile] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read again what is there now. Raises UnknownError, OSError."""
        for _ in range(_TRIES):
            try:
                self.files, self.bad = _read(self._folder)
            except FileNotFoundError:
                continue  # a new attempt moves them out of its way just now
            self._seals = {digest[:DIGITS]: file for digest, file in self.files.items()}
            self._bins = {file.record.bin.sha256[:DIGITS]: file for file in self.files.values()}
            return
        raise UnknownError(f"cannot read the seals in {self._folder}: they do not stand still")

    def find(self, digest: str) -> SealFile | None:
        """The seal with that digest, of which at least 32 digits are given."""
        file = self._look(lambda: self._seals.get(digest[:DIGITS]))
        return file if file is not None and file.digest.startswith(digest) else None

    def of_bin(self, digest: str) -> SealFile | None:
        """A seal of the checkpoint with that digest, of which at least 32 digits are given."""
        file = self._look(lambda: self._bins.get(digest[:DIGITS]))
        return file if file is not None and file.record.bin.sha256.startswith(digest) else None

    @property
    def current(self) -> list[SealFile]:
        """Those that no attempt has left behind, the newest first."""
        found = [file for file in self.files.values() if not file.superseded]
        return sorted(found, key=lambda file: file.record.step, reverse=True)

    def _look(self, get: Callable[[], SealFile | None]) -> SealFile | None:
        """Look for a seal, and once more among those that are new. Raises UnknownError, OSError."""
        if (file := get()) is not None or not self._looks:
            return file
        self._looks -= 1
        self.refresh()
        return get()


def _read(folder: Path) -> tuple[dict[str, SealFile], dict[Path, str]]:
    """All seals by digest, and why others are none. Raises OSError."""
    files: dict[str, SealFile] = {}
    bad: dict[Path, str] = {}
    # What lies in checkpoints/ moves to superseded/, never back: it is listed first.
    places = [(path, False) for path in sorted(folder.glob("step_*.seal.json"))]
    places += [(path, True) for path in sorted(folder.glob(f"{SUPERSEDED}/*/step_*.seal.json*"))]
    for path, superseded in places:
        named = _NAMED.fullmatch(path.name)
        if named is None or (named[2] and not superseded):
            continue
        data = path.read_bytes()
        try:
            record = decode(data)
        except SealError as error:
            bad[path] = str(error).removeprefix("cannot use seal: ")
            continue
        if named[1] != seal_of(record.step):
            bad[path] = f"it is the seal of step {record.step}"
            continue
        digest = sha256(data).hexdigest()
        files[digest] = SealFile(path, record, digest, superseded)
    return files, bad


def check_seals(seals: Seals, findings: Findings) -> None:
    """Each seal reads as one, follows a seal that is there, and goes on from it."""
    for path, why in seals.bad.items():
        findings.fault(path, why)
    for file in sorted(seals.files.values(), key=lambda file: file.record.step):
        previous = file.record.previous
        if not previous:
            continue
        before = seals.find(previous)
        if before is None:
            findings.fault(file.path, _gap(seals, file))
        elif _place(before.record) >= _place(file.record):
            findings.fault(file.path, f"it follows {before.path.name}, which is not before it")
    _check_lineage(seals, findings)


def _gap(seals: Seals, file: SealFile) -> str:
    lower = [other for other in seals.current if other.record.step < file.record.step]
    beside = f"; {lower[0].path.name} before it is another" if lower else ""
    previous = file.record.previous[:DIGITS]
    return (
        f"it follows a seal with digest {previous} that is not there{beside}: a seal was changed or"
        " removed"
    )


def _place(record: SealRecord) -> tuple[int, int]:
    """What only grows along a lineage."""
    return record.step, record.ledger.entries


def lineage(seals: Seals) -> list[SealFile]:
    """The seals from the newest back, as each names the one before it."""
    current = seals.current
    found: list[SealFile] = []
    file = current[0] if current else None
    while file is not None and file not in found[-1:]:
        found.append(file)
        file = seals.files.get(file.record.previous)
    return found


def _check_lineage(seals: Seals, findings: Findings) -> None:
    """Below the newest seal nothing stands in ``checkpoints/`` that it does not come from."""
    walked = lineage(seals)
    known = {file.digest for file in walked}
    end = walked[-1].record if walked else None
    for file in seals.current:
        # What is below a gap cannot be told apart; the gap itself is a fault already.
        below = end is not None and end.previous and file.record.step < end.step
        if file.digest not in known and not below:
            newest = walked[0].path.name if walked else "any seal"
            findings.fault(file.path, f"it is not of the lineage of {newest}")
