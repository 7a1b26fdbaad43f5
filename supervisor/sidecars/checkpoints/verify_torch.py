"""Reads one torch.save file back in one pass: digest, checksums of its entries, its numbers."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from supervisor.sidecars.checkpoints import torch_file
from supervisor.sidecars.checkpoints import verify_numbers as numbers
from supervisor.sidecars.checkpoints.torch_tensor import ITEM_BYTES, Tensor
from supervisor.sidecars.checkpoints.torch_zip import Entry, check_crc
from supervisor.sidecars.checkpoints.verify_spans import Choice, Held, Question, Span, owner, spans
from supervisor.sidecars.checkpoints.verify_stream import Stream
from trainer.contract.checkpoint_format import MOST_LOSSES, CheckpointFormatError

Choose = Callable[[Any], Choice]  # what to look at, of a file's tree


class Examined(NamedTuple):
    """What a file holds; ``problem`` is the first fault beside the digest, or None.

    ``tree`` is None where the structure could not be read. ``nonzero`` are the roles of which some
    number is not 0. ``newest`` are the last numbers of the tensor that was asked for.
    """

    sha256: str
    tree: Any
    held: tuple[Held, ...]
    nonzero: frozenset[str]
    newest: list[float]
    problem: CheckpointFormatError | None


def examine(stream: Stream, choose: Choose) -> Examined:
    """Read the whole file, whatever is wrong with it, so that its digest is known.

    ``choose`` says which tensors are to hold finite numbers, those with the role ``v`` none below
    0; it raises CheckpointFormatError where the tree is not as it should be. Raises OSError, and
    CheckpointFormatError where the file changes meanwhile.
    """
    tree: Any = None
    held: list[Held] = []
    newest: list[float] = []
    nonzero: set[str] = set()
    problem = None
    try:
        content = torch_file.read(stream.descriptor, stream.path)
        tree = content.tree
        held, wanted = choose(tree)
        newest = _newest(stream.descriptor, wanted) if wanted is not None else []
        entries = sorted(content.entries.values(), key=lambda entry: entry.offset)
    except CheckpointFormatError as error:
        problem, entries = error, []
    places = spans([one for one in held if numbers.is_floating(one.tensor.dtype)])
    for entry in entries:
        found = _entry(stream, entry, places.get(entry.name, {}), nonzero)
        problem = problem or _problem(found, held, entry, stream.path)
    return Examined(stream.finish(), tree, tuple(held), frozenset(nonzero), newest, problem)


def _newest(descriptor: int, row: Tensor) -> list[float]:
    """The last numbers of a row of float64, at most as many as are compared."""
    count = min(row.elements, MOST_LOSSES)
    data = os.pread(descriptor, 8 * count, row.offset + row.bytes - 8 * count)
    return [value for (value,) in struct.iter_unpack("<d", data[: len(data) // 8 * 8])]


class _Found(NamedTuple):
    """A number that cannot be, or an entry that is not as its checksum says (``question`` None)."""

    question: Question | None
    offset: int
    expected: str
    found: str


def _entry(
    stream: Stream, entry: Entry, wanted: dict[Question, list[Span]], nonzero: set[str]
) -> _Found | None:
    """Read on to the end of an entry; the first fault in it. ``nonzero`` receives roles."""
    found = None
    stream.skip_to(entry.offset)
    crc = 0
    ahead = dict.fromkeys(wanted, 0)
    for piece in stream.pieces(entry.bytes):
        crc = zlib.crc32(piece, crc)
        start = stream.at - len(piece)
        for question, places in wanted.items():
            at = ahead[question]
            while at < len(places) and places[at][0] < stream.at:
                first, last = max(places[at][0], start), min(places[at][1], stream.at)
                if first < last:
                    part = piece[first - start : last - start]
                    found = found or _look(part, question, first, nonzero)
                if places[at][1] > stream.at:
                    break
                at += 1
            ahead[question] = at
    try:
        check_crc(entry, crc, stream.path)
    except CheckpointFormatError as error:
        return _Found(None, 0, str(error.expected), str(error.found))
    return found


def _look(part: memoryview, question: Question, offset: int, nonzero: set[str]) -> _Found | None:
    if question.role and question.role not in nonzero and numbers.any_nonzero(part, question.dtype):
        nonzero.add(question.role)
    fault = numbers.fault(part, question.dtype, nonnegative=question.role == "v")
    if fault is None:
        return None
    return _Found(
        question, offset + fault.at * ITEM_BYTES[question.dtype], fault.expected, fault.found
    )


def _problem(
    found: _Found | None, held: list[Held], entry: Entry, path: str
) -> CheckpointFormatError | None:
    if found is None:
        return None
    if found.question is None:
        return CheckpointFormatError(path, f"CRC of {entry.name}", found.expected, found.found)
    name, at = owner(held, entry.name, found.question, found.offset)
    return CheckpointFormatError(path, f"{name}[{at}]", found.expected, found.found)
