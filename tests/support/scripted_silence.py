"""The scripted trainer's silence: it stands still, and shows where if it was told to."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.support.scripted_reports import pause


def show_stacks(*, wanted: bool) -> None:
    """SIGQUIT prints them."""
    if wanted:
        import faulthandler  # noqa: PLC0415 - only where it is needed

        faulthandler.register(signal.SIGQUIT)


def stand_still(*, here: bool = True, woken: Callable[[], bool] = lambda: False) -> None:
    """If it is ``here``, say nothing any more until ``woken``."""
    while here and not woken():
        pause(0.05)
