"""``prove RUN``: a run's own trainer, cut and resumed on copies, whole and without each state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor import clock
from supervisor.cli import printing, standing
from supervisor.cli.proving_plan import Plan, plan, refuse_without_room
from supervisor.cli.proving_stage import stage
from supervisor.cli.proving_trial import Trial
from supervisor.cli.proving_view import View, report
from supervisor.core.combination import differences, identities
from supervisor.core.resume_verdict import (
    FAILED,
    PROVED,
    Comparison,
    Control,
    repeats,
    shares,
    verdict,
)
from supervisor.errors import StepkeeperError, UnknownError, UsageError
from supervisor.perform import scratch_runs, unattended
from supervisor.perform.scratch_runs import Origin
from supervisor.process.fingerprint import fingerprint
from supervisor.sidecars import kept_settings
from supervisor.sidecars.checkpoints import SealError, scan
from supervisor.sidecars.events import created
from supervisor.sidecars.resume_proof import (
    NAME,
    ComparisonModel,
    ControlModel,
    ProofModel,
    StepsModel,
    encode,
)
from trainer.contract.checkpoint_format import (
    CheckpointFormatError,
    companion_of,
    read_companion,
)
from trainer.contract.durable import write_file


def prove_run(
    run: Path,
    output: Path | None,
    *,
    steps: int | None = None,
    at: int | None = None,
    beside: bool = False,
    as_json: bool = False,
) -> int:
    """Prove that ``run`` resumes exactly, keep the verdict in it, and tell it.

    Exit 0 proved, 1 a comparison failed. Raises UnknownError where it could not be told.
    """
    unattended.refuse_a_stranger(run, "prove")
    text = (run / "run.toml").read_bytes()
    chosen = plan(run, steps, at)
    view = View(quiet=as_json)
    _mind_the_device(run, text, view, beside=beside)
    view.say(f"proving {printing.plain(run)} {chosen.in_words()}")
    if chosen.training:
        view.say(f"   about {printing.duration(chosen.training)} of training, and nine starts")
    origin = Origin(run, standing.name_of(run), text.decode("utf-8"))
    try:
        with stage(run, output) as place:
            refuse_without_room(place, chosen.start)
            before = fingerprint(run, text)

            def unchanged() -> None:
                _refuse_changes(run, before, fingerprint(run, text))

            trial = Trial(origin, chosen, place, view, unchanged, keep=output is not None)
            trial.take_place()
            record = _record(run, before, trial)
            scratch_runs.store(run, record)
            if output is not None:
                write_file(place / NAME, encode(record))
    except (CheckpointFormatError, SealError) as error:
        raise UnknownError(f"cannot prove {run}: {error}") from None
    except StepkeeperError as error:  # 1 is for a comparison that failed
        raise error if error.exit_code != 1 else UnknownError(str(error)) from None
    view.clear()
    if as_json:
        facts = record.model_dump(mode="json", exclude={"schema_", "run"})
        printing.emit({"run": str(run), "proved": record.verdict == PROVED, **facts})
    else:
        printing.say(report(record))
    if record.verdict not in (PROVED, FAILED):
        raise UnknownError(f"cannot prove {run}: {record.why}")
    return 0 if record.verdict == PROVED else 1


def _refuse_changes(run: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise UnknownError where some lives were of other code than others."""
    if changed := differences(before, after):
        raise UnknownError(f"cannot prove {run}: it was changed meanwhile: {changed[0]}")


def _record(run: Path, before: dict[str, Any], trial: Trial) -> ProofModel:
    events = run / "events.jsonl"
    first = created(events) if events.exists() else None
    chosen: Plan = trial.plan
    told = trial.companion.identities if trial.companion is not None else {}
    lives = (trial.repeated, trial.resumed, trial.controls)
    word, why = verdict(*lives, repeats=repeats(told))
    return ProofModel(
        run=str(first.facts["run"]) if first is not None else "",
        verdict=word,
        why=why,
        steps=StepsModel(start=chosen.began, cut=trial.cut_at, last=trial.last),
        seal=chosen.start.seal.digest if chosen.start is not None else "",
        combination={**before, "identities": identities(told)},
        repeated=tuple(map(_comparison, trial.repeated)),
        resumed=tuple(map(_comparison, trial.resumed)),
        controls=tuple(map(_control, trial.controls)),
        by=unattended.by(),
        time=clock.wall(),
    )


def _comparison(one: Comparison) -> ComparisonModel:
    return ComparisonModel(**one._asdict())


def _control(one: Control) -> ControlModel:
    return ControlModel(**one._asdict())


def _mind_the_device(run: Path, text: bytes, view: View, *, beside: bool) -> None:
    """Raise UsageError where two trainers would share a GPU and nobody asked for that."""
    if standing.supervised(run) and kept_settings.newest(run) not in (None, text):
        view.note("run.toml is not what is in force: what the next start would train is proved")
    if not standing.trained(run):
        return
    shared = shares(fingerprint(run, text)["devices"], _device(run))
    if shared and not beside:
        raise UsageError(
            f"cannot prove {run} while it trains: a second trainer would share {shared} with it and"
            " may find no memory there; stop the run first, or give --beside"
        )
    view.note("the run trains meanwhile: the proof takes processor and memory from it")


def _device(run: Path) -> Any:  # noqa: ANN401 - whatever a trainer says of itself
    """What the newest companion names as the device, or None."""
    for seal in scan(run / "checkpoints").newest(1):
        path = run / "checkpoints" / companion_of(seal.step)
        if seal.companion and path.exists():
            told = read_companion(path.read_bytes(), str(path)).identities
            return (told.get("versions") or {}).get("device")
    return None
