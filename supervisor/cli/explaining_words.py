"""The words of ``explain``: its facts as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from supervisor.cli.printing import plain, table

_HEAD = ("arm", "score", "bonus", "weight", "penalty", "floor", "cap", "binds", "price", "share")

_NOTHING = 1e-99  # what the projection makes of a weight of 0 is not worth its digits


def lines(facts: dict[str, Any]) -> Iterator[str]:
    """The step, its phase, every arm, the draw, and whether it is what the record says."""
    yield from _step(facts)
    if "phase" in facts:
        yield from _phase(facts)
        yield from _arms(facts)
        yield from _draw(facts)
    yield from _result(facts["recomputed"])
    yield from (f"not read: {plain(problem)}" for problem in facts["problems"])


def _step(facts: dict[str, Any]) -> Iterator[str]:
    line, policy = facts["line"], facts["policy"]
    loss = line["nonfinite"] if line["loss"] is None else line["loss"]
    yield (
        f"step {facts['step']}: arm {plain(line['arm']) or '-'}, loss {plain(loss)}, attempt "
        f"{line['attempt']}, policy {policy['number']} ({policy['algorithm']}), ledger line "
        f"{line['number']}"
    )
    if line["voided"]:
        numbers = ", ".join(map(str, line["voided"]))
        yield f"voided before it: line {numbers}, whose results this one took the place of"
    if not line["holds"]:
        yield "its line does not match its chain; see stepkeeper audit"


def _phase(facts: dict[str, Any]) -> Iterator[str]:
    phase = facts["phase"]
    where = "not reported finished"
    if phase["first"] is not None:
        where = f"steps {phase['first']} to {phase['last']}"
    if "steps" not in phase:
        yield f"phase {phase['phase']}: {where}"
        return
    after = phase["decided_after_step"]
    yield (
        f"phase {phase['phase']}: {where}; decided after step {after} for {phase['steps']} steps "
        f"by {phase['algorithm']}"
    )
    if phase["frozen"]:
        yield f"the mix is frozen: {plain(phase['frozen'])}"
    if phase["warm_up"]:
        yield "the curriculum warms up: arms marked wait have no share yet"


def _arms(facts: dict[str, Any]) -> Iterator[str]:
    if not facts["arms"]:
        return
    if "weight" not in facts["arms"][0]:
        rows = [[plain(arm["arm"]), _short(arm["recorded"])] for arm in facts["arms"]]
        yield table(("arm", "share"), rows)
        return
    drawn = facts["line"]["arm"]
    yield table(_HEAD, [_row(arm, drawn) for arm in facts["arms"]])
    yield "weights have their penalties in them; the arm of the step is marked *"
    if facts["multiplier"] is not None:
        yield f"projection: weights that no bound holds times {facts['multiplier']:.6g}"


def _row(arm: dict[str, Any], drawn: str) -> list[str]:
    mark = "*" if arm["arm"] == drawn else ""
    keys = ("score", "bonus", "weight", "penalty", "floor", "cap")
    binds = "wait" if arm["masked"] else arm["binding"] or "-"
    share = "left" if arm["share"] is None else _short(arm["share"])
    return [
        plain(arm["arm"]) + mark,
        *(_short(arm[key]) for key in keys),
        binds,
        _short(arm["price"] if arm["binding"] else None),
        share,
    ]


def _draw(facts: dict[str, Any]) -> Iterator[str]:
    draw, propensity = facts["draw"], facts["propensity"]
    if draw is not None:
        out = ", ".join(map(plain, draw["left_out"]))
        without = f", without {out} (failed)" if out else ""
        yield (
            f"draw: {draw['number']!r} falls to {plain(draw['arm'])} ({draw['low']:.6f} to "
            f"{draw['high']:.6f}){without}"
        )
    elif "=" in facts["line"]["arm"]:
        yield "draw: every sequence drew its own arm; the numbers are not recorded"
    else:
        yield "draw: this trainer does not report it"
    if propensity is not None:
        yield f"propensity: {propensity!r}"


def _result(recomputed: dict[str, Any]) -> Iterator[str]:
    for change in recomputed.get("sources", ()):
        what = [f"{plain(name)} left" for name in change["left"]]
        what += [f"{plain(name)} came" for name in change["joined"]]
        yield f"sources: {', '.join(what)} by the end of phase {change['after_phase']}"
    basis = ""
    if "from" in recomputed:
        count = recomputed["reports"]
        basis = f", from {recomputed['from']} and {count} report{'s' * (count != 1)} of phases"
    match recomputed["result"]:
        case "equal":
            yield f"recomputed: equal to the last bit{basis}"
        case "differs":
            yield f"recomputed: differs{basis}"
            yield from (f"  {plain(why)}" for why in recomputed["why"])
        case _:
            yield f"recomputed: cannot tell{basis}"
            yield from (f"  {plain(why)}" for why in recomputed["why"])


def _short(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) > _NOTHING else "0"
    return str(value)
