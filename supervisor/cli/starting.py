"""The commands before and around a run's life: ``init``, ``check``, ``run``."""

from __future__ import annotations

from supervisor import environment
from supervisor.cli.parameters import Run, existing
from supervisor.config import load
from supervisor.daemon import Daemon


def run(run: Run) -> int:
    """Keep a run until it is finished, stopped or given up.

    Ctrl-C stops it with a checkpoint. Exits 0 finished or stopped, 2 wrong use, 10 gave up,
    11 refused because going on would harm the run.
    """
    return Daemon(load(existing(run)), environment.own()).run()
