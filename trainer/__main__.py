"""``python -m trainer``: report first, import what is slow, then train.

The collector of garbage stays off until training begins: it would only walk over what torch's
import builds for good, and that is part of the time from a crash to the next step.
"""

from __future__ import annotations

import gc
import sys

from trainer import alone, signals
from trainer.contract.checkpoint_format import CheckpointFormatError
from trainer.errors import RefusedError, TrainerError
from trainer.launch import Launch, environment, read_launch
from trainer.reports import FileReports, Reports, say

_INTERRUPTED = 130


def main() -> int:
    """Train; returns the exit code of ``trainer.errors``, 0 for finished or stopped."""
    gc.disable()
    signals.ignore_save_requests()
    try:
        launch = read_launch(sys.argv[1:], environment())
        if not launch.alone:  # at a terminal it quits
            signals.show_stacks_when_asked()
        requests = signals.Requests()
        reports = _open_reports(launch, requests)
        reports.send("doing", what="import", step=launch.resumed_step)
        _train(launch, reports, requests)
    except TrainerError as error:
        say(str(error))
        return error.exit_code
    except CheckpointFormatError as error:
        say(str(error))
        return RefusedError.exit_code
    except KeyboardInterrupt:  # before handlers are in; nothing is lost
        return _INTERRUPTED
    return 0


def _open_reports(launch: Launch, requests: signals.Requests) -> Reports:
    if launch.reports is not None:
        return FileReports(launch.reports, lambda: requests.stop)
    alone.take_run(launch)
    return alone.Progress()


def _train(launch: Launch, reports: Reports, requests: signals.Requests) -> None:
    from trainer.loop import train  # noqa: PLC0415 - imports torch, after the first report
    from trainer.preparation import prepare  # noqa: PLC0415 - likewise

    run = prepare(launch, reports, requests)
    gc.freeze()
    gc.enable()
    train(run)


if __name__ == "__main__":
    sys.exit(main())
