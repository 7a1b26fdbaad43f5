"""Every comparison of a verdict, each with what was held against what, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final, NamedTuple

from trainer.proof.comparing import TOLERANCE, Difference, compare
from trainer.proof.lives import CONTINUOUS, CUT, NAMES, RESUMED, WITHOUT_RNG, Lives

LINES: Final = {
    "rows": "row identifiers",
    "lr": "learning rates applied",
    "next_lr": "next learning rates",
    "loss": "losses",
}
OWN: Final = {"parameters": "parameters", "next_draws": "next draws"}
STATES: Final = {
    "parameters": "parameters",
    "optimizer": "optimizer state",
    "scheduler": "scheduler",
    "next_lr": "next learning rate",
    "mse": "MSE",
    "evaluation": "evaluation output",
    "next_draws": "next draws",
    "progress": "progress",
}
BEGIN, BEFORE, RESTORED, AFTER, END, SAVED = (
    "the beginning",
    "updates up to the cut",
    "what was restored",
    "updates after the cut",
    "the end",
    "the checkpoint",
)
_Side = Callable[[], Any]


class Check(NamedTuple):
    """``part`` of ``life`` was compared, ``key`` as the files name it, ``what`` in words.

    ``deviation`` is the largest absolute one of all its numbers, None where there is none to give;
    ``why`` names the first place that does not agree, or is empty.
    """

    life: str
    part: str
    key: str
    what: str
    passed: bool
    deviation: float | None
    why: str

    @property
    def diverges(self) -> bool:
        """Whether its numbers are seen to be apart: more than that they cannot be compared."""
        return self.deviation is not None and self.deviation > TOLERANCE


def pick(record: Any, *keys: str) -> Any:  # noqa: ANN401 - any state
    """The part of a plain state. Raises LookupError or TypeError where it is missing."""
    for key in keys:
        record = record[key]
    return record


def same_experiment(lives: Lives) -> list[Check]:
    """All lives are of one code, data, settings and versions, and both resumes of that cut."""
    first, cut = lives.summaries[CONTINUOUS], lives.summaries[CUT]
    of_all = partial(pick, first, "identities")
    saved = partial(pick, cut, "checkpoint", "files")
    checks = [
        _check(
            (name, BEGIN, "identities", "settings, code, data, versions"),
            partial(pick, lives.summaries[name], "identities"),
            of_all,
        )
        for name in NAMES[1:]
    ]
    checks += [
        _check(
            (name, BEGIN, "files", "checkpoint resumed"),
            partial(pick, lives.summaries[name], "resumed", "files"),
            saved,
        )
        for name in (RESUMED, WITHOUT_RNG)
    ]
    return checks


def updates(lives: Lives, name: str) -> list[Check]:
    """Update by update against the uninterrupted life: those that this life made itself."""
    cut = name == CUT
    part = BEFORE if cut else AFTER
    steps = range(1, lives.cut + 1) if cut else range(lives.cut + 1, lives.last + 1)
    columns = [("history", key, what) for key, what in LINES.items()]
    columns += [("own", key, what) for key, what in OWN.items()]
    return [
        _check(
            (name, part, key, what),
            partial(_column, lives.summaries[name], source, key, steps),
            partial(_column, lives.summaries[CONTINUOUS], source, key, steps),
        )
        for source, key, what in columns
    ]


def restored(lives: Lives, name: str) -> list[Check]:
    """What stood in memory right after the load, against what was saved at the cut."""
    return [
        _check(
            (name, RESTORED, key, what),
            partial(pick, lives.summaries[name], "resumed", "state", key),
            partial(pick, lives.summaries[CUT], "final", key),
        )
        for key, what in STATES.items()
    ]


def end(lives: Lives, name: str) -> list[Check]:
    """All states after the last update, against the uninterrupted life."""
    return [
        _check(
            (name, END, key, what),
            partial(pick, lives.summaries[name], "final", key),
            partial(pick, lives.summaries[CONTINUOUS], "final", key),
        )
        for key, what in STATES.items()
    ]


def files(lives: Lives) -> list[Check]:
    """What each life left on disk, loaded once more, against what it had in memory."""
    kept = {"state": ("final", "all states"), "history": ("history", "history")}
    kept["checkpoint"] = ("checkpoint", "sizes and digests")
    checks = []
    for name in NAMES:
        file = lives.files[name]
        if "refused" in file:
            place = (name, SAVED, "state", "all states")
            checks.append(Check(*place, passed=False, deviation=None, why=file["refused"]))
            continue
        checks += [
            _check(
                (name, SAVED, key, what),
                partial(pick, file, key),
                partial(pick, lives.summaries[name], of_summary),
            )
            for key, (of_summary, what) in kept.items()
        ]
    return checks


def _check(place: tuple[str, str, str, str], found: _Side, expected: _Side) -> Check:
    """Compare what the two give; what cannot be got at is a failure."""
    try:
        difference = compare(found(), expected())
    except (LookupError, TypeError) as error:
        difference = Difference(None, f"missing: {error}")
    return Check(*place, difference.agrees, difference.deviation, difference.why)


def _column(summary: dict[str, Any], source: str, key: str, steps: Collection[int]) -> list[Any]:
    """One value for each of ``steps``, in their order. Raises LookupError, TypeError."""
    lines = {line["step"]: line for line in summary[source]}
    return [lines[step][key] for step in steps]


def pick_or_none(record: Any, *keys: str) -> Any:  # noqa: ANN401 - any state
    """The same, for what a reader is shown: None where it is missing."""
    try:
        return pick(record, *keys)
    except (LookupError, TypeError):
        return None
