"""Our trainer at a chosen pace: CHAOS_PACE seconds after each step, still at the step CHAOS_HALT.

The file CHAOS_HALT names a step at whose end the trainer stands until the file names another one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.scripted_reports import pause
from trainer import boundary
from trainer.__main__ import main
from trainer.cadence import Leave
from trainer.run import Run

_ENVIRON = os.environ  # noqa: TID251 - as it was given to this wrapper
_PACE = float(_ENVIRON["CHAOS_PACE"])
_HALT = Path(_ENVIRON["CHAOS_HALT"])
_ATTEND = boundary.attend


def attend(run: Run) -> Leave:
    """Stands for ``boundary.attend``: the same, later."""
    pause(_PACE)
    while _HALT.read_text() == str(run.state.step):
        pause(0.01)
    return _ATTEND(run)


if __name__ == "__main__":
    boundary.attend = attend
    sys.exit(main())
