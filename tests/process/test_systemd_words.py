"""What systemd says of a unit, read and judged."""

from __future__ import annotations

import pytest

from supervisor.daemon.service_limits import bound_to_the_unit, too_small
from supervisor.process.systemd import seconds


@pytest.mark.parametrize(
    ("span", "value"),
    [
        ("5min", 300.0),
        ("1min 30s", 90.0),
        ("1.500000s", 1.5),
        ("250ms", 0.25),
        ("1d 2h", 93600.0),
        ("infinity", None),
        ("", None),
        ("0", None),
        ("3 fortnights", None),
    ],
)
def test_a_span_of_time_is_read_as_systemd_prints_it(span: str, value: float | None) -> None:
    assert seconds(span) == value


def test_a_stop_must_have_time_for_three_saves() -> None:
    limits = {"Id": "x.service", "TimeoutStopUSec": "30s", "NotifyAccess": "exec"}
    assert too_small(limits, 10.0) == ""
    said = too_small(limits, 10.1)
    assert said.startswith("TimeoutStopSec=30 of x.service is short: a save took 10.1 s")
    assert "set TimeoutStopSec=31 or more" in said
    assert "may be killed" in too_small({**limits, "NotifyAccess": "none"}, 11.0)
    assert too_small({**limits, "TimeoutStopUSec": "infinity"}, 1e6) == ""


def test_what_a_unit_takes_from_a_trainer_with_its_supervisor_is_named() -> None:
    assert bound_to_the_unit({"KillMode": "process", "PrivateTmp": "no"}) == []
    assert len(bound_to_the_unit({"KillMode": "control-group", "PrivateTmp": "yes"})) == 2
