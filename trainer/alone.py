"""Training without a supervisor: the same loop, with a terminal for reports and no orders."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

from trainer import clock
from trainer.contract.wire import Orders, PhaseOrder, ReportName
from trainer.errors import RefusedError, SettingsError
from trainer.launch import Launch

_TAKING = 2.0
_ENDLESS = 10**9


def take_run(launch: Launch) -> int:
    """Make sure that nobody else trains or keeps this run; returns the lock's descriptor.

    The lock lasts as long as the process. Raises RefusedError.
    """
    ledgers = sorted(launch.run.glob("*.loss.json"))
    if ledgers and launch.output is None:
        raise RefusedError(
            f"cannot train alone in {launch.run}: its ledger {ledgers[0].name} would miss these "
            "steps; use stepkeeper run, or give --output DIR"
        )
    path = launch.run / "trainer.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    until = clock.seconds() + _TAKING
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if clock.seconds() > until:
                os.close(descriptor)
                holder = _holder(path)
                raise RefusedError(
                    f"cannot train in {launch.run}: {holder} holds trainer.lock; stop it first"
                ) from None
            clock.pause(0.05)
        else:
            return descriptor


def _holder(path: Path) -> str:
    """Who holds the lock, as far as the kernel tells."""
    inode = path.stat().st_ino
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        fields = line.split()
        if "FLOCK" in fields and any(field.endswith(f":{inode}") for field in fields):
            return f"process {fields[4]}"
    return "another process"


class Progress:
    """Reports for a person: a line for each checkpoint and each sample, and steps now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def send(self, report: ReportName, **fields: object) -> None:
        """Print what a person wants to see."""
        match report:
            case "step" if clock.seconds() >= self._next:
                self._next = clock.seconds() + 1.0
                loss = fields["loss"]
                shown = f"{loss:.4f}" if isinstance(loss, float) else fields["nonfinite"]
                self._print(f"step {fields['step']}  loss {shown}  {fields['arm']}")
            case "checkpoint":
                self._print(f"step {fields['step']}  wrote {fields['name']} ({fields['reason']})")
            case "sample":
                self._print(f"step {fields['step']}  {fields['prompt']!r} -> {fields['text']!r}")
            case "evaluation":
                self._print(f"step {fields['step']}  kept-out loss {fields['losses']}")
            case "ready":
                self._print(
                    f"{fields['n_params']} parameters, going on after step {fields['step']}"
                )
            case "finished":
                self._print(f"finished at step {fields['step']}: {fields['reason']}")
            case _:
                pass

    def sync(self) -> None:
        """Nothing here lasts."""

    @staticmethod
    def _print(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class UniformOrders:
    """One phase without an end, all arms alike."""

    def __init__(self, arms: tuple[str, ...]) -> None:
        weights = tuple((arm, 1.0 / len(arms)) for arm in arms)
        self.now = Orders(0, (PhaseOrder(1, _ENDLESS, weights),), None, None)

    def look(self) -> str:
        """Nothing ever changes."""
        return ""


def choose_arms(sources: tuple[str, ...], policy: tuple[str, ...] | None) -> tuple[str, ...]:
    """The policy's arms where there is a policy, else all sources. Raises SettingsError."""
    chosen = tuple(name for name in sources if policy is None or name in policy)
    if not chosen:
        raise SettingsError(
            f"cannot train: policy.toml names none of the sources {', '.join(sources)}"
        )
    return chosen
