"""What a proof says to a person: each life as it ends, what was compared, and the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from supervisor.cli.printing import plain, table

_SHOWN: Final = 5  # failed comparisons that are named


def introduction(folder: Path, updates: int, cut: int) -> str:
    """What is about to be done."""
    return (
        f"A small training, {updates} updates in one go; cut after {cut} and resumed in a new "
        f"process; resumed once more\nwithout its generators, which has to come out different. "
        f"Everything is kept in {plain(folder)}"
    )


def life_line(what: str, facts: dict[str, Any]) -> str:
    """A life that has ended."""
    loss, mse = (_six(facts[key]) for key in ("loss", "mse"))
    text = f"after update {facts['step']}, loss {loss}, MSE {mse}"
    return f"   {what}: {text}, {plain(facts['checkpoint'])}"


def verdict_lines(verdict: dict[str, Any], folder: Path) -> list[str]:
    """Tables of ``verification.json`` and one line that says what it comes to."""
    formats = verdict["formats"]
    bound = verdict["tolerance"]["absolute"]
    lines = ["", _comparisons(formats), "", _formats(formats), ""]
    lines += _failures(formats)
    lines.append(f"not covered: {', '.join(verdict['not_covered'])}")
    evidence = plain(folder / "verification.json")
    if verdict["all_checks_passed"]:
        lines.append(
            f"proved: resumed and uninterrupted are the same (tolerance {bound:g}, relative 0), "
            f"and without the generators they are not; {evidence}"
        )
    else:
        lines.append(f"not proved; {evidence}")
    return lines


def _comparisons(formats: dict[str, Any]) -> str:
    """What was compared, once, with the largest deviation in each format and of the controls."""
    names = dict.fromkeys(c["what"] for f in formats.values() for c in f["comparisons"])
    rows = [
        (
            what,
            *(_cell([c for c in f["comparisons"] if c["what"] == what]) for f in formats.values()),
            _cell([c for f in formats.values() for c in f["control"] if c["what"] == what]),
        )
        for what in names
    ]
    return table(("compared: largest deviation", *formats, "without generators"), rows)


def _cell(checks: list[dict[str, Any]]) -> str:
    if not checks:
        return "-"
    known = [c["deviation"] for c in checks if c["deviation"] is not None]
    largest = f"{max(known):.3g}" if known else ""
    if all(c["passed"] for c in checks):
        return largest
    return f"differs: {largest}" if len(known) == len(checks) else "differs"


def _formats(formats: dict[str, Any]) -> str:
    rows = [
        (
            name,
            verdict["dtype"],
            "same" if verdict["positive"] else "DIFFERS",
            _number(verdict["resume_demo"]["max_loss_difference"]),
            "differs, as it must" if _control_holds(verdict) else "DOES NOT HOLD",
            "proved" if verdict["positive"] and _control_holds(verdict) else "not proved",
        )
        for name, verdict in formats.items()
    ]
    head = ("format", "numbers", "resumed", "loss after the cut", "without generators", "verdict")
    return table(head, rows)


def _control_holds(verdict: dict[str, Any]) -> bool:
    return bool(verdict["negative_divergence_detected"] and verdict["negative_control_sound"])


def _number(value: float | None) -> str:
    return "not comparable" if value is None else f"{value:.3g}"


def _six(value: object) -> str:
    return f"{value:.6f}" if isinstance(value, float) else "not finite"


def _failures(formats: dict[str, Any]) -> list[str]:
    """The first comparisons that did not come out as they have to."""
    wrong = [
        f"   {name}, {c['life']}, {c['part']}: {c['what']}: {plain(c['why'] or 'no difference')}"
        for name, verdict in formats.items()
        for c in (*verdict["comparisons"], *verdict["control"])
        if not c["held"]
    ]
    more = [f"   and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
    return [*wrong[:_SHOWN], *more]
