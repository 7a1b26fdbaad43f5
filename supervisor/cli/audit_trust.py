"""Whether what was said of checkpoints can be read, and no quarantine ended without a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_journal import NAME as JOURNAL
from supervisor.cli.audit_journal import Journal
from supervisor.cli.audit_seals import Seals
from supervisor.errors import RefusedError
from supervisor.sidecars.checkpoints import marks
from supervisor.sidecars.events import EventLine, read

_READERS: Final[dict[str, Callable[[Path], Mapping[Any, Any]]]] = {
    marks.PINS: marks.pins,
    marks.REJECTIONS: marks.rejections,
    marks.SKIPS: marks.skips,
    marks.QUARANTINE: marks.quarantined,
}


def check_trust(journal: Journal, seals: Seals, findings: Findings) -> None:
    """Every mark is read; a quarantine that the journal tells of holds until it tells of its end.

    Raises OSError.
    """
    folder, kept = findings.run / "checkpoints", None
    for name, reader in _READERS.items():
        kept = None
        try:
            kept = reader(folder)
        except RefusedError:
            findings.fault(folder / name, "it is not as this program writes it")
    told = {str(event.facts.get("seal")) for event in journal.named("quarantined")}
    if kept is None or not (free := told - kept.keys()):
        return
    # A mark goes after its line, so the lines are read behind the marks.
    events = [line for line in read(findings.run / JOURNAL) if isinstance(line, EventLine)]
    free -= {str(line.facts.get("seal")) for line in events if line.event == "quarantine-lifted"}
    for file in seals.current:
        if file.digest in free:
            what = f"step {file.record.step} is not in quarantine any more, and nobody lifted that"
            findings.fault(folder / marks.QUARANTINE, what)
