"""The operator's socket: one JSON line each way, a closed set of verbs, the kernel's word on who.

The socket is bound and connected through a descriptor of the run directory, since a Unix address
holds no more than 108 bytes and a path may be longer. The server stands in ``control.server``
alone, so that who only asks need not import it.
"""

from supervisor.control.asking import request
from supervisor.control.verbs import LIMIT, NAME

__all__ = ["LIMIT", "NAME", "request"]
