"""A save of the scripted trainer beside its steps: in a thread, and told at a later step's end."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

Record = dict
Saved = tuple[int, str, int]


class Beside:
    """At most one save at a time; ``step`` is the one that is being saved, -1 without."""

    def __init__(self) -> None:
        self.step = -1
        self._thread = Thread()
        self._facts: Record = {}
        self._saved: list[Saved] = []

    def begin(self, step: int, facts: Record, write: Callable[[], Saved]) -> None:
        """Write in a thread; ``facts`` are the report's, but for what the writing tells."""
        self.step, self._facts, self._saved = step, facts, []
        self._thread = Thread(target=lambda: self._saved.append(write()), daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether something was begun, and is written now."""
        return self.step >= 0 and not self._thread.is_alive()

    def result(self) -> tuple[Saved, Record]:
        """Wait for it; step, digest and size, and what its report says beside."""
        self._thread.join()
        self.step = -1
        return self._saved[0], self._facts
