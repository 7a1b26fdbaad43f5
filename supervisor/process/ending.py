"""Ask the kernel how a process ended that is not our child and that we cannot wait for."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from supervisor.process.identity import Identity, stat

# struct pidfd_info in its first size: mask, cgroup id, eleven ids, exit code.
_INFO = struct.Struct("<QQ11Ii")
_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11  # _IOWR(0xFF, 11, pidfd_info)
_EXIT = 1 << 3


def status_of_adopted(identity: Identity, pidfd: int) -> int | None:
    """How an ended process ended, as in subprocess; None where the kernel does not say.

    As long as its parent has not taken notice, /proc shows its status; afterwards only the pidfd
    knows, from Linux 6.15 on.
    """
    facts = stat(identity.pid)
    if facts is not None and facts.dead and facts.start_ticks == identity.start_ticks:
        return os.waitstatus_to_exitcode(facts.status) if _may_look(identity.pid) else None
    record = bytearray(_INFO.pack(_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, record)
    except OSError:
        return None
    mask, *_, code = _INFO.unpack(record)
    return os.waitstatus_to_exitcode(code) if mask & _EXIT else None


def _may_look(pid: int) -> bool:
    """Whether the status in /proc is shown to us; to others it reads as 0."""
    try:
        owner = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return False
    return os.geteuid() in (0, owner)
