"""The cause of an attempt's end, from what is proved of it and nothing else."""

from __future__ import annotations

from supervisor.core.messages import Cause
from supervisor.core.state import Attempt, Ending, Want

SIGKILLED = -9
UNSEEN = Ending(None, out_of_memory=False, draw=0.5)


def classify(attempt: Attempt, want: Want) -> Cause:
    """The first of these that holds.

    A verdict of ours (hung, broke the contract, could not be started); killed by the kernel for
    want of memory; ended in good order as it reported (finished, stopped); unknown, where nobody
    could wait for it; killed by SIGKILL, which is a stop where one was wanted; failed, or never
    ready where it had not begun.
    """
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
        return Cause.STOPPED if want is Want.STOP else Cause.KILLED
    return Cause.FAILED if attempt.ready else Cause.NEVER_READY
