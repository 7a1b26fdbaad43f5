"""Documents of an arm as they lie on disk: plain text, JSONL records, or shards of tokens.

A document is a run of tokens that stands under a number. What one is:

- text: a file of up to 4 KiB; a longer one is cut into pieces of about that, at a blank line
  where there is one. One token per byte, and a 0 after each document.
- JSONL: the text field of one record, likewise.
- tokens: a run of context + 1 tokens of a ``.bin`` shard (uint16, memory-mapped, with or without
  a header of llm.c).

Any document is read without reading those before it. Files are opened when they are needed, so
one that vanished fails that read and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainer.contract.settings import SourceSettings

Tokens = NDArray[np.uint16]
SEPARATOR = 0
PIECE = 4096
_SCAN = 1 << 24
_SHARD_MAGIC = 20240520
_SHARD_HEADER = 1024
_LOOKED_INTO = 64
_KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".bin": "tokens"}  # all else is text


class SourceError(Exception):
    """A document cannot be read; the message says why."""


class BadDocumentError(SourceError):
    """One document is not what it should be; the others may well be."""


class _File(Protocol):
    """One file of an arm, cut into documents."""

    path: Path
    count: int

    def read(self, number: int) -> Tokens:
        """Tokens of the document, maybe none. Raises SourceError or OSError."""


class _Seen(NamedTuple):
    """A file's path, and the bytes it had when the arm was opened."""

    path: Path
    size: int


class Documents:
    """All documents of one arm, numbered from 0 in the order of the files' names."""

    def __init__(self, files: list[_File], vocabulary: int, identity: str) -> None:
        self._files = files
        self._ends = list(accumulate(file.count for file in files))
        self._vocabulary = vocabulary
        self.identity = identity

    def __len__(self) -> int:
        return self._ends[-1]

    def read(self, number: int) -> Tokens:
        """Tokens of document ``number``, maybe none. Raises SourceError, BadDocumentError."""
        at = bisect_right(self._ends, number)
        file = self._files[at]
        try:
            tokens = file.read(number - (self._ends[at - 1] if at else 0))
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot read {file.path}: {error}") from None
        if len(tokens) and int(tokens.max()) >= self._vocabulary:
            raise SourceError(
                f"cannot use {file.path}: token {tokens.max()} is not below the model's "
                f"vocabulary of {self._vocabulary}"
            )
        return tokens


def open_documents(settings: SourceSettings, run: Path, vocabulary: int, context: int) -> Documents:
    """List an arm's files and cut them into documents. Raises SourceError."""
    root = run / settings.path
    try:
        seen = _list(root)
        files = [_open(file, settings, context) for file in seen]
    except (OSError, ValueError) as error:
        raise SourceError(f"cannot read {root}: {error}") from None
    files = [file for file in files if file.count]
    if not files:
        raise SourceError(f"cannot use {root}: it holds no document")
    return Documents(files, vocabulary, _identify(root, seen))


def _list(root: Path) -> list[_Seen]:
    if root.is_file():
        return [_Seen(root, root.stat().st_size)]
    if not root.is_dir():
        raise FileNotFoundError("there is no such file or directory")
    paths = sorted(
        path
        for path in root.rglob("*")
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(root).parts)
    )
    return [_Seen(path, path.stat().st_size) for path in paths]


