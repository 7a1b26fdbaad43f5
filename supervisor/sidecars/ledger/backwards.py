"""The canonical lines before a place in the ledger, read from there backwards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from supervisor.sidecars.ledger.blocks import BLOCK, records


def before(path: Path, end: int, first: int) -> list[dict[str, Any]]:
    """The lines that stand up to byte ``end``, the end of a line, from step ``first`` on.

    In order of steps, each once. A line stands where none behind it is of its step or a lower one,
    so whoever reads backwards knows at each line whether it stands. Raises OSError.
    """
    found: list[dict[str, Any]] = []
    lowest = None
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        carry = b""
        while end > 0 and (lowest is None or lowest > first):
            begin = max(0, end - BLOCK)
            data = os.pread(descriptor, end - begin, begin) + carry
            end = begin
            carry, _, rest = (b"", b"", data) if begin == 0 else data.partition(b"\n")
            lines = rest.removesuffix(b"\n").split(b"\n")
            for record in reversed(records(lines)):
                step = record.get("step") if record is not None else None
                if record is None or type(step) is not int or step < first:
                    continue
                if lowest is None or step < lowest:
                    found.append(record)
                    lowest = step
    finally:
        os.close(descriptor)
    return found[::-1]
