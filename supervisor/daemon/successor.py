"""The program that takes our place: as we were started, so through the links that were typed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from supervisor import environment


def program(original: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
    """The words that start the program, before the name of a command.

    ``original`` is the interpreter's own command line, ``arguments`` are the words that we got
    of it, the script first. A script is started itself: its first line may name another
    interpreter by now. ``python -m`` is started by the interpreter as it was typed.
    """
    script, *rest = arguments
    words = tuple(original[: len(original) - len(rest)])
    is_script = words[-1:] == (script,) and os.access(script, os.X_OK)
    return (script,) if is_script and Path(script).is_file() else words


@cache
def ours() -> tuple[str, ...]:
    """Those words for this process, as they were when this was first asked.

    Later the script may be gone, and the interpreter that is left could not start it.
    """
    return program(sys.orig_argv, sys.argv)


def take_over(handover: str) -> None:
    """Become that program under the same pid, with the same arguments. Raises OSError."""
    words = ours()
    path = shutil.which(words[0]) or words[0]
    # The program is the one that this process was started as, and it has just been checked.
    os.execve(path, [*words, *sys.argv[1:]], environment.with_handover(handover))  # noqa: S606 - see above
