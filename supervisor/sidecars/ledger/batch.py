"""Lines of the ledger on their way into one write."""

from __future__ import annotations


class Batch:
    """Lines on their way into one write; the first one begins at byte ``start`` of the file."""

    __slots__ = ("chain", "ends", "pieces", "size", "start", "steps")

    def __init__(self, start: int) -> None:
        self.start = start
        self.size = 0
        self.chain = ""
        self.pieces: list[bytes] = []
        self.steps: list[int] = []
        self.ends: list[int] = []

    def add(self, step: int, piece: bytes, chain: str) -> None:
        """One more line, ``piece`` being the bytes of it still to be written."""
        self.pieces.append(piece)
        self.size += len(piece)
        self.chain = chain
        self.steps.append(step)
        self.ends.append(self.size)
