"""Which attempt's steps count, and where the rest of the time went: by hand-made histories."""

from __future__ import annotations

import pytest

from supervisor.core.goodput import Account, Span, Times, account, canonical, goodput


def span(number: int, resumed: int, ledger: int, last: int, **more: object) -> Span:
    facts = {"differed": None, "started": 0.0, "ended": 0.0, **more}
    return Span(number, resumed, ledger, last, **facts)  # type: ignore[arg-type] # by name


def test_a_replay_leaves_each_step_with_the_attempt_that_wrote_it_first() -> None:
    spans = [span(1, 0, 0, 350), span(2, 300, 350, 700)]
    assert canonical(spans) == {1: (1, 350), 2: (351, 700)}
    assert [s.replayed for s in spans] == [0, 50]


def test_from_the_first_difference_on_the_later_attempt_counts() -> None:
    spans = [span(1, 0, 0, 350), span(2, 300, 350, 700, differed=320)]
    assert canonical(spans) == {1: (1, 319), 2: (320, 700)}


def test_an_attempt_that_only_replayed_has_no_step_and_takes_none_back() -> None:
    spans = [span(1, 0, 0, 350), span(2, 300, 350, 340), span(3, 300, 350, 360)]
    assert canonical(spans) == {1: (1, 350), 3: (351, 360)}


def test_a_later_difference_takes_back_whole_attempts() -> None:
    spans = [
        span(1, 0, 0, 200),
        span(2, 200, 200, 300),
        span(3, 100, 300, 400, differed=150),
        span(4, 400, 400, 500),
    ]
    assert canonical(spans) == {1: (1, 149), 3: (150, 400), 4: (401, 500)}


def test_attempts_that_never_stepped_change_nothing() -> None:
    assert canonical([span(1, 0, 0, 0), span(2, 0, 0, 0)]) == {}


def test_an_account_leaves_no_second_out() -> None:
    life = span(2, 300, 350, 700, started=1000.0, ended=1500.0)
    times = Times(in_steps=400.0, voided=20.0, waiting=30.0, total=490.0)
    found = account(life, times, before=990.0)
    assert found == Account(400.0, 10.0, 50.0, 30.0, 20.0, 0.0)
    assert found.in_steps + found.lost == 510.0


def test_a_pause_is_no_loss() -> None:
    life = span(2, 300, 300, 400, started=5000.0, ended=5100.0, paused=True)
    found = account(life, Times(in_steps=90.0, total=99.0), before=1000.0)
    assert (found.paused, found.between, found.lost) == (4000.0, 0.0, 10.0)


def test_a_clock_that_was_set_back_makes_no_time_negative() -> None:
    life = span(2, 300, 300, 400, started=5000.0, ended=1500.0)
    found = account(life, Times(in_steps=90.0, total=95.0), before=6000.0)
    assert found == Account(90.0, 0.0, 5.0, 0.0, 0.0, 0.0)


def test_goodput_is_the_share_of_steps_that_count() -> None:
    accounts = [Account(80.0, 0.0, 10.0, 0.0, 5.0, 0.0), Account(90.0, 5.0, 10.0, 0.0, 0.0, 1e6)]
    assert goodput(accounts, after=0.0) == pytest.approx(170 / 200)
    assert goodput(accounts, after=200.0) == pytest.approx(170 / 400)
    assert goodput([], after=0.0) is None
