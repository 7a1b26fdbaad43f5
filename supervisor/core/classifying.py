"""The cause of an attempt's end, from what is proved of it and nothing else."""

from __future__ import annotations

from supervisor.core.messages import Cause
from supervisor.core.state import Attempt, Ending

SIGKILLED = -9
UNSEEN = Ending(None, out_of_memory=False, draw=0.5)


def classify(attempt: Attempt, *, stopping: bool = False, held: bool = False) -> Cause:
    """The first of these that holds.

    While the disk takes nothing (``held``): that, unless it finished or sealed something. A verdict
    of ours (hung, broke the contract, could not be started); killed by the kernel for want of
    memory; ended in good order as it reported (finished, stopped); unknown, where nobody could wait
    for it; killed by SIGKILL, which is a stop where it was being stopped (``stopping``); failed, or
    never ready where it had not begun.
    """
    cause = _cause(attempt, stopping=stopping)
    # Neither the trainer nor its checkpoint is to blame, whoever reads the record later.
    excused = held and not attempt.sealed and cause is not Cause.FINISHED
    return Cause.NO_ROOM if excused else cause


def _cause(attempt: Attempt, *, stopping: bool) -> Cause:
    ending = attempt.ending or UNSEEN
    if attempt.cause is not None:
        return attempt.cause
    # A worker may have been the victim: a trainer that still ended in good order was not.
    unseen = ending.status is None and not attempt.finished
    if ending.out_of_memory and (ending.status == SIGKILLED or unseen):
        return Cause.OUT_OF_MEMORY
    if attempt.finished and ending.status in (0, None):
        return Cause.FINISHED if attempt.finished == "steps" else Cause.STOPPED
    if ending.status is None:
        return Cause.UNKNOWN
    if ending.status == SIGKILLED:
        return Cause.STOPPED if stopping else Cause.KILLED
    return Cause.FAILED if attempt.ready else Cause.NEVER_READY
