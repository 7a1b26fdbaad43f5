"""What the run does about a hook that fails: a line in the journal where it begins and ends.

Those lines fire no hook: one that fails would otherwise be the cause of its own next failure.
"""

from __future__ import annotations

from typing import Final

from supervisor.core.messages import Effect, HookSeen, Journal, Say
from supervisor.core.state import State

FAILING, WELL, LEFT = "hook-failing", "hook-well", "hook-left"
QUIET: Final = frozenset({FAILING, WELL, LEFT})


def seen(state: State, event: HookSeen) -> tuple[State, list[Effect]]:
    """Journal and say it."""
    if event.problem:
        facts = {"hook": event.hook, "entry": event.entry, "problem": event.problem}
        text = f"hook {event.hook} fails: {event.problem}; see stepkeeper hooks"
        return state, [Journal(FAILING, facts), Say(text, alarm=True)]
    counts = {"failed": event.failed, "dropped": event.dropped}
    text = f"hook {event.hook} is called again; {event.failed} failed, {event.dropped} dropped"
    return state, [Journal(WELL, {"hook": event.hook, "entry": event.entry, **counts}), Say(text)]
