"""The journal held against its own chain, the seals and the ledger; what replays proved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_seals import Seals
from supervisor.sidecars.events import EventLine, Head, read, verify
from supervisor.sidecars.ledger import Audit

NAME = "events.jsonl"


class Journal(NamedTuple):
    """The journal as it was read; ``sound`` says that its chain and its heads hold."""

    sound: bool
    entries: int
    chain: str
    torn_regions: int
    torn_tail: int
    events: tuple[EventLine, ...]

    def named(self, *names: str) -> list[EventLine]:
        """The events of these names, in order."""
        return [event for event in self.events if event.event in names]

    @property
    def run(self) -> str:
        """The run's identity, or empty."""
        created = self.named("run-created")
        return str(created[0].facts.get("run")) if created else ""

    @property
    def origin(self) -> str:
        """Where the run comes from, as its ledger's first line says behind the identity."""
        created = self.named("run-created")
        return str(created[0].facts.get("origin", "")) if created else ""

    @property
    def mark(self) -> str:
        """The first line's mark behind ``run:``, or empty."""
        return f"{self.run} {self.origin}".strip()


def check_journal(seals: Seals, findings: Findings) -> Journal:
    """Verify the chain, and that every seal's head is the end of a line. Raises OSError."""
    path = findings.run / NAME
    heads = {Head(*file.record.events): file for file in seals.files.values()}
    try:
        verdict = verify(path, sorted(heads))
        events = tuple(line for line in read(path) if isinstance(line, EventLine))
    except FileNotFoundError:
        findings.fault(path, "it is missing")
        return Journal(False, 0, "", 0, 0, ())  # noqa: FBT003 - a field of a row
    if verdict.fault:
        who = next((file for head, file in heads.items() if head.chain in verdict.fault), None)
        said = f", as {findings.name(who.path)} says" if who else ""
        findings.fault(path, verdict.fault + said, verdict.fault_line)
    return Journal(
        not verdict.fault,
        verdict.head.entries,
        verdict.head.chain,
        verdict.torn_regions,
        verdict.torn_tail,
        events,
    )


def check_sealed(journal: Journal, seals: Seals, findings: Findings) -> None:
    """Every seal that the journal tells of must be there, as it was. Raises OSError."""
    told = {str(event.facts.get("seal")): event for event in journal.named("sealed")}
    missing = {digest: event for digest, event in told.items() if seals.find(digest) is None}
    for digest, event in missing.items():
        step = event.facts.get("step")
        # A seal of the same step that the journal does not tell of took its place.
        changed = [
            findings.name(file.path)
            for file in seals.files.values()
            if file.record.step == step and file.digest not in told
        ]
        if changed:
            what = f"it is not the seal {digest[:32]} that {NAME} line {event.line} tells of"
            findings.fault(changed[0], what)
        elif not any(path.name == f"step_{step:06}.seal.json" for path in seals.bad):
            what = f"the seal {digest[:32]} of step {step} that it tells of is gone"
            findings.fault(NAME, what, event.line)


class Replays(NamedTuple):
    """Steps that ran again and were equal, with and without a digest of their data.

    ``differed`` are (attempt, step) pairs from which on they were not.
    """

    replays: int
    proved: int
    consistent: int
    differed: tuple[tuple[int, int], ...]


def check_replays(journal: Journal, ledger: Audit | None, findings: Findings) -> Replays:
    """Add up each replay once; its steps must stand in the ledger, written by earlier attempts."""
    told: dict[tuple[int, int, int], tuple[int, int]] = {}
    for event in journal.named("replay"):
        numbers = _numbers(event.facts, ("attempt", "first", "last", "proved", "consistent"))
        if numbers is None:
            findings.fault(NAME, "a replay without its numbers", event.line)
            continue
        attempt, first, last, proved, consistent = numbers
        told[attempt, first, last] = (proved, consistent)
        if proved + consistent > max(0, last - first + 1):
            findings.fault(NAME, f"more steps proved than {first} to {last} are", event.line)
        elif ledger is not None and last >= first and not _holds(ledger, attempt, first, last):
            what = f"steps {first} to {last} ran again, and the ledger has not all of them"
            findings.fault(NAME, what, event.line)
    differed = {
        (pair[0], pair[1])
        for event in journal.named("replay-differed")
        if (pair := _numbers(event.facts, ("attempt", "step"))) is not None
    }
    return Replays(
        len(told),
        sum(proved for proved, _ in told.values()),
        sum(consistent for _, consistent in told.values()),
        tuple(sorted(differed)),
    )


def _holds(ledger: Audit, attempt: int, first: int, last: int) -> bool:
    """Whether attempts before this one had written these steps."""
    earlier = [lines for lines in ledger.attempts if lines.attempt < attempt]
    return any(lines.first_step <= first for lines in earlier) and any(
        lines.last_step >= last for lines in earlier
    )


def _numbers(facts: dict[str, Any], names: Sequence[str]) -> list[int] | None:
    found = [facts.get(name) for name in names]
    return found if all(type(value) is int for value in found) else None  # type: ignore[return-value] # as just seen
