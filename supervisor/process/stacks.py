"""Have a living process show where it stands: by a signal it handles, or by py-spy."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

_MOST_BYTES = 1 << 20


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal; one without might be ended by it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return False
    for line in status.splitlines():
        name, _, mask = line.partition(":")
        if name == "SigCgt":
            return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def py_spy() -> str | None:
    """The program's path, from PATH or beside our interpreter; None where it is not installed."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("py-spy") or shutil.which("py-spy", path=beside)


def dump(program: str, pid: int, seconds: float) -> bytes:
    """What py-spy says of the process, within so many seconds. Raises OSError.

    It reads memory without stopping the process: a hung one stands still, and a stopped one would
    keep it waiting.
    """
    command = [program, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{program} took longer than {seconds:g} s") from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(f"{program}: {words[-1] if words else f'exit code {done.returncode}'}")
    return done.stdout[:_MOST_BYTES]
