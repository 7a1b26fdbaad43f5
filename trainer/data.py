"""An arm as an endless stream of sequences: a seeded order of documents, and a cursor in it.

The cursor is a value. Going to any place costs the same as going to the first: the order is a
permutation that is computed point by point, never stored and never replayed.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from trainer.sources import BadDocumentError, Documents, SourceError, Tokens

_ROUNDS = 6
_EMPTY_IN_A_ROW = 1000
_MASK = (1 << 64) - 1


class Cursor(NamedTuple):
    """Where an arm stands: ``offset`` tokens into the document at ``position`` of ``epoch``."""

    epoch: int = 0
    position: int = 0
    offset: int = 0


class Permutation:
    """A bijection of ``range(size)`` chosen by ``key``; each point costs constant time.

    A Feistel network over the next power of four, walked until it falls inside the range (Black
    and Rogaway 2002).
    """

    def __init__(self, size: int, key: str) -> None:
        self._size = size
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        digest = hashlib.blake2b(key.encode(), digest_size=8 * _ROUNDS).digest()
        self._keys = np.frombuffer(digest, dtype="<u8").tolist()

    def __call__(self, index: int) -> int:
        """Where ``index`` goes."""
        mask = (1 << self._half) - 1
        while True:
            left, right = index >> self._half, index & mask
            for key in self._keys:
                left, right = right, left ^ (_mix(right ^ key) >> (64 - self._half))
            index = left << self._half | right
            if index < self._size:
                return index


def _mix(x: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _MASK
    return x ^ x >> 31


class Digest:
    """Identifies what a step consumed: arms, documents, places in them, and the tokens.

    ``first`` is the place where each arm began.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self.first: dict[str, str] = {}

    def add(self, what: bytes) -> None:
        """Take in more."""
        self._hash.update(what)

    def text(self) -> str:
        """16 hex digits."""
        return self._hash.hexdigest()


class Arm:
    """A named source: some documents to train on, in a new order each epoch, and some kept out.

    ``length`` tokens make a sequence; documents follow each other without padding. ``holdout``
    is the share of documents that training never sees. ``remarks`` collects what was skipped.
    """

    def __init__(
        self, name: str, documents: Documents, *, length: int, seed: int, holdout: float
    ) -> None:
        self.name = name
        self.identity = documents.identity
        self.remarks: list[str] = []
        self._documents = documents
        self._length = length
        self._key = f"{seed}/{name}"
        self._held = int(holdout * len(documents))
        self._split = Permutation(len(documents), f"{self._key}/split")
        self._order = (-1, Permutation(1, ""))
        self._read: tuple[tuple[int, int], int, Tokens] | None = None

    def __len__(self) -> int:
        """Documents in one epoch."""
        return len(self._documents) - self._held

    def take(self, cursor: Cursor, sequences: int, digest: Digest) -> tuple[Tokens, Cursor]:
        """The next ``sequences`` from ``cursor`` on, as [sequences, length], and where they end.

        Raises SourceError, and then nothing was taken.
        """
        out = np.empty(sequences * self._length, dtype=np.uint16)
        filled = empty = 0
        places: list[str] = []
        epoch, position, offset = cursor
        while filled < len(out):
            document, tokens = self._document(epoch, position)
            part = tokens[offset : offset + len(out) - filled]
            out[filled : filled + len(part)] = part
            places.append(f"{epoch} {document} {offset}")
            filled += len(part)
            offset += len(part)
            empty = 0 if len(part) else empty + 1
            if empty > min(len(self), _EMPTY_IN_A_ROW):
                raise SourceError(
                    f"cannot use arm {self.name}: {empty} documents in a row are empty"
                )
            if offset >= len(tokens):
                position, offset = position + 1, 0
                if position >= len(self):
                    epoch, position = epoch + 1, 0
        digest.first.setdefault(self.name, places[0])
        digest.add(f"{self.name}: {'; '.join(places)}\n".encode())
        digest.add(out.tobytes())
        return out.reshape(sequences, self._length), Cursor(epoch, position, offset)

    def place(self, cursor: Cursor) -> str:
        """Where ``take`` begins from there: epoch, number of the document, tokens into it."""
        return f"{cursor.epoch} {self._number(cursor.epoch, cursor.position)} {cursor.offset}"

    def held_out(self, sequences: int) -> Tokens | None:
        """Up to ``sequences`` of the documents kept out, always the same; None without any.

        Raises SourceError.
        """
        parts, filled, wanted = [], 0, sequences * self._length
        for index in range(self._held):
            if filled >= wanted:
                break
            parts.append(self._documents.read(self._split(index)))
            filled += len(parts[-1])
        whole = min(sequences, filled // self._length)
        if not whole:
            return None
        return np.concatenate(parts)[: whole * self._length].reshape(whole, self._length)

    def _document(self, epoch: int, position: int) -> tuple[int, Tokens]:
        """Number and tokens of one document; the last one read is kept."""
        place = (epoch, position)
        if self._read is None or self._read[0] != place:
            number = self._number(epoch, position)
            try:
                tokens = self._documents.read(number)
            except BadDocumentError as error:
                self.remarks.append(f"skipped: {error}")
                tokens = np.empty(0, dtype=np.uint16)
            self._read = (place, number, tokens)
        return self._read[1], self._read[2]

    def _number(self, epoch: int, position: int) -> int:
        """The document at a position of an epoch's order."""
        if self._order[0] != epoch:
            self._order = (epoch, Permutation(len(self), f"{self._key}/{epoch}"))
        return self._split(self._held + self._order[1](position))


def cursor_record(arm: Arm, cursor: Cursor) -> dict[str, Any]:
    """A cursor as the companion holds it, with the number of documents it counts in."""
    return {**cursor._asdict(), "documents": len(arm)}


def read_cursor(arm: Arm, record: dict[str, Any]) -> Cursor:
    """A cursor from the companion; after a change of the data it stays inside an epoch.

    Raises ValueError for what is no cursor.
    """
    values = [record.get(key) for key in Cursor._fields]
    if any(type(value) is not int or value < 0 for value in values):
        raise ValueError(f"cannot use the cursor {record!r} of arm {arm.name}")
    cursor = Cursor(record["epoch"], record["position"], record["offset"])
    if record.get("documents") == len(arm):
        return cursor
    return Cursor(cursor.epoch, cursor.position % len(arm), 0)
