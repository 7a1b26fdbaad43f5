"""From values to bytes: report lines and the orders file."""

from __future__ import annotations

import json

from trainer.contract.wire.words import Orders, ReportName


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
        "save": None if orders.save is None else orders.save._asdict(),
        "hold": orders.hold,
    }
    return json.dumps(record, allow_nan=False).encode("ascii") + b"\n"
