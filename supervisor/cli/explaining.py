"""The command ``explain``: why a step drew its arm, decided once more from the record."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from supervisor.cli import explaining_words, printing
from supervisor.cli.explaining_record import Told, record, told
from supervisor.cli.parameters import Json, Run, existing
from supervisor.core.decision_verdict import Recorded, verdict
from supervisor.core.draws import Draw, draw
from supervisor.core.explaining import Mix, Recomputed, Result, recompute
from supervisor.core.reasons import multiplier, reasons
from supervisor.errors import UnknownError

_CODES = {Result.EQUAL: 0, Result.DIFFERS: 1, Result.UNKNOWN: 2}


def explain(
    run: Run,
    *,
    step: Annotated[int, typer.Option("--step", metavar="N", min=1, help="The step.")],
    as_json: Json = False,
) -> int:
    """Say why a step drew its arm: score, bonus, penalty, bounds, share, draw, propensity.

    All of it is computed once more from seals and reports, and held against what is on record.
    Exits 0 where both are equal to the last bit, 1 where they differ, 2 where that cannot be told.
    """
    case = told(existing(run), step)
    try:
        facts, result = _explained(case)
    except UnknownError as error:
        facts = {"recomputed": {"result": str(Result.UNKNOWN), "why": [str(error)]}}
        result = Result.UNKNOWN
    facts = {**_line(case), **facts, "problems": case.problems}
    if as_json:
        printing.emit(facts)
    else:
        printing.say("\n".join(explaining_words.lines(facts)))
    return _CODES[result]


def _line(case: Told) -> dict[str, Any]:
    fields = case.line.fields
    return {
        "run": str(case.run),
        "step": fields["step"],
        "line": {
            "number": case.line.line,
            "holds": case.line.holds,
            "voided": list(case.line.others),
            **{key: fields.get(key) for key in ("arm", "loss", "nonfinite", "attempt", "data")},
            **{key: fields[key] for key in ("draw", "propensity") if key in fields},
        },
        "policy": {
            "number": case.policy.number,
            "algorithm": str(case.policy.algorithm),
            "unit": str(case.policy.unit),
        },
    }


def _explained(case: Told) -> tuple[dict[str, Any], Result]:
    found, start, shares = record(case)
    number = case.report.phase if case.report else 0
    again = recompute(found, case.policy, number, shares or {})
    drawn = _drawn(case, shares, again)
    fields = case.line.fields
    recorded = Recorded(
        phase=number,
        shares=shares,
        steps=case.phase.last - case.phase.first + 1 if case.phase else None,
        repeated=case.phase.repeated if case.phase else False,
        arm=str(fields.get("arm", "")),
        propensity=fields.get("propensity"),
        older=start.older,
    )
    result, why = verdict(again, recorded, drawn)
    facts: dict[str, Any] = {
        "phase": _phase(case, number, again),
        "arms": _arms(case, again, shares),
        "draw": _draw_facts(drawn),
        "propensity": recorded.propensity,
        "recomputed": {
            "result": str(result),
            "why": list(why),
            "from": start.words,
            "reports": len(found.reports),
        },
    }
    if again is not None:
        facts["recomputed"]["sources"] = [
            {"after_phase": c.phase, "left": list(c.left), "joined": list(c.joined)}
            for c in again.changes
        ]
        facts["multiplier"] = multiplier(
            again.decision, reasons(again.state, case.policy, again.decision)
        )
    return facts, result


def _phase(case: Told, number: int, again: Recomputed | None) -> dict[str, Any]:
    report = case.phase
    facts: dict[str, Any] = {
        "phase": number,
        "first": report.first if report else None,
        "last": report.last if report else None,
        "repeated": report.repeated if report else None,
    }
    if again is not None:
        decision = again.decision
        facts |= {
            "steps": decision.phase.steps,
            "algorithm": str(decision.algorithm),
            "frozen": again.state.frozen,
            "warm_up": bool(decision.masked),
            "decided_after_phase": again.state.finished,
            "decided_after_step": again.state.step,
            "generator": {"before": decision.before, "after": decision.after},
        }
    return facts


def _arms(case: Told, again: Recomputed | None, shares: Mix | None) -> list[dict[str, Any]]:
    """One object for each arm; what left between decision and phase has no share in force."""
    if again is None:
        return [{"arm": name, "recorded": share} for name, share in (shares or {}).items()]
    force = dict(again.order.weights)
    return [
        {
            "arm": r.arm,
            "score": _number(r.score),
            "bonus": _number(r.bonus),
            "weight": r.weight,
            "penalty": r.penalty,
            "floor": r.floor,
            "cap": r.cap,
            "masked": r.masked,
            "binding": str(r.binding),
            "price": r.price,
            "decided": r.share,
            "share": force.get(r.arm),
            "recorded": (shares or {}).get(r.arm),
            "n": r.n,
            "mean": r.mean,
            "epochs": r.epochs,
        }
        for r in reasons(again.state, case.policy, again.decision)
    ]


def _number(value: float | None) -> float | str | None:
    """JSON has no infinity, and an arm that was never rewarded has an infinite bonus."""
    return "infinite" if value is not None and math.isinf(value) else value


def _drawn(case: Told, shares: Mix | None, again: Recomputed | None) -> Draw | None:
    fields = case.line.fields
    number, arm = fields.get("draw"), str(fields.get("arm", ""))
    weights = tuple((shares or (dict(again.order.weights) if again else {})).items())
    if not isinstance(number, float) or "=" in arm or not weights:
        return None
    failed = [result.arm for result in case.phase.arms if result.failed] if case.phase else []
    return draw(weights, number, arm, fields.get("propensity"), failed)


def _draw_facts(drawn: Draw | None) -> dict[str, Any] | None:
    if drawn is None:
        return None
    return {
        "number": drawn.number,
        "arm": drawn.arm,
        "low": drawn.low,
        "high": drawn.high,
        "propensity": drawn.propensity,
        "left_out": list(drawn.left_out),
        "holds": drawn.holds,
    }
