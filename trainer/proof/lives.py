"""The four lives of a proof, as their folders hold them, and whether they are those four."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from trainer.errors import SettingsError
from trainer.proof import facts, storing
from trainer.proof.experiment import Experiment
from trainer.proof.facts import plain
from trainer.proof.held import ContradictionError
from trainer.proof.life import SCHEMA, SUMMARY

CONTINUOUS: Final = "continuous"
CUT: Final = "cut"
RESUMED: Final = "resumed"
WITHOUT_RNG: Final = "without-rng"
NAMES: Final = (CONTINUOUS, CUT, RESUMED, WITHOUT_RNG)


class Lives(NamedTuple):
    """``summaries`` and what the checkpoint ``files`` hold, each by the life's name.

    The cut is after update ``cut``, the end after update ``last``.
    """

    form: str
    summaries: dict[str, Any]
    files: dict[str, Any]
    cut: int
    last: int


def read(folder: Path, form: str) -> Lives:
    """Read the four of one format. Raises SettingsError for what is missing or is another life."""
    summaries = {name: _summary(folder / form / name, form) for name in NAMES}
    cut, last = (len(summaries[name]["history"]) for name in (CUT, CONTINUOUS))
    ends = [len(summaries[name]["history"]) for name in (RESUMED, WITHOUT_RNG)]
    if not 0 < cut < last or ends != [last, last]:
        counts = ", ".join(f"{name} {len(summaries[name]['history'])}" for name in NAMES)
        raise SettingsError(f"cannot verify {folder / form}: updates at the end: {counts}")
    for name, generators in zip(NAMES, (None, None, True, False), strict=True):
        resumed = summaries[name]["resumed"]
        if (resumed["rng"] if resumed else None) is not generators:
            raise SettingsError(f"cannot verify {folder / form / name}: it is another life")
    files = {name: _file(folder / form / name, summaries[name], form) for name in NAMES}
    return Lives(form, summaries, files, cut, last)


def _summary(folder: Path, form: str) -> dict[str, Any]:
    path = folder / SUMMARY
    try:
        summary = facts.read(path)
        schema, found = summary["schema"], summary["format"]
        lists = isinstance(summary["history"], list)
        resumed = summary["resumed"]
        resumed_fits = resumed is None or isinstance(resumed["rng"], bool)
        name = summary["checkpoint"]["name"]
    except OSError as error:
        raise SettingsError(f"cannot verify {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise SettingsError(f"cannot verify {path}: {type(error).__name__}: {error}") from None
    if (schema, found) != (SCHEMA, form) or not (lists and resumed_fits):
        text = f"expected {SCHEMA} of format {form}, found {schema} of format {found}"
        raise SettingsError(f"cannot verify {path}: {text}")
    if Path(str(name)).name != name:
        raise SettingsError(f"cannot verify {path}: its checkpoint lies elsewhere: {name}")
    return summary


def _file(folder: Path, summary: dict[str, Any], form: str) -> dict[str, Any]:
    """The checkpoint, loaded as a resume would: its state, history and digests, or why not."""
    experiment = Experiment(storing.dtype_of(form))
    try:
        stored = storing.load(folder / summary["checkpoint"]["name"], experiment)
    except ContradictionError as error:
        return {"refused": str(error)}
    return {
        "state": experiment.snapshot(),
        "history": plain(experiment.history),
        "checkpoint": stored._asdict(),
    }
