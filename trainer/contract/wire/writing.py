"""From values to bytes: report lines and the orders file."""

from __future__ import annotations

import json

from trainer.contract.wire.words import Orders, ReportName, SaveOrder


def format_report(report: ReportName, seq: int, at: float, **fields: object) -> bytes:
    """One report line, newline included. Non-finite numbers must be given as None."""
    record: dict[str, object] = {"seq": seq, "report": report, "at": round(at, 6), **fields}
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def format_orders(orders: Orders) -> bytes:
    """The orders file's content."""
    record = {
        "serial": orders.serial,
        "phases": [
            {"phase": p.phase, "steps": p.steps, "weights": dict(p.weights)} for p in orders.phases
        ],
        "save": None if orders.save is None else _save(orders.save),
        "hold": orders.hold,
    }
    return json.dumps(record, allow_nan=False).encode("ascii") + b"\n"


def _save(save: SaveOrder) -> dict[str, object]:
    """``sample`` stands there only where it is asked for: an older trainer need not know it."""
    record: dict[str, object] = save._asdict()
    if not save.sample:
        del record["sample"]
    return record
