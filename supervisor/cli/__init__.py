"""Arguments in, text out."""

from __future__ import annotations

import sys
from pathlib import Path


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    from supervisor.config import environment, load
    from supervisor.daemon import Daemon
    from supervisor.errors import StepkeeperError

    try:
        return Daemon(load(Path(arguments[1]).absolute()), environment()).run()
    except StepkeeperError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
