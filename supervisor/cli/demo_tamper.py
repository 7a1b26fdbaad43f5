"""The audit's negative control: a copy of the ledger with one digit changed must be found out."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from supervisor.sidecars.ledger import audit


class Tampered(NamedTuple):
    """The line that was changed, and the line that the audit names (0: it found nothing)."""

    line: int
    found_line: int


def tamper(ledger: Path) -> Tampered:
    """Change the loss in the middle line of a copy and audit the copy. Raises OSError."""
    lines = ledger.read_bytes().split(b"\n")
    nth = len(lines) // 2
    at = lines[nth].index(b'"loss":') + len(b'"loss":') + 2  # behind the point
    digit = b"1" if lines[nth][at : at + 1] != b"1" else b"2"
    lines[nth] = lines[nth][:at] + digit + lines[nth][at + 1 :]
    with tempfile.TemporaryDirectory(prefix="stepkeeper-demo-") as folder:
        copy = Path(folder) / ledger.name
        copy.write_bytes(b"\n".join(lines))
        return Tampered(nth + 1, audit(copy).fault_line)
