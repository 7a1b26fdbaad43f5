"""Loss files of other software: lines and arrays alike, and every fault named with its line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.errors import UsageError
from supervisor.sidecars import old_losses


def as_lines(entries: list[dict[str, object]]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def as_array(entries: list[dict[str, object]]) -> str:
    return json.dumps(entries, indent=1)


ENTRIES: list[dict[str, object]] = [
    {"step": step, "loss": loss} for step, loss in ((1, 5.5), (2, None), (3, 4))
]


@pytest.mark.parametrize("form", [as_lines, as_array])
def test_lines_and_an_array_say_the_same(form: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "x.loss.json"
    path.write_text(form(ENTRIES))
    found = old_losses.read(path)
    assert (found.entries, found.steps, found.first, found.last) == (3, 3, 1, 3)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_other_programs_write_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.loss.json"
    path.write_text(
        '\n{"step":1,"loss":NaN}\r\n{"step":2.0,"loss":-Infinity}\n\n{"step":2,"loss":1}\n{"step":4,"l'
    )
    found = old_losses.read(path)
    assert (found.entries, found.steps, found.last, found.torn) == (3, 2, 2, True)
    path.write_text('{"step":1,"loss":2}\n{"step":2,"loss":3}')
    assert (old_losses.read(path).entries, old_losses.read(path).torn) == (2, False)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ('{"step":1,"loss":2}\n{"step":2}\n', 2, "the entry has no loss"),
        ('{"step":1,"loss":2}\n\n{"loss":2}\n', 3, "the entry has no step"),
        ('{"step":1,"loss":2}\nnot json\n{"step":3,"loss":2}\n', 2, "it is no JSON"),
        ('{"step":-1,"loss":2}\n', 1, "step: expected a whole number"),
        ('{"step":true,"loss":2}\n', 1, "step: expected a whole number"),
        ('{"step":1.5,"loss":2}\n', 1, "step: expected a whole number"),
        ('{"step":1,"loss":"2"}\n', 1, "loss: expected a number"),
        ("3\n", 1, "expected an object"),
        ('[\n {"step":1,"loss":2},\n {"step":2}\n]\n', 3, "the entry has no loss"),
        ('[\n {"step":1,"loss":2},\n {"step":2,"loss":}\n]\n', 3, "it is no JSON"),
        ('[{"step":1,"loss":2}\n', 2, "neither goes on nor ends"),
        ('[{"step":1,"loss":2},\n', 2, "it is no JSON"),
        ('[{"step":1,\n"loss":2} {"step":2,"loss":2}]', 2, "neither goes on nor ends"),
        ('{"step":1,"loss":2}\n\xff\xfe', 2, "UTF-8"),
    ],
)
def test_a_fault_is_named_with_its_line(text: str, line: int, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "x.loss.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=rf"^cannot use {path}: line {line}: .*{problem}"):
        old_losses.read(path)


@pytest.mark.parametrize("text", ["", "\n\n", "[]", "[ ]\n", '{"st'])
def test_a_file_without_an_entry_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.loss.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="it holds no entry"):
        old_losses.read(path)
