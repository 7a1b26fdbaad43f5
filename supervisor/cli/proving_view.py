"""What ``prove RUN`` shows: each life with its steps on a terminal, then tables and the verdict."""

from __future__ import annotations

import sys

from supervisor.cli import printing
from supervisor.sidecars.resume_proof import NAME, ComparisonModel, ProofModel


class View:
    """Lines on stdout, unless ``quiet``; the step that a life is at, on a terminal alone."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._moves = not quiet and sys.stderr.isatty()
        self._wide = 0
        self._late: set[str] = set()

    def say(self, text: str) -> None:
        """One line."""
        self.clear()
        if not self._quiet:
            printing.say(text)

    def note(self, text: str) -> None:
        """One line that is to be read, whoever reads the rest."""
        self.clear()
        printing.note(text)

    def at(self, life: str, step: int, last: int, patience: int) -> None:
        """The step that a life has done, of ``last``; so many steps beyond that it is told."""
        if step >= last + patience and life not in self._late:
            self._late.add(life)
            self.say(
                f"   {life}: at step {step}, and no checkpoint of step {last} is sealed so far"
            )
        if self._moves:
            text = f"   {life}: step {step} of {last}"
            sys.stderr.write("\r" + text.ljust(self._wide))
            sys.stderr.flush()
            self._wide = len(text)

    def clear(self) -> None:
        """Let nothing stand on the line that moves."""
        if self._wide:
            sys.stderr.write("\r" + " " * self._wide + "\r")
            sys.stderr.flush()
            self._wide = 0


def report(record: ProofModel) -> str:
    """Tables of what was compared and tried, and one line that says what it comes to."""
    head = ("compared", "", "largest deviation", "")
    rows = [_row(one) for one in (*record.repeated, *record.resumed)]
    tables = [printing.table(head, rows)]
    if record.controls:
        tried = [
            (f"without {c.without}", c.result, printing.plain(c.detail)) for c in record.controls
        ]
        tables.append(printing.table(("control", "", ""), tried))
    word = "proved" if record.verdict == "proved" else "not proved"
    claim = "; no bit claim" if record.verdict == "no bit claim" else ""
    last = f"{word}: {printing.plain(record.why)}{claim}; kept in {NAME}"
    return "\n\n".join(["", *tables, last]).lstrip("\n")


def _row(one: ComparisonModel) -> tuple[str, str, str, str]:
    apart = "" if one.deviation is None else f"{one.deviation:.3g}"
    return one.what, "same" if one.equal else "DIFFERS", apart, printing.plain(one.detail)
