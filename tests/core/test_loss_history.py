"""The losses that a checkpoint holds beside those of the ledger."""

from __future__ import annotations

import math

from supervisor.core.loss_history import difference, steps_of
from supervisor.core.messages import LossDifference, LossHistory, Say
from tests.support.history import running

LEDGER: dict[int, float | str] = {5: 2.5, 6: 2.25, 7: "nan", 8: 2.0, 9: -0.1}


def test_equal_histories_differ_nowhere() -> None:
    assert difference((), LEDGER) is None
    assert difference((LossHistory(5, (2.5, 2.25, "nan", 2.0)),), LEDGER) is None


def test_the_first_step_that_differs_is_told_with_both_numbers() -> None:
    histories = (LossHistory(5, (2.5, 2.25, "nan", 3.0, 3.0)), LossHistory(5, (2.5, 2.26)))
    assert difference(histories, LEDGER) == LossDifference(6, 2.26, 2.25, 3)
    found = difference(histories, LEDGER)
    assert found is not None
    assert found.text == "step 6 has 2.26, the ledger 2.25; 3 steps differ"


def test_the_last_bit_of_a_number_counts() -> None:
    assert difference((LossHistory(9, (math.nextafter(-0.1, 0.0),)),), LEDGER) is not None


def test_a_word_is_another_loss_than_a_number_or_another_word() -> None:
    found = difference((LossHistory(7, ("inf", "nan")),), LEDGER)
    assert found == LossDifference(7, "inf", "nan", 2)
    assert difference((LossHistory(7, (1.0,)),), LEDGER) == LossDifference(7, 1.0, "nan", 1)


def test_steps_that_the_ledger_does_not_give_are_not_compared() -> None:
    assert difference((LossHistory(1, (9.0,) * 4 + (2.5,)),), LEDGER) is None
    assert difference((LossHistory(9, (-0.1, 7.0)),), LEDGER) is None


def test_the_steps_spoken_of() -> None:
    assert steps_of(()) == (1, 0)
    assert steps_of((LossHistory(5, ()),)) == (1, 0)
    assert steps_of((LossHistory(5, (1.0, 2.0)), LossHistory(4, (1.0,)))) == (4, 6)


def test_a_difference_is_an_alarm_and_the_seal_stands() -> None:
    history = running(100)
    history.checkpoint(100)
    history.verified(100)
    history.sealed(100, differs=LossDifference(98, 2.5, 2.25, 1))
    said = [effect.text for effect in history.all_of(Say) if effect.alarm]
    text = "step_000100.bin holds another loss than the ledger, which stands: "
    assert said == [f"{text}step 98 has 2.5, the ledger 2.25"]
    assert next(seal.point.step for seal in history.state.seals) == 100
