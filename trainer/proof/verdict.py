"""What four lives prove.

The resumed life has to agree with the uninterrupted one in everything. The control, resumed
without its generators, has to agree where generators have no part, and must not where they have:
a proof that could not see that would be worth nothing.
"""

from __future__ import annotations

from typing import Any, Final

from trainer.proof import checks
from trainer.proof.checks import AFTER, END, RESTORED, Check, pick_or_none
from trainer.proof.comparing import TOLERANCE
from trainer.proof.lives import CONTINUOUS, CUT, NAMES, RESUMED, WITHOUT_RNG, Lives
from trainer.proof.rows import ROWS

SCHEMA: Final = "stepkeeper.verification/1"
NOT_COVERED: Final = ("CUDA", "AMP", "data loading workers", "distributed training")
AGREES, DIFFERS, _EITHER = "agrees", "differs", "may differ"
_LOOSE: Final = 1e-4  # what a resumed loss is often held to; the verdict itself asks TOLERANCE
_MUST_DIFFER: Final = {(AFTER, "loss"), (AFTER, "parameters"), (END, "parameters"), (END, "mse")}
_MAY_DIFFER: Final = _MUST_DIFFER | {
    (RESTORED, "next_draws"),
    (AFTER, "rows"),
    (AFTER, "next_draws"),
    *((END, key) for key in ("optimizer", "evaluation", "next_draws", "progress")),
}


def judge(lives: Lives) -> dict[str, Any]:
    """The comparisons of one format and what they come to."""
    positive = [
        *checks.same_experiment(lives),
        *checks.updates(lives, CUT),
        *checks.restored(lives, RESUMED),
        *checks.updates(lives, RESUMED),
        *checks.end(lives, RESUMED),
        *checks.files(lives),
    ]
    control = [
        *checks.restored(lives, WITHOUT_RNG),
        *checks.updates(lives, WITHOUT_RNG),
        *checks.end(lives, WITHOUT_RNG),
    ]
    return {
        "format": lives.form,
        "dtype": pick_or_none(lives.summaries[CONTINUOUS], "identities", "settings", "dtype"),
        "positive": all(c.passed for c in positive),
        "largest_deviation": _largest(positive),
        "negative_divergence_detected": all(
            _holds(c, DIFFERS) for c in control if _expected(c) == DIFFERS
        ),
        "negative_control_sound": all(_holds(c, AGREES) for c in control if _expected(c) == AGREES),
        "resume_demo": _resume_demo(lives, positive),
        "covers": _covers(lives),
        "comparisons": [_told(c, AGREES) for c in positive],
        "control": [_told(c, _expected(c)) for c in control],
        "lives": {name: _facts(lives.summaries[name]) for name in NAMES},
    }


def whole(verdicts: list[dict[str, Any]], made: str) -> dict[str, Any]:
    """``verification.json``: all formats, and whether everything holds. ``made`` is wall time."""
    answers = ("positive", "negative_divergence_detected", "negative_control_sound")
    holds = {answer: all(verdict[answer] for verdict in verdicts) for answer in answers}
    return {
        "schema": SCHEMA,
        "made": made,
        "all_checks_passed": bool(verdicts) and all(holds.values()),
        **holds,
        "tolerance": {"absolute": TOLERANCE, "relative": 0.0},
        "not_covered": list(NOT_COVERED),
        "formats": {verdict["format"]: verdict for verdict in verdicts},
    }


def _expected(check: Check) -> str:
    place = check.part, check.key
    if place in _MUST_DIFFER:
        return DIFFERS
    return _EITHER if place in _MAY_DIFFER else AGREES


def _holds(check: Check, expected: str) -> bool:
    """Whether it came out as it has to."""
    return {AGREES: check.passed, DIFFERS: check.diverges, _EITHER: True}[expected]


def _told(check: Check, expected: str) -> dict[str, Any]:
    return {**check._asdict(), "expected": expected, "held": _holds(check, expected)}


def _largest(found: list[Check]) -> float | None:
    """The largest deviation of all; None if one has none to give."""
    known = [check.deviation for check in found if check.deviation is not None]
    return max(known) if len(known) == len(found) else None


def _resume_demo(lives: Lives, positive: list[Check]) -> dict[str, Any]:
    """How far the two tracks of losses are apart after the interruption."""
    [losses] = [c for c in positive if (c.life, c.part, c.key) == (RESUMED, AFTER, "loss")]
    apart = losses.deviation
    return {
        "total_steps": lives.last,
        "interrupt_at": lives.cut,
        "max_loss_difference": apart,
        "below": _LOOSE,
        "passed": apart is not None and apart < _LOOSE,
    }


def _covers(lives: Lives) -> dict[str, Any]:
    """Where the cut fell: inside an epoch, and whether the updates after it begin another."""
    ends = [
        {
            key: pick_or_none(lives.summaries[name], "final", "progress", key)
            for key in ("epoch", "cursor")
        }
        for name in (CUT, CONTINUOUS)
    ]
    if any(type(end[key]) is not int for end in ends for key in end):
        return {}
    cut, last = ends
    return {
        "cursor_at_cut": cut["cursor"],
        "rows": len(ROWS),
        "cut_in_mid_epoch": 0 < cut["cursor"] < len(ROWS),
        "new_order_after_cut": last["epoch"] > cut["epoch"],
    }


def _facts(summary: dict[str, Any]) -> dict[str, Any]:
    """What a reader wants to know of one life without opening its summary."""
    return {
        "process": pick_or_none(summary, "process"),
        "updates": len(summary["history"]),
        "mse": pick_or_none(summary, "final", "mse"),
        "next_lr": pick_or_none(summary, "final", "next_lr"),
        "checkpoint": summary["checkpoint"],
    }
