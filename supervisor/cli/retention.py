"""What retention will do next: ``checkpoints --dry-run``."""

from __future__ import annotations

from pathlib import Path

from supervisor.cli import printing
from supervisor.cli.standing import name_of
from supervisor.config import load
from supervisor.core.coherence.episodes import suspected
from supervisor.core.coherence.gate import NOTHING_SAMPLED, GateState
from supervisor.core.messages import Retain
from supervisor.core.retention import Fate, Held
from supervisor.perform.retaining import survey
from supervisor.sidecars import attempts, samples

_NEXT = "the next seal"


def forecast(run: Path) -> tuple[Fate, ...]:
    """The fate of every checkpoint when the next checkpoint of the cadence is sealed.

    Raises StepkeeperError, OSError.
    """
    settings = load(run).settings
    last = attempts.last(run)
    number = last.attempt if last is not None else 1
    resume = last.resume.seal if last is not None and last.resume is not None else ""
    if last is not None and last.ended is not None:  # the next seal is of another attempt
        resume, number = _newest(run), number + 1
    coming = Held(2**62, _NEXT, 0, attempt=number)
    latest = Retain(number, resume, suspected(_gate(run), settings.gate))
    fates = survey(run, settings.retention, latest, more=(coming,))
    return tuple(fate for fate in fates if fate.held.name != _NEXT)


def _gate(run: Path) -> GateState:
    path = run / f"{name_of(run)}.samples.json"
    return samples.state_of(samples.read(path).gate) if path.exists() else NOTHING_SAMPLED


def _newest(run: Path) -> str:
    """The seal that the next attempt resumes from, or empty."""
    from supervisor.sidecars.checkpoints import scan  # noqa: PLC0415 - only for an ended attempt

    newest = scan(run / "checkpoints").newest()
    return newest[0].digest if newest else ""


def tell(run: Path, *, as_json: bool) -> int:
    """Print what the next seal deletes and why the others stay; 0."""
    fates = forecast(run)
    going = sum(fate.held.bytes for fate in fates if fate.goes)
    if as_json:
        facts = [
            {
                "step": fate.held.step,
                "name": fate.held.name,
                "bytes": fate.held.bytes,
                "goes": fate.goes,
                "why": fate.why,
            }
            for fate in fates
        ]
        printing.emit({"checkpoints": facts, "frees": going})
        return 0
    if not fates:
        printing.say("no checkpoint yet")
        return 0
    rows = [
        [
            str(fate.held.step),
            "goes" if fate.goes else "stays",
            printing.bytes_text(fate.held.bytes),
            fate.why,
            fate.held.name,
        ]
        for fate in fates
    ]
    printing.say(printing.table(("step", "", "size", "why", "file"), rows))
    goes = sum(fate.goes for fate in fates)
    printing.say(f"the next seal deletes {goes} of {len(fates)}: {printing.bytes_text(going)}")
    return 0
