"""Reads a loss file of other software: one entry for each step, as JSON lines or as one array.

An entry is an object with ``step`` and ``loss``; whatever else it holds is its owner's. Nothing
here is strict about numbers: NaN and Infinity, as many programs write them, are losses too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from supervisor.errors import UsageError

_SPACE = " \t\r\n"


class OldLosses(NamedTuple):
    """What the file holds. ``entries`` name ``steps`` different steps from ``first`` to ``last``.

    ``torn`` says that the last line breaks off, as a crash leaves it.
    """

    entries: int
    steps: int
    first: int
    last: int
    sha256: str
    torn: bool


class _Torn(Exception):  # noqa: N818 - no error: the file may end so
    """The last line breaks off."""


def read(path: Path) -> OldLosses:
    """Read the whole file. Raises UsageError with line and problem, OSError."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _problem(path, line, "it is not UTF-8 text") from None
    array = text.lstrip(_SPACE)[:1] == "["
    steps: set[int] = set()
    entries, torn = 0, False
    try:
        for line, entry in _array(path, text) if array else _lines(path, text):
            steps.add(_step(path, line, entry))
            entries += 1
    except _Torn:
        torn = True
    if not steps:
        raise UsageError(f"cannot use {path}: it holds no entry")
    digest = sha256(data).hexdigest()
    return OldLosses(entries, len(steps), min(steps), max(steps), digest, torn)


def _lines(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    pieces = text.split("\n")
    for number, piece in enumerate(pieces, 1):
        if not piece.strip(_SPACE):
            continue
        try:
            entry = json.loads(piece)
        except (ValueError, RecursionError) as error:
            if number == len(pieces):  # no newline behind it
                raise _Torn from None
            raise _problem(path, number, f"it is no JSON: {error}") from None
        yield number, entry


def _array(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    """One entry after the other, so that each is known by the line on which it begins."""
    decoder = json.JSONDecoder()
    at, line, counted = _skip(text, text.index("[") + 1), 1, 0
    if text[at : at + 1] == "]":
        return
    while True:
        line += text.count("\n", counted, at)
        counted = at
        try:
            entry, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            wrong = text.count("\n", 0, getattr(error, "pos", at)) + 1
            raise _problem(path, wrong, f"it is no JSON: {error}") from None
        yield line, entry
        at = _skip(text, end)
        if text[at : at + 1] == "]":
            return
        if text[at : at + 1] != ",":
            wrong = text.count("\n", 0, at) + 1
            raise _problem(path, wrong, "the array neither goes on nor ends there")
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _step(path: Path, line: int, entry: object) -> int:
    """The entry's step. Raises UsageError for an entry that is none."""
    if not isinstance(entry, dict):
        raise _problem(path, line, "expected an object with step and loss")
    for key in ("step", "loss"):
        if key not in entry:
            raise _problem(path, line, f"the entry has no {key}")
    step, loss = entry["step"], entry["loss"]
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if type(step) is not int or step < 0:
        raise _problem(path, line, f"step: expected a whole number of 0 or more, found {step!r}")
    if loss is not None and (isinstance(loss, bool) or not isinstance(loss, int | float)):
        raise _problem(path, line, f"loss: expected a number or null, found {loss!r}")
    return step


def _problem(path: Path, line: int, what: str) -> UsageError:
    return UsageError(f"cannot use {path}: line {line}: {what}")
