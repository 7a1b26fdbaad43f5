"""``stepkeeper`` with a wall clock that is set at will: by the seconds in the file CHAOS_CLOCK."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from supervisor import clock
from supervisor.cli import run

_FILE = Path(os.environ["CHAOS_CLOCK"])  # noqa: TID251 - as it was given to this wrapper


def wall() -> str:
    """Stands for ``clock.wall``."""
    offset = float(_FILE.read_text() or "0")
    now = datetime.now(UTC) + timedelta(seconds=offset)  # noqa: TID251 - it stands for that reader
    return now.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


if __name__ == "__main__":
    clock.wall = wall
    sys.exit(run(sys.argv[1:]))
