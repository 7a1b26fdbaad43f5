"""Reads a file of lines in blocks, never locking, never writing, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from pydantic_core import from_json

BLOCK = 1 << 16


def blocks(descriptor: int, start: int, stop: int) -> Iterator[list[bytes]]:
    """Whole lines between two byte offsets, without newlines, 64 KiB at a time.

    What stands behind the last newline is left out. Raises OSError.
    """
    carry = b""
    while start < stop:
        data = os.pread(descriptor, min(BLOCK, stop - start), start)
        if not data:
            return
        start += len(data)
        *lines, carry = (carry + data).split(b"\n")
        if lines:
            yield lines


def records(lines: Sequence[bytes]) -> list[dict[str, Any] | None]:
    """Each line as a JSON object, None where it is none. Strict: NaN is refused."""
    try:
        # One call for many lines costs half of one call each. The newline keeps a torn line's
        # open quote from reaching into the next line.
        found = from_json(b"[%b]" % b",\n".join(lines), allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        found = [_record(line) for line in lines]
    if len(found) != len(lines):  # a torn line may hold a comma between two objects
        found = [_record(line) for line in lines]
    if set(map(type, found)) == {dict}:
        return found  # type: ignore[no-any-return] # JSON objects, as just seen
    return [record if isinstance(record, dict) else None for record in found]


def _record(line: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return from_json(line, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        return None


def ends(start: int, lines: Sequence[bytes]) -> list[int]:
    """The byte after each line's newline, the first line beginning at ``start``."""
    return [start + end + i for i, end in enumerate(accumulate(map(len, lines)), 1)]
