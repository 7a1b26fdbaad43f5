"""The README as data: its headings, its fenced blocks and its tables."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.support.runs import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


class Block(NamedTuple):
    """A fenced block, and the heading it stands under."""

    heading: str
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its lines that are not empty."""
        return [line for line in self.text.splitlines() if line.strip()]


def blocks(language: str, heading: str = "", text: str = TEXT) -> list[Block]:
    """The fenced blocks of a language in a page, all of them or those under a heading."""
    found, here = [], ""
    inside: list[str] | None = None
    fence = ""
    for line in text.splitlines():
        if inside is None and line.startswith("#"):
            here = line.lstrip("# ")
        elif line.startswith("```"):
            if inside is None:
                inside, fence = [], line.removeprefix("```")
                continue
            found.append(Block(here, fence, "\n".join(inside) + "\n"))
            inside = None
        elif inside is not None:
            inside.append(line)
    return [b for b in found if b.language == language and heading in ("", b.heading)]


def table(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, the row of names left out."""
    _, _, after = TEXT.partition(f"\n{heading}\n")
    section = re.split(r"\n#+ ", after)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def plain(cell: str) -> str:
    """A cell without its backticks."""
    return cell.replace("`", "")


def tree(heading: str) -> list[str]:
    """The paths of the first drawn tree under a heading, folders ending in a slash.

    Two spaces of indent are one level; what follows two spaces behind a path is its description.
    """
    paths: list[str] = []
    parents: list[str] = []
    for line in blocks("", heading)[0].lines:
        name = re.split(r"  +", line.strip())[0]
        level = (len(line) - len(line.lstrip())) // 2
        parents = [*parents[:level], name if name.endswith("/") else name + "/"]
        paths.append("".join(parents[:-1]) + name)
    return paths
