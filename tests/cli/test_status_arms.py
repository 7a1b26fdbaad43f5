"""What status says of the mix."""

from __future__ import annotations

from supervisor.cli.status_arms import lines


def test_a_mix_that_a_guard_has_frozen_is_said_to_be() -> None:
    arms = {"live": {}, "retired": {}, "standing": {}, "frozen": "the guard gate of step 380"}
    assert lines(arms) == [
        "mix       frozen by the guard gate of step 380: as under static, until the next pivot"
    ]
    assert lines({**arms, "frozen": ""}) == []
