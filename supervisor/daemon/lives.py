"""A process keeps a run through any number of lives: each reload begins another one."""

from __future__ import annotations

from pathlib import Path

from supervisor import environment
from supervisor.config import begin_with
from supervisor.daemon import Daemon, handover, successor
from supervisor.daemon.proof_news import refuse_unproved
from supervisor.perform import say
from supervisor.process.locks import held


def keep(run: Path, *, moved: bool = False) -> int:
    """Keep the run until it is finished, stopped or given up; the exit code says which.

    ``moved`` says that the run was kept elsewhere. Raises StepkeeperError where it cannot begin.
    """
    left = handover.load(environment.take_handover())
    trained = left is not None or held(run / "trainer.lock")
    config, why = begin_with(run, keep=trained)
    if not trained:  # a trainer that lives is adopted, whatever is required of the next one
        refuse_unproved(config)
    if why:
        say(f"{why}: going on with the settings in force", alarm=True)
    while True:
        daemon = Daemon(config, environment.own(), moved=moved, left=left)
        code = daemon.run()
        left = daemon.place.handover
        if left is None:
            return code
        try:
            successor.take_over(left.dump())
        except OSError as error:
            say(f"cannot reload: {successor.ours()[0]}: {error.strerror}; going on", alarm=True)
