"""Let one supervisor in: on locks that hold, alone, and where the run was last kept."""

from __future__ import annotations

import os
import shlex

from supervisor.config import Config
from supervisor.errors import RefusedError
from supervisor.perform.placing import refuse_elsewhere
from supervisor.process.filesystem import refuse_untrusted
from supervisor.process.locks import take
from supervisor.sidecars.bundle import is_bundle


def enter(config: Config, *, moved: bool = False) -> int:
    """Take the run's lock and return its descriptor, which holds it until it is closed.

    Nothing but the lock's own file is touched. Raises RefusedError, also as LockHeldError, and
    OSError.
    """
    if is_bundle(config.run):
        typed = shlex.quote(str(config.run))
        raise RefusedError(
            f"cannot keep {config.run}: it is a bundle, which stays as it was verified; make a run "
            f"of it: stepkeeper fork {typed} NEW"
        )
    refuse_untrusted(config.run, trust=config.trust_locks)
    lock = take(config.run / "run.lock")
    try:
        refuse_elsewhere(config.run, moved=moved)
    except BaseException:
        os.close(lock)
        raise
    return lock
