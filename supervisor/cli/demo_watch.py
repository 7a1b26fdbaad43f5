"""What the demo shows and claims, read from the run's files and from nowhere else."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter, deque
from pathlib import Path
from typing import Any

from supervisor import clock
from supervisor.cli.demo_settings import NAME
from supervisor.cli.plot import ALPHA
from supervisor.sidecars import attempts
from supervisor.sidecars.attempts import AttemptModel
from supervisor.sidecars.checkpoints import SealRecord, scan
from supervisor.sidecars.events import EventLine, read
from supervisor.sidecars.ledger import canonical
from supervisor.sidecars.tailing import follow

_RATE_SECONDS = 5.0
_RECENT = 50  # steps whose sequences are counted
_LAST_BYTES = 1 << 13

Facts = dict[str, Any]


class Watch:
    """A reader of one run: ``look`` takes in what is new, the rest answers from the files."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.ledger = run / f"{NAME}.loss.json"
        self.step = 0
        self.loss: float | None = None
        self.rate = 0.0
        self.trainer_step = 0
        self._offset = 0
        self._served: deque[Counter[str]] = deque(maxlen=_RECENT)
        self._paces: deque[tuple[float, int]] = deque()

    def look(self) -> None:
        """Take in the ledger's new lines and the trainer's newest report."""
        with contextlib.suppress(FileNotFoundError):
            while True:
                found = follow(self.ledger, self._offset)
                for line in found.lines:
                    self._take(json.loads(line))
                if found.offset == self._offset:
                    break
                self._offset = found.offset
        self.trainer_step = max(self.step, self._last_report())
        now = clock.monotonic()
        self._paces.append((now, self.trainer_step))
        while now - self._paces[0][0] > _RATE_SECONDS:
            self._paces.popleft()
        seconds = now - self._paces[0][0]
        self.rate = (self.trainer_step - self._paces[0][1]) / seconds if seconds else 0.0

    def _take(self, line: Facts) -> None:
        self.step = line["step"]
        self._served.append(served(line["arm"]))
        if (loss := line["loss"]) is not None:
            self.loss = loss if self.loss is None else self.loss + ALPHA * (loss - self.loss)

    def _last_report(self) -> int:
        """The newest step that the trainer of the newest attempt has reported, 0 without one."""
        numbers = attempts.numbers(self.run)
        if not numbers:
            return 0
        path = attempts.folder(self.run, numbers[-1]) / "reports.jsonl"
        for line in reversed(_last_lines(path)):
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if record.get("report") == "step":
                    return int(record["step"])
        return 0

    @property
    def shares(self) -> dict[str, float]:
        """The share of each arm in the newest steps, by name."""
        counts = sum(self._served, Counter[str]())
        return {arm: counts[arm] / counts.total() for arm in sorted(counts)}

    def attempt(self) -> AttemptModel | None:
        """The record of the newest attempt."""
        return attempts.last(self.run)

    def events(self, name: str) -> list[Facts]:
        """The facts of every event of that name, the first one first."""
        path = self.run / "events.jsonl"
        if not path.exists():
            return []
        return [e.facts for e in read(path) if isinstance(e, EventLine) and e.event == name]

    def seals(self, n: int = 1) -> tuple[SealRecord, ...]:
        """The newest sealed checkpoints of the lineage, the newest first."""
        folder = self.run / "checkpoints"
        return scan(folder).newest(n) if folder.is_dir() else ()

    def losses(self) -> list[tuple[int, float | None]]:
        """Step and loss of every canonical line."""
        return [(e.fields["step"], e.fields["loss"]) for e in canonical(self.ledger)]

    def lines(self) -> list[Facts]:
        """Every whole line of the ledger in file order, voided ones too."""
        data = self.ledger.read_bytes()
        return [json.loads(line) for line in data.split(b"\n")[:-1]]

    def last_sample(self) -> str:
        """The newest text that the model wrote, or empty."""
        try:
            record = json.loads((self.run / f"{NAME}.samples.json").read_bytes())
            newest = record["samples"][-1]
        except (OSError, ValueError, LookupError):
            return ""
        return f"{newest['prompt']}{newest['text']}"


def served(arm: str) -> Counter[str]:
    """Sequences by arm, of the ledger's field ``a=3 b=13``; a name alone served a whole step."""
    if "=" not in arm:
        return Counter({arm: 1})
    counts = (part.partition("=") for part in arm.split(" "))
    return Counter({name: int(count) for name, _, count in counts})


def _last_lines(path: Path) -> list[bytes]:
    """The whole lines among the last few kilobytes of a file that may not be there yet."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LAST_BYTES))
            return file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
