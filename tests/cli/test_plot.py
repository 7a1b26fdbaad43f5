"""The plain-text plot: what a person can read from it, and what it never hides."""

from __future__ import annotations

import pytest

from supervisor.cli.plot import Mark, plot


def test_a_falling_loss_is_drawn_from_the_upper_left_to_the_lower_right() -> None:
    text = plot([(s, 5.0 - s / 100) for s in range(1, 301)], width=60, height=10)
    rows = [row.partition("|")[2] for row in text.splitlines() if "|" in row]
    assert len(rows) == 10
    assert rows[0].startswith("#")
    assert rows[-2].rstrip().endswith("#")  # the average lags a little behind the loss
    assert all(len(row) <= 60 for row in text.splitlines()[:12])
    assert text.isascii()


def test_the_axis_names_the_highest_and_the_lowest_loss() -> None:
    text = plot([(1, 5.25), (2, 3.0), (3, 1.125)], width=40, height=7)
    lines = text.splitlines()
    assert lines[0].startswith("  5.250 |")
    assert lines[6].startswith("  1.125 |")


def test_a_single_spike_survives_however_many_steps_share_its_column() -> None:
    points = [(s, 2.0) for s in range(1, 10_001)]
    points[7_000] = (7_001, 9.0)
    first = plot(points, width=50).splitlines()[0]
    assert first.startswith("  9.000 |")
    assert first.count(".") == 2  # the one of the label, and the spike


@pytest.mark.parametrize("steps", [70, 71, 601, 20_000])
def test_a_long_run_fills_the_whole_width(steps: int) -> None:
    text = plot([(s, 2.0 + s % 7) for s in range(1, steps + 1)], width=79)
    [axis] = [row for row in text.splitlines() if row.strip(" +-") == ""]
    assert len(axis) == 79


def test_marks_stand_at_their_steps_and_are_explained_once() -> None:
    points = [(s, 3.0) for s in range(1, 41)]
    marks = [
        Mark(10, "T", "trainer killed"),
        Mark(30, "T", "trainer killed"),
        Mark(20, "P", "pivot"),
    ]
    text = plot(points, width=49, marks=marks)
    [letters] = [row for row in text.splitlines() if row.strip(" TP") == ""]
    assert [letters.index("T"), letters.index("P"), letters.rindex("T")] == [18, 28, 38]
    assert "T trainer killed (steps 10, 30)" in text
    assert "P pivot (step 20)" in text
    assert all(row[9 + 19] == ":" for row in text.splitlines()[:3])


def test_a_mark_outside_the_steps_is_left_out() -> None:
    assert "pivot" not in plot([(5, 1.0), (6, 2.0)], marks=[Mark(99, "P", "pivot")])


def test_losses_that_are_not_finite_are_counted_and_not_drawn() -> None:
    text = plot([(1, 2.0), (2, None), (3, 1.0), (4, None)])
    assert "2 losses are not finite and not shown" in text


@pytest.mark.parametrize("points", [[], [(1, None)]])
def test_without_a_finite_loss_the_plot_says_so(points: list[tuple[int, float | None]]) -> None:
    assert plot(points) == "no finite loss to plot"


def test_a_constant_loss_is_one_row() -> None:
    rows = [r.partition("|")[2] for r in plot([(1, 2.5), (2, 2.5)]).splitlines() if "|" in r]
    assert [row for row in rows if row] == ["##"]
