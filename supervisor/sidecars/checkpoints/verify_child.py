"""Read one checkpoint back in bounded memory and print a verdict as one JSON line.

``python -m supervisor.sidecars.checkpoints.verify_child FOLDER NAME [--sha256 HEX]
[--n-params N] [--companion-required] [--companion HEX] [--root NAME=FOLDER]... [--digest-only]
[--idle] [--progress]``. Exits 0 whenever it could answer. With ``--progress``, lines with the bytes
read so far go before.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from supervisor.sidecars.checkpoints.verify_companion import Expected
from supervisor.sidecars.checkpoints.verify_stream import Manner
from trainer.contract.checkpoint_format import CheckpointFormatError, form_of, step_of

_NICENESS: Final = 10  # the trainer comes first
_LAST: Final = 19  # and in the background everybody does
_CERTAIN: Final = (errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP)
_LEAST_BEST_EFFORT: Final = 7
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


def verify(path: Path, expected: Expected, manner: Manner = Manner()) -> dict[str, Any]:  # noqa: B008 - a plain value
    """The fields of a Verdict for the checkpoint at ``path``; nothing wrong with it raises."""
    found = {"step": step_of(path.name) or 0, "name": path.name, "sha256": "", "bytes": 0}
    found |= {"companion": "", "problem": "", "losses": []}
    try:
        _check(path, found, expected, manner)
    except CheckpointFormatError as error:
        found["problem"] = str(error)
    except OSError as error:
        problem = f"cannot read {error.filename or path}: {error.strerror}"
        # What is not there, or is no file, is a fault of the checkpoint; all else may pass.
        certain = error.errno in _CERTAIN
        doubt = f"cannot tell whether {path.name} is good: "
        found["problem"] = problem if certain else doubt + problem
    return found


def _check(path: Path, found: dict[str, Any], expected: Expected, manner: Manner) -> None:
    # Each imported where it is needed: a reader starts for every checkpoint.
    match form_of(path.name):
        case "pt":
            from supervisor.sidecars.checkpoints.verify_pt import check  # noqa: PLC0415 - see above
        case "sharded":
            from supervisor.sidecars.checkpoints.verify_sharded import check  # noqa: PLC0415 - likewise
        case _:
            from supervisor.sidecars.checkpoints.verify_bin import check  # noqa: PLC0415 - likewise
    check(path, found, expected, manner)


def _step_back(*, idle: bool) -> None:
    """Let others have the processor and the disk first; end with the parent, even while stopped."""
    # Imported here, so that reading in this process costs no more than it must.
    import psutil  # noqa: PLC0415 - see above

    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.nice(_LAST if idle else _NICENESS)
    with contextlib.suppress(OSError, psutil.Error):  # a sandbox may forbid it
        if idle:
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
        else:
            psutil.Process().ionice(psutil.IOPRIO_CLASS_BE, _LEAST_BEST_EFFORT)


def main(arguments: list[str]) -> int:
    """Print the verdict; 0."""
    parser = argparse.ArgumentParser(prog="verify_child", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--sha256", default="")
    parser.add_argument("--n-params", type=int, default=0)
    parser.add_argument("--companion-required", action="store_true")
    parser.add_argument("--companion", default="")
    parser.add_argument("--root", action="append", default=[])
    for flag in ("--digest-only", "--idle", "--progress"):
        parser.add_argument(flag, action="store_true")
    given = parser.parse_args(arguments)
    _step_back(idle=given.idle)
    roots = [root.partition("=") for root in given.root]
    expected = Expected(
        given.sha256,
        given.n_params,
        given.companion_required,
        given.companion,
        tuple((name, folder) for name, _, folder in roots),
    )
    manner = Manner(given.digest_only, given.idle, given.progress)
    verdict = verify(given.folder / given.name, expected, manner)
    sys.stdout.write(json.dumps(verdict) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
