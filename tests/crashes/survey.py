"""Go through a recording, make every state of every moment, and count what becomes of each.

A state is counted in the row of each artefact that is in it not as last written, and in the row of
the artefact that the last operation before it touched.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from supervisor.process.identity import boot_id
from tests.crashes.artefacts import ROWS, artefact
from tests.crashes.life import Recording
from tests.crashes.recovering import Broken, Floor, Truth, examine, floor_of, put
from tests.support.crash_fs import Chosen, Disk, Operation
from tests.support.crash_fs.states import bare, choices_of, state_of
from trainer.contract.wire import Step, read_report

Judge = Callable[[Path, Truth, Floor], str]
SHOWN = 10


class State(NamedTuple):
    """One state: the operation after which the crash came, and what it must not fall below."""

    at: int
    chosen: Chosen
    floor: Floor
    rows: frozenset[str]


@dataclass
class Tally:
    """Counts by artefact; ``total`` counts each state once. ``examples`` are the first failures."""

    operations: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    recovered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take another part's counts in; the operations are the same in every part."""
        for name in ("states", "recovered", "refused", "failed", "reasons"):
            getattr(self, name).update(getattr(other, name))
        self.operations = other.operations
        self.examples = [*self.examples, *other.examples][:SHOWN]

    def to_json(self) -> str:
        """As text, for another process."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> Tally:
        """The same back again."""
        found = json.loads(text)
        counts = {name: Counter(found[name]) for name in found if name != "examples"}
        return cls(**counts, examples=found["examples"])


TOTAL = "all"


def truth_of(recording: Recording) -> Truth:
    """Every step as its trainer reported it."""
    steps: dict[int, Step] = {}
    for path, data in sorted(recording.end.items()):
        if path.endswith("reports.jsonl") and data:
            reports = map(read_report, data.split(b"\n")[:-1])
            steps |= {report.step: report for report in reports if isinstance(report, Step)}
    return Truth(steps, boot_id().encode("ascii"), recording.form)


def states(recording: Recording, depth: int, part: int = 1, first: int = 0) -> Iterator[State]:
    """Each distinct state, in the order of the moments; or of each ``part``-th choice only."""
    disk = Disk(recording.start)
    seen: set[bytes] = set()
    number = -first
    for at, done in enumerate(recording.operations):
        touched = artefact(disk.apply(done))
        floor = None
        axes, all_of_them = choices_of(disk, depth)
        start = -number % part
        number += len(all_of_them)
        for choice in all_of_them[start::part]:
            chosen = state_of(disk, axes, choice)
            if chosen.digest in seen:
                continue
            seen.add(chosen.digest)
            floor = floor or _floor(disk)
            rows = {touched, *(artefact(path) for path in chosen.lost)}
            yield State(at, chosen, floor, frozenset(rows))


def choices(recording: Recording, depth: int) -> int:
    """How many states there are, those that come out equal counted each time."""
    disk = Disk(recording.start)
    count = 0
    for done in recording.operations:
        disk.apply(done)
        count += len(choices_of(disk, depth)[1])
    return count


def _floor(disk: Disk) -> Floor:
    """What is durable; a seal on its way out of the folder may be there or not."""
    durable, newest = floor_of(bare(disk).content), floor_of(disk.content())
    return durable._replace(seal=min(durable.seal, newest.seal))


def operations_by_artefact(recording: Recording) -> Counter[str]:
    """How many of the recorded operations touched what."""
    disk = Disk(recording.start)
    counted = Counter(artefact(disk.apply(done)) for done in recording.operations)
    counted[TOTAL] = len(recording.operations)
    return counted


def judge(
    recording: Recording,
    found: Iterable[State],
    judging: Judge = examine,
    keep: Path | None = None,
    patience: int = 1 << 30,
) -> Tally:
    """Put each state on a disk and have it judged, until ``patience`` of them failed or
    were refused: no state is one that a start may refuse.

    ``keep`` is where their directories stay.
    """
    tally = Tally(operations=operations_by_artefact(recording))
    truth = truth_of(recording)
    memory = Path("/dev/shm")  # noqa: S108 - memory, where a thousand small files cost nothing
    place = memory if memory.is_dir() else None
    made = tempfile.TemporaryDirectory(prefix="stepkeeper-crashes-", dir=place)
    with nullcontext(str(keep)) if keep else made as folder:
        for number, state in enumerate(found):
            run = Path(folder) / ("run" if keep is None else f"state-{number}")
            put(run, state.chosen, truth)
            _judge_one(tally, state, recording.operations[state.at], judging, (run, truth))
            if tally.failed[TOTAL] + tally.refused[TOTAL] >= patience:
                break
    return tally


def _judge_one(
    tally: Tally, state: State, done: Operation, judging: Judge, given: tuple[Path, Truth]
) -> None:
    rows = (*state.rows, TOTAL)
    tally.states.update(rows)
    try:
        reason = judging(*given, state.floor)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure to be counted
        tally.failed.update(rows)
        what = str(error) if isinstance(error, Broken) else repr(error)
        lost = ", ".join(state.chosen.lost) or "nothing"
        tally.examples.append(f"after operation {state.at} ({done.kind}), lost: {lost}: {what}")
        return
    if reason:
        tally.refused.update(rows)
        tally.reasons[re.sub(r"\d+", "N", reason)] += 1
    else:
        tally.recovered.update(rows)


def table(tally: Tally) -> str:
    """The counts, one row for each artefact, the total last."""
    head = ("artefact", "operations", "states", "recovered", "refused", "failed")
    rows = [head]
    for row in (*ROWS, TOTAL):
        counts = (tally.operations, tally.states, tally.recovered, tally.refused, tally.failed)
        rows.append((row, *(f"{count[row]:,}" for count in counts)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )
