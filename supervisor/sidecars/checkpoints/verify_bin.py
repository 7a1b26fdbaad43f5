"""Reads a ``.bin`` back: header, size, digest, and every number of its three arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from supervisor.sidecars.checkpoints import verify_numbers as numbers
from supervisor.sidecars.checkpoints.verify_companion import Expected, check_digest, read_beside
from supervisor.sidecars.checkpoints.verify_stream import Counter, Manner, Stream
from trainer.contract.checkpoint_format import (
    HEADER_BYTES,
    CheckpointFormatError,
    Header,
    read_header,
)


def check(path: Path, found: dict[str, Any], expected: Expected, manner: Manner) -> None:
    """Fill in what was ``found``. Raises CheckpointFormatError with the first fault, OSError."""
    with path.open("rb", buffering=0) as file:
        stream = Stream(file, str(path), Counter(aloud=manner.progress), idle=manner.idle)
        found["bytes"] = stream.size
        head = os.pread(file.fileno(), HEADER_BYTES, 0)
        header = read_header(head, stream.size, str(path))
        if expected.n_params not in (0, header.n_params):
            raise CheckpointFormatError(str(path), "n_params", expected.n_params, header.n_params)
        problem = None if manner.digest_only else _numbers(stream, header)
        found["sha256"] = stream.finish()
    check_digest(path, found["sha256"], expected)
    if problem is not None:
        raise problem
    companion = read_beside(path, found, expected, header.n_params)
    if companion is not None and companion.losses is not None:
        found["losses"] = [[companion.losses["first"], companion.losses["values"]]]


def _numbers(stream: Stream, header: Header) -> CheckpointFormatError | None:
    """Look at every number of the three arrays; the first fault, told after the digest."""
    problem = None
    stream.skip_to(HEADER_BYTES)
    for array in ("weights", "m", "v"):
        nonzero, start = array == "weights" or header.step == 0, 0
        for piece in stream.pieces(4 * header.n_params):
            nonzero = nonzero or numbers.any_nonzero(piece, "float32")
            fault = numbers.fault(piece, "float32", nonnegative=array == "v")
            if fault and problem is None:
                place = f"{array}[{start + fault.at}]"
                problem = CheckpointFormatError(stream.path, place, fault.expected, fault.found)
            start += len(piece) // 4
        if not nonzero:
            problem = problem or CheckpointFormatError(
                stream.path,
                array,
                f"numbers other than zero after step {header.step}",
                "only zeros",
            )
    return problem
