"""A file layer that dies at a call, and recordings of real lives from which every crash is made.

``calls`` stands between ``os`` and the code under test in this process. ``shim.c`` notes what the
real programs do to their files; ``disk`` follows it and knows what a power cut may take;
``states`` enumerates what it may leave.
"""

from tests.support.crash_fs.calls import CrashFs, Killed, crash_fs
from tests.support.crash_fs.disk import Disk
from tests.support.crash_fs.operations import Operation, build_shim, read_log, snapshot
from tests.support.crash_fs.states import Chosen, states_of

__all__ = [
    "Chosen",
    "CrashFs",
    "Disk",
    "Killed",
    "Operation",
    "build_shim",
    "crash_fs",
    "read_log",
    "snapshot",
    "states_of",
]
