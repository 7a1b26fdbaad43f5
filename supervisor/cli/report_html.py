"""HTML that is escaped by construction: whatever is not made here is text, wherever it stands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

DASH: Final = "\N{EN DASH}"  # between two ends, and for what is not there
_NARROW = 5  # columns that fit a phone
_VOID = ("meta", "input", "br", "hr")


class Html(str):
    """Markup, as against text."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element; children that are no Html are text, those that are None are left out.

    An attribute's name loses a trailing underscore, others become dashes. True is an attribute
    without a value; None and False leave it out.
    """
    named = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{named}>")
    return Html(f"<{name}{named}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """One after the other, text escaped."""
    return Html("".join(_markup(child) for child in children))


def _markup(child: object) -> str:
    if isinstance(child, Html):
        return child
    return "" if child is None else escape(visible(str(child)))


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(visible(str(value)))}"'


def visible(text: str) -> str:
    """The text with what would not be seen, or would turn it round, as a code point."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else f"\N{REPLACEMENT CHARACTER}{ord(c):04X}"
        for c in text
    )


def data(name: str, value: object) -> Html:
    """Values for the page's script, which no text in them can end."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{escape(name)}">{text}</script>')


def table(
    head: Sequence[str], rows: Sequence[Sequence[object]], label: str, numbers: str = ""
) -> Html:
    """A table; columns of numbers are those with an ``n`` in ``numbers``.

    One that is too wide scrolls by itself, or on a phone shows each row as a card.
    """
    wide = len(head) > _NARROW
    kinds = ["num" if numbers[nth : nth + 1] == "n" else None for nth in range(len(head))]
    top = [
        tag("th", word, scope="col", class_=kind) for word, kind in zip(head, kinds, strict=True)
    ]
    lines = [
        tag(
            "tr",
            *(
                tag("td", cell, class_=kind, data_label=word if wide else None)
                for word, cell, kind in zip(head, row, kinds, strict=True)
            ),
        )
        for row in rows
    ]
    inside = tag("table", tag("thead", tag("tr", *top)), tag("tbody", *lines))
    kind = "scroll wide" if wide else "scroll"
    return tag("div", inside, class_=kind, tabindex="0", role="region", aria_label=label)


def folded(title: str, *children: object, **attributes: object) -> Html:
    """Something that is opened on demand."""
    return tag("details", tag("summary", title), *children, **attributes)


def count(number: float | None, digits: int = 0) -> str:
    """A number as people read it, or a dash."""
    return DASH if number is None else f"{number:,.{digits}f}"


def plural(number: int, one: str, many: str = "") -> str:
    """``1 step``, ``2,400 steps``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
