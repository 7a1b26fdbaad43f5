"""The words between trainer and supervisor: report lines one way, the orders file the other.

Reports are JSON objects, one a line, each with ``seq`` (from 1, without gap), ``report`` and
``at`` (the trainer's own monotonic seconds). Orders are one JSON object, replaced whole.
"""

from trainer.contract.wire.reading import read_orders, read_report
from trainer.contract.wire.words import (
    ACTIVITIES,
    ARM_NAME,
    MAX_LINE,
    ArmResult,
    Checkpoint,
    Doing,
    Evaluation,
    Finished,
    Orders,
    Phase,
    PhaseOrder,
    Ready,
    Report,
    ReportName,
    Sample,
    SaveOrder,
    Step,
    WireError,
    nonfinite,
    number,
)
from trainer.contract.wire.writing import format_orders, format_report

__all__ = [
    "ACTIVITIES",
    "ARM_NAME",
    "MAX_LINE",
    "ArmResult",
    "Checkpoint",
    "Doing",
    "Evaluation",
    "Finished",
    "Orders",
    "Phase",
    "PhaseOrder",
    "Ready",
    "Report",
    "ReportName",
    "Sample",
    "SaveOrder",
    "Step",
    "WireError",
    "format_orders",
    "format_report",
    "nonfinite",
    "number",
    "read_orders",
    "read_report",
]
