"""Have two checkpoints compared number by number, in a child process that loads numpy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from supervisor.errors import UnknownError

_ROOT: Final = Path(__file__).parents[3]  # what `supervisor` is imported from
_CHILD: Final = "supervisor.sidecars.checkpoints.compare_child"


def compared(one: Path, other: Path) -> list[dict[str, Any]]:
    """``what``, ``equal`` and ``deviation`` of each array, waited for.

    Raises UnknownError where they cannot be compared, OSError.
    """
    command = [sys.executable, "-m", _CHILD, str(one.absolute()), str(other.absolute())]
    done = subprocess.run(
        command,
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        process_group=0,  # a Ctrl-C at the terminal is for the command, which ends it
    )
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        raise UnknownError(
            f"cannot compare {one} with {other}: {said[-1].removeprefix('cannot ')}"
        ) from None
    return found
