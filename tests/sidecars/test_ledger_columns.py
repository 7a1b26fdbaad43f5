"""The ledger as columns says the same as its canonical view, line by line, whatever is in it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.sidecars.ledger import canonical
from supervisor.sidecars.ledger.columns import Columns, read
from tests.support.steps import keep, steps

Row = tuple[int, int, float, str]


def _same_as_canonical(path: Path) -> Columns:
    columns = read(path)
    expected: list[Row] = [
        (entry.line, entry.fields["step"], entry.fields["loss"], entry.fields["arm"])
        for entry in canonical(path)
    ]
    found: list[Row] = []
    for segment in columns.standing:
        for step in range(segment.first, segment.last + 1):
            line = columns.line_of(step)
            assert line == segment.number + step - segment.first
            row = line - 1
            arm = columns.names[columns.arms[row]]
            assert columns.steps[row] == step
            found.append((line, step, columns.losses[row], arm))
    assert found == expected
    standing = {line for line, *_ in found}
    apart = {line for first, last in columns.voided for line in range(first, last + 1)}
    assert standing | apart == set(range(1, len(columns.steps) + 1))
    assert standing & apart == set()
    lines = path.read_bytes().split(b"\n")[:-1]
    texts = columns.texts(range(1, len(lines) + 1))
    assert [texts[number] for number in sorted(texts)] == lines
    return columns


def test_columns_of_lives_that_void_each_others_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.loss.json"
    keep(
        path,
        (1, 0, steps(1, 900, arm="a")),
        (2, 500, [*steps(501, 700), *steps(701, 1100, salt=1.0, arm="b=2 c=1")]),
        (3, 800, steps(801, 1000, salt=2.0)),
    )
    columns = _same_as_canonical(path)
    assert columns.names == ["a", "chat", "b=2 c=1"]
    assert columns.policies == {1: 1, 2: 1, 3: 1}
    assert columns.bad_lines == 0


@given(data=st.data())
def test_bad_lines_keep_their_place_and_nothing_else_moves(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("columns") / "r.loss.json"
    keep(path, (1, 0, steps(1, 12)), (2, 6, steps(7, 15, salt=1.0)))
    lines = path.read_bytes().split(b"\n")[:-1]
    places = data.draw(st.sets(st.integers(0, len(lines) - 1), max_size=4))
    junk = st.sampled_from(
        [b"", b"torn", b'{"step":', b"[1]", b"null", b'{"step":"7","loss":1.0}', b"\0" * 9]
    )
    for place in places:
        lines[place] = data.draw(junk)
    path.write_bytes(b"\n".join(lines) + b"\n")
    columns = read(path)
    assert columns.bad_lines == len(places)
    assert [line for line, _ in columns.bad] == sorted(place + 1 for place in places)
    for row, line in enumerate(lines):
        step = -1 if row in places else json.loads(line)["step"]
        assert columns.steps[row] == step


def test_losses_that_are_not_finite_are_nan_with_their_word(tmp_path: Path) -> None:
    path = tmp_path / "r.loss.json"
    odd = steps(1, 3)
    odd[1] = odd[1]._replace(loss=None, nonfinite="-inf")
    keep(path, (1, 0, odd))
    columns = read(path)
    assert math.isnan(columns.losses[1])
    assert columns.words == {2: "-inf"}


def test_reading_ends_where_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "r.loss.json"
    keep(path, (1, 0, steps(1, 50)))
    stop = sum(len(line) + 1 for line in path.read_bytes().split(b"\n")[:20])
    assert list(read(path, stop).steps) == list(range(1, 21))
    assert list(read(path, stop + 5).steps) == list(range(1, 21))
