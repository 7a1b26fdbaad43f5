"""The loss history: as far back as it is known, without a gap, and bounded where it is repeated."""

from __future__ import annotations

from trainer.contract.checkpoint_format import MOST_LOSSES
from trainer.losses import Losses, read_losses


def known(last: int, values: list[float]) -> Losses:
    losses = Losses()
    losses.replace(last, values)
    return losses


def test_the_losses_since_a_checkpoint_are_those_of_the_steps_after_it() -> None:
    losses = known(3, [3.0, 2.0, 1.5])
    losses.add(4, float("inf"))
    losses.add(5, 1.0)
    assert losses.since(3) == {"first": 4, "values": ["inf", 1.0]}
    assert losses.since(0) == {"first": 1, "values": [3.0, 2.0, 1.5, "inf", 1.0]}
    assert losses.since(5) is None


def test_what_is_not_known_is_left_out() -> None:
    losses = known(100, [2.0])
    assert losses.since(50) == {"first": 100, "values": [2.0]}
    losses.add(102, 1.0)  # a gap: what was before it does not belong to what comes
    assert list(losses.whole()) == [1.0]


def test_only_so_many_are_repeated_in_a_companion() -> None:
    losses = known(MOST_LOSSES + 7, [float(step) for step in range(1, MOST_LOSSES + 8)])
    record = losses.since(0)
    assert record is not None
    assert record["first"] == 8
    assert record["values"][0] == 8.0
    assert len(record["values"]) == MOST_LOSSES
    assert len(losses.whole()) == MOST_LOSSES + 7


def test_a_companion_gives_back_what_it_holds() -> None:
    losses = known(5, [1.0, float("nan")])
    values = read_losses(losses.since(3), 5)
    assert values[0] == 1.0
    assert values[1] != values[1]
    assert read_losses(None, 5) == []
    assert read_losses(losses.since(3), 6) == []
