"""Which checkpoints there are, which were read back and found good, and what they belong to."""

from supervisor.sidecars.checkpoints.catalogue import Catalogue, Gap, Refused, Unsealed, scan
from supervisor.sidecars.checkpoints.marks import (
    lift,
    pin,
    pins,
    quarantine,
    quarantined,
    reject,
    rejections,
    skip,
    skips,
    unpin,
)
from supervisor.sidecars.checkpoints.seals import SealError, SealRecord, write_seal

__all__ = [
    "Catalogue",
    "Gap",
    "Refused",
    "SealError",
    "SealRecord",
    "Unsealed",
    "lift",
    "pin",
    "pins",
    "quarantine",
    "quarantined",
    "reject",
    "rejections",
    "scan",
    "skip",
    "skips",
    "unpin",
    "write_seal",
]
