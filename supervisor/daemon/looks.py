"""What a life looks at about once a second: its unit, disk, time, orphans, and its proof."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from supervisor.core.messages import Event
from supervisor.core.state import State
from supervisor.daemon.proof_news import ProofNews
from supervisor.daemon.recovery import Recovered
from supervisor.daemon.service_limits import ServiceLimits
from supervisor.daemon.space import Space
from supervisor.daemon.time_left import TimeLeft
from supervisor.perform import Parts, Performer
from supervisor.perform.hook_delivery import Origin
from supervisor.perform.hooks import leave
from supervisor.process.orphans import Reaper, take_in


def looks(
    recovered: Recovered,
    performer: Performer,
    put: Callable[[Event], None],
    environ: dict[str, str] | None,
    closing: contextlib.ExitStack,
) -> tuple[Callable[[State], None], ...]:
    """The looks, each to be called with the state; ``environ`` is None for an errand."""
    config, parts = recovered.parts.config, recovered.parts
    parts.hooks.begin(Origin(parts.run_id, config.name, config.run), put)
    closing.callback(leave, parts.hooks, parts.events)
    service = ServiceLimits(config.run, environ or {})
    closing.callback(service.close)
    space = Space(config, performer, put)
    if environ is None:
        return service.look, space.look
    limits = recovered.state.settings.limits
    left = TimeLeft(limits, recovered.start.seconds, put)
    take_in()
    orphans, proof = _Orphans(parts), ProofNews(config)
    return service.look, space.look, left.look, orphans.look, proof.look


class _Orphans:
    """Takes notice of those that have ended; the trainer is left to whoever asks how it ended."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._reaper = Reaper()

    def look(self, _: State) -> None:
        child = self._parts.child
        self._reaper.reap((child.pid,) if child is not None else ())