def _identify(root: Path, seen: list[_Seen]) -> str:
    """A digest of names, sizes and the first bytes of some files: tells changed from unchanged."""
    digest = hashlib.sha256()
    for path, size in seen:
        digest.update(f"{path.relative_to(root)} {size}\n".encode())
    for path, _ in seen[:: max(1, len(seen) // _LOOKED_INTO)]:
        with path.open("rb") as file:
            digest.update(file.read(PIECE))
    return digest.hexdigest()


def _open(seen: _Seen, settings: SourceSettings, context: int) -> _File:
    kind: str = settings.kind
    if kind == "auto":
        kind = _KINDS.get(seen.path.suffix.lower(), "text")
    if kind == "jsonl":
        return _Records(seen, settings.field)
    if kind == "tokens":
        return _Shard(seen, context + 1)
    return _Text(seen)


def _as_tokens(data: bytes) -> Tokens:
    """One token per byte and a separator; of nothing, nothing."""
    if not data:
        return np.empty(0, dtype=np.uint16)
    return np.frombuffer(data + bytes([SEPARATOR]), dtype=np.uint8).astype(np.uint16)


def _read_at(seen: _Seen, start: int, stop: int) -> bytes:
    """Bytes of a file that may have grown, but not shrunk, since it was seen."""
    with seen.path.open("rb", buffering=0) as file:
        file.seek(start)
        data = file.read(stop - start)
    if len(data) != stop - start:
        raise ValueError(f"it had {seen.size} bytes and is shorter now")
    return data


class _Text:
    """Plain text; boundaries are found where they are needed, so there is no index."""

    def __init__(self, seen: _Seen) -> None:
        self.path = seen.path
        self.count = -(-seen.size // PIECE)
        self._seen = seen

    def read(self, number: int) -> Tokens:
        start = number * PIECE
        data = _read_at(self._seen, start, min(start + 2 * PIECE, self._seen.size))
        begin = _boundary(data, 0) if number else 0
        end = len(data) if number == self.count - 1 else PIECE + _boundary(data, PIECE)
        return _as_tokens(data[begin:end])


def _boundary(data: bytes, start: int) -> int:
    """Bytes from ``start`` to behind the first blank line of that piece, 0 without one."""
    found = data.find(b"\n\n", start, start + PIECE)
    return found + 2 - start if found >= 0 else 0


class _Records:
    """JSON Lines; an index of line starts, 8 bytes a record."""

    def __init__(self, seen: _Seen, field: str) -> None:
        self.path = seen.path
        self._seen = seen
        self._field = field
        self._starts = _line_starts(seen)
        self.count = len(self._starts) - 1

    def read(self, number: int) -> Tokens:
        start, stop = self._starts[number : number + 2].tolist()
        line = _read_at(self._seen, start, stop).strip()
        try:
            record = json.loads(line) if line else {self._field: ""}
        except ValueError as error:
            raise BadDocumentError(f"{self.path}: record {number} is no JSON: {error}") from None
        text = record.get(self._field) if isinstance(record, dict) else None
        if not isinstance(text, str):
            raise BadDocumentError(f"{self.path}: record {number} has no text {self._field!r}")
        return _as_tokens(text.encode("utf-8", "surrogatepass"))


def _line_starts(seen: _Seen) -> NDArray[np.int64]:
    """Where each line begins, and at last where the file ends."""
    parts = [np.zeros(1, dtype=np.int64)]
    with seen.path.open("rb", buffering=0) as file:
        for offset in range(0, seen.size, _SCAN):
            block = np.frombuffer(file.read(min(_SCAN, seen.size - offset)), dtype=np.uint8)
            parts.append(np.flatnonzero(block == ord("\n")) + (offset + 1))
    starts = np.concatenate(parts)
    if starts[-1] != seen.size:
        starts = np.append(starts, seen.size)
    return starts


class _Shard:
    """Tokens in a memory map, cut into runs of equal length."""

    def __init__(self, seen: _Seen, length: int) -> None:
        self.path = seen.path
        self._size = seen.size
        self._length = length
        self._tokens = self._map(seen) if seen.size else np.empty(0, dtype=np.uint16)
        self.count = -(-len(self._tokens) // length)

    def read(self, number: int) -> Tokens:
        # A map of a file that was cut short would end the process, not raise an error.
        if self.path.stat().st_size < self._size:
            raise ValueError(f"it had {self._size} bytes and is shorter now")
        return self._tokens[number * self._length : (number + 1) * self._length]

    @staticmethod
    def _map(seen: _Seen) -> Tokens:
        if seen.size % 2:
            raise ValueError(f"{seen.path.name} has {seen.size} bytes, not two for each token")
        tokens: Tokens = np.memmap(seen.path, dtype=np.dtype("<u2"), mode="r")
        headed = tokens[:2].tobytes() == _SHARD_MAGIC.to_bytes(4, "little")
        return tokens[_SHARD_HEADER // 2 :] if headed else tokens
