"""What ``report`` says of a run: its facts, and its page as a browser would take it apart."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.support.command import command
from tests.support.runs import Run


class Page(HTMLParser):
    """What a browser would make of a page: its elements, its text, its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        self.close()
        assert self._inside == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def facts(run: Run, *words: object) -> dict[str, Any]:
    told = command("report", run.path, "--json", *words)
    assert (told.code, told.err) == (0, "")
    return told.facts()


def page(run: Run, target: Path, *words: object) -> Page:
    told = command("report", run.path, "-o", target, *words)
    assert (told.code, told.err) == (0, ""), told.err
    return Page(target.read_text("utf-8"))


def both(run: Run, target: Path, *words: object) -> tuple[Page, dict[str, Any]]:
    found = facts(run, "-o", target, *words)
    return Page(target.read_text("utf-8")), found
