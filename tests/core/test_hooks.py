"""Which hook is for which line, and what becomes of a hook that fails."""

from __future__ import annotations

import pytest

from supervisor.config.hook_settings import Hook
from supervisor.core.decide import decide
from supervisor.core.hooks import QUIET
from supervisor.core.messages import HookSeen, Journal, Say
from tests.support.history import fresh_state

KILLED = {"cause": "killed"}
FINISHED = {"cause": "finished"}


@pytest.mark.parametrize(
    ("events", "event", "facts", "called"),
    [
        (("*",), "anything-at-all", {}, True),
        (("sealed",), "sealed", {}, True),
        (("sealed",), "sealed-not", {}, False),
        (("alarm",), "sealed", {}, False),
        (("alarm",), "hang", {}, True),
        (("alarm",), "attempt-ended", KILLED, True),
        (("alarm",), "attempt-ended", FINISHED, False),
        (("alarm",), "guard", {"action": "record"}, False),
        (("alarm",), "guard", {"action": "alert"}, True),
        (("alarm", "attempt-ended"), "attempt-ended", FINISHED, True),
    ],
)
def test_a_hook_is_called_for_what_it_names(
    events: tuple[str, ...], event: str, facts: dict[str, str], *, called: bool
) -> None:
    assert Hook("one", frozenset(events)).is_for(event, facts) is called


def test_a_hook_that_fails_is_one_line_at_its_beginning_and_one_at_its_end() -> None:
    state = fresh_state()
    after, effects = decide(state, HookSeen("pager", "HTTP 500", 17, 0, 0), 1.0)
    assert after == state
    facts = {"hook": "pager", "entry": 17, "problem": "HTTP 500"}
    assert [e for e in effects if isinstance(e, Journal)] == [Journal("hook-failing", facts)]
    [said] = [e for e in effects if isinstance(e, Say)]
    assert said.alarm
    _, effects = decide(state, HookSeen("pager", "", 21, 3, 1), 2.0)
    facts = {"hook": "pager", "entry": 21, "failed": 3, "dropped": 1}
    assert [e for e in effects if isinstance(e, Journal)] == [Journal("hook-well", facts)]
    assert not any(e.alarm for e in effects if isinstance(e, Say))


def test_lines_of_hooks_fire_none() -> None:
    assert {"hook-failing", "hook-well", "hook-left"} == QUIET
