"""Begin a run with the weights and moments of other software, whose files are only read.

The old loss file is kept in ``origin/``, and its digest stands in the first line of the ledger. The
newest good checkpoints that it covers are sealed as the beginning of our lineage; they have no
companions, so training goes on exactly but for the order of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import file_digest
from pathlib import Path
from typing import Any, NamedTuple

from supervisor import clock
from supervisor.core.bandit import BanditState
from supervisor.core.messages import Verdict
from supervisor.errors import StepkeeperError, UsageError
from supervisor.perform import building
from supervisor.perform.forking import ORIGIN
from supervisor.perform.unattended import by
from supervisor.sidecars import bandit_state, old_losses
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.checkpoints.seals import Bin, EventsAt, LedgerAt, Replay, ReportsAt
from supervisor.sidecars.checkpoints.verifying import read_back
from supervisor.sidecars.events import Events
from supervisor.sidecars.ledger import SUFFIX
from supervisor.sidecars.old_losses import OldLosses
from trainer.contract.checkpoint_format import form_of, n_params_of, step_of
from trainer.contract.durable import AppendFile

REASON = "import"
NO_POLICY = 0  # which is none of ours: the first one begins with an empty bandit
MOST = 5  # as many as retention keeps of them at first


class Old(NamedTuple):
    """What was found of the old run: its loss file, and its checkpoints, the newest first.

    ``ahead`` are those of steps that the loss file does not reach, ``others`` those of formats that
    hold more than other software's files can be known to.
    """

    folder: Path
    losses_path: Path
    losses: OldLosses
    checkpoints: tuple[Path, ...]
    ahead: tuple[Path, ...]
    others: tuple[Path, ...]

    @property
    def name(self) -> str:
        """What its sidecars are called."""
        return self.losses_path.name.removesuffix(SUFFIX)


class Imported(NamedTuple):
    """What came of it: steps sealed, newest first; what was passed over and why; parameters."""

    run_id: str
    steps: tuple[int, ...]
    refused: tuple[tuple[str, str], ...]
    n_params: int


def read_old(folder: Path) -> Old:
    """Look through a folder and its ``checkpoints/``. Raises UsageError, OSError."""
    if not folder.is_dir():
        raise UsageError(f"cannot import {folder}: it is no directory")
    if (folder / "run.toml").is_file():
        raise UsageError(f"cannot import {folder}: it is a run of stepkeeper; see stepkeeper fork")
    losses = sorted(folder.glob(f"*{SUFFIX}"))
    if len(losses) != 1:
        found = ", ".join(path.name for path in losses) or "none"
        raise UsageError(f"cannot import {folder}: expected one *{SUFFIX}, found {found}")
    read = old_losses.read(losses[0])
    there = [
        path
        for place in (folder / "checkpoints", folder)
        for path in sorted(place.glob("step_*"), reverse=True)
        if step_of(path.name) is not None
    ]
    bins = {step_of(path.name) or 0: path for path in there if form_of(path.name) == "bin"}
    others = tuple(path for path in there if form_of(path.name) != "bin")
    ordered = [bins[step] for step in sorted(bins, reverse=True)]
    covered = tuple(path for path in ordered if (step_of(path.name) or 0) <= read.last)
    if not bins and others:
        raise UsageError(
            f"cannot import {folder}: {others[0].name} is of the format {form_of(others[0].name)}; "
            "of other software's files only step_NNNNNN.bin can be brought in"
        )
    if not covered:
        raise UsageError(
            f"cannot import {folder}: it has no step_NNNNNN.bin of a step that {losses[0].name} "
            f"reaches; its last step is {read.last}"
        )
    ahead = tuple(ordered[: len(ordered) - len(covered)])
    return Old(folder, losses[0], read, covered, ahead, others)


def bring_in(old: Old, target: Path, settings: Callable[[Path, int, int], None]) -> Imported:
    """Make the run in ``target``; ``settings`` writes its settings (folder, step, n_params).

    Raises StepkeeperError where no checkpoint is good, OSError; then nothing is left.
    """
    with building.building(target) as place:
        verdicts, refused = _checkpoints(old, building.folder(place, "checkpoints"))
        newest = verdicts[0]
        settings(place, newest.step, n_params_of(newest.bytes))
        origin = building.folder(place, ORIGIN) / old.losses_path.name
        building.copy(old.losses_path, origin)
        if old_losses.read(origin) != old.losses:
            raise StepkeeperError(f"cannot import {old.losses_path}: it changes meanwhile")
        run_id = _records(place, old, verdicts)
        AppendFile(place / old.losses_path.name, create=True).close()
    return Imported(
        run_id, tuple(v.step for v in verdicts), tuple(refused), n_params_of(newest.bytes)
    )


def _checkpoints(old: Old, folder: Path) -> tuple[list[Verdict], list[tuple[str, str]]]:
    """Copy and read back the newest good ones. Raises StepkeeperError where there is none."""
    good: list[Verdict] = []
    refused = [(path.name, f"{old.losses_path.name} ends before it") for path in old.ahead]
    refused += [(path.name, "only a .bin can be brought in") for path in old.others]
    for path in old.checkpoints:
        if len(good) == MOST:
            break
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        building.copy(path, folder / path.name)
        verdict = read_back(folder, path.name, digest, companion=False)
        problem = verdict.problem
        if not problem and good and verdict.bytes != good[0].bytes:
            problem = f"{n_params_of(verdict.bytes)} parameters, unlike {good[0].name}"
        if problem:
            refused.append((path.name, problem.replace(f"{folder}/", "")))
            (folder / path.name).unlink()
        else:
            good.append(verdict)
    if not good:
        why = "; ".join(f"{name}: {problem}" for name, problem in refused)
        raise StepkeeperError(f"cannot import {old.folder}: no checkpoint of it is good: {why}")
    return good, refused


def _records(place: Path, old: Old, verdicts: list[Verdict]) -> str:
    """Journal and seals, the oldest first, each naming the one before."""
    events = Events.open(place / "events.jsonl")
    try:
        run_id = building.name_run(events, f"import:{old.losses.sha256}")
        facts: dict[str, Any] = {"path": str(old.folder), "name": old.losses_path.name, "by": by()}
        facts |= {"losses": old.losses._asdict(), "steps": [v.step for v in verdicts]}
        events.append("imported", facts, clock.wall())
        previous = ""
        for verdict in reversed(verdicts):
            events.sync()
            record = SealRecord(
                step=verdict.step,
                attempt=0,
                bin=Bin(verdict.name, verdict.sha256, verdict.bytes),
                companion="",
                previous=previous,
                ledger=LedgerAt(0, 0, building.NO_LINE, verdict.step),
                reports=ReportsAt(0, 0, 0),
                events=EventsAt(*events.head),
                policy=NO_POLICY,
                bandit=bandit_state.to_record(BanditState(NO_POLICY, "", ())),
                sample=None,
                reason=REASON,
                save=None,
                replay=Replay(0, 0),
                time=clock.wall(),
            )
            building.seal(place, events, record)
            previous = record.digest
        events.sync()
    finally:
        events.close()
    return run_id
