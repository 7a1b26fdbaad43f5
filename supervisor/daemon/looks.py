"""What a life looks at about once a second beside its trainer: its unit, the disk, the time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from supervisor.core.messages import Event
from supervisor.core.state import State
from supervisor.daemon.recovery import Recovered
from supervisor.daemon.service_limits import ServiceLimits
from supervisor.daemon.space import Space
from supervisor.daemon.time_left import TimeLeft
from supervisor.perform import Performer


def looks(
    recovered: Recovered,
    performer: Performer,
    put: Callable[[Event], None],
    environ: dict[str, str] | None,
    closing: contextlib.ExitStack,
) -> tuple[Callable[[State], None], ...]:
    """The looks, each to be called with the state; ``environ`` is None for an errand."""
    config = recovered.parts.config
    service = ServiceLimits(config.run, environ or {})
    closing.callback(service.close)
    space = Space(config, performer, put)
    if environ is None:
        return service.look, space.look
    limits = recovered.state.settings.limits
    left = TimeLeft(limits, recovered.start.seconds, put)
    return service.look, space.look, left.look
