"""What an audit collects on its way: faults, each with its file and line."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Fault(NamedTuple):
    """Something that does not hold; ``file`` is relative to the run, ``line`` 0 where none is."""

    file: str
    line: int
    what: str

    @property
    def text(self) -> str:
        """Where, and what."""
        where = f"{self.file} line {self.line}" if self.line else self.file
        return f"{where}: {self.what}"


class Findings:
    """The faults in the order in which they were found."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.faults: list[Fault] = []

    def fault(self, file: Path | str, what: str, line: int = 0) -> None:
        """Something does not hold."""
        self.faults.append(Fault(self.name(file), line, what))

    def name(self, file: Path | str) -> str:
        """The file as the run's reader knows it."""
        path = Path(file)
        return str(path.relative_to(self.run)) if path.is_relative_to(self.run) else str(path)
