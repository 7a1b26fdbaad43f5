"""What effects act on: the open files, the paths and the trainer of one run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from supervisor.config import Config
from supervisor.perform.hooks import Hooks
from supervisor.perform.reserve import Reserve
from supervisor.process.child import Child
from supervisor.process.identity import Identity
from supervisor.sidecars.events import Events
from supervisor.sidecars.ledger import Ledger
from supervisor.sidecars.samples import Samples


@dataclass(slots=True)
class Parts:
    """Opened in order by the daemon; used by the writer thread alone while it runs.

    ``newest_seal`` is the digest of the seal that the next one follows, ``newest_bytes`` the size
    of its checkpoint; ``trainers`` are the identities whose leftovers are ended before an attempt.
    ``deletions`` give back the blocks of what was deleted. ``hooks`` hear of the journal's lines.
    """

    config: Config
    run_id: str
    ledger: Ledger
    events: Events
    samples: Samples
    newest_seal: str
    newest_bytes: int = 0
    child: Child | None = None
    trainers: tuple[Identity, ...] = ()
    deletions: list[Thread] = field(default_factory=list)
    hooks: Hooks = field(default_factory=Hooks)

    @property
    def reserve(self) -> Reserve:
        """The ballast."""
        return Reserve(self.config.run, self.config.disk.reserve)

    @property
    def run(self) -> Path:
        """The run directory."""
        return self.config.run

    @property
    def checkpoints(self) -> Path:
        """The checkpoints' folder."""
        return self.config.run / "checkpoints"
