"""What the scripted trainer is asked to do: its arguments, as one plain value.

Every argument is ``--name value``; those that default to False stand alone. Faults happen only in
the attempts that ``--attempts`` names (``all``, or numbers with commas between them).
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

SETTINGS: dict[str, int | float | str | bool] = {
    "steps": 1_000_000,  # the last step of the run
    "rate": 0.0,  # steps a second; 0 is as fast as possible
    "every": 100,  # cadence of checkpoints, in steps
    "n_params": 64,
    "format": "bin",  # or pt, or sharded; with commas between them, one for each attempt
    "seed": 7,
    "arms": "a,b",  # used only with --no-phases
    "no_phases": False,  # ignore the orders' phases: an even mix, phase 0
    "phase_wait": 30.0,  # seconds to wait for a phase before the last one is repeated
    "sigusr1": "now",  # or boundary
    "sample_every": 0,
    "sample_text": "",  # said at every sample, in place of a few words
    "collapse_at": 0,  # from this step on every sample is a loop of one word
    "mute": False,  # draws no sample, whatever is asked for
    "no_companion": False,
    "no_data": False,  # no data digest: replayed steps are consistent, not proved
    "tell_draws": False,  # each step reports the number that drew its arm
    "forget_draws": False,  # resumes with the draws of a start from nothing
    "no_final": False,  # no checkpoint at the last step
    "buffer": 1,  # report lines in one write
    "attempts": "all",  # the attempts in which faults happen
    "workers": 0,  # children that ignore TERM and USR1 and outlive the trainer
    "stray_workers": 0,  # the same, in sessions of their own
    "say_start": False,  # print when the first instruction ran
    "ready_after": 0.0,  # seconds before the first report
    "slow_save": 0.0,  # seconds that every checkpoint takes
    "creeping_save": 0.0,  # the same, with a few bytes more again and again
    "beside": False,  # saves while it goes on, and tells of it at a later step's end
    "losses": False,  # companions hold the losses since the checkpoint before
    "show_stacks": False,  # a handler for SIGQUIT that prints them
}
FAULTS: dict[str, int | float | str | bool] = {
    "exit_at": 0,  # after this step's report
    "exit_code": 3,
    "kill_at": 0,  # SIGKILL to itself after this step's report
    "eat_at": 0,  # takes a GiB of memory and stands still after this step's report
    "hang_at": 0,  # stands still after this step's report
    "hang_in_save": 0,  # at this step: half a temporary file, then no more
    "hang_loading": False,  # stands still before ready
    "hang_ending": False,  # reports finished and does not exit
    "wakes": False,  # SIGTERM ends standing still
    "differ_from": 0,  # other losses from this step on
    "other_loss_at": 0,  # a companion holds another loss of this step
    "ignore_term": False,
    "ignore_exit": False,  # saves as ordered, then goes on
    "no_ready": False,  # exits with exit_code before ready
    "die_loading": False,  # exits with exit_code once it has begun to load
    "die_in_save": 0,  # at this step: half a temporary file, then SIGKILL
    "die_before_publish": 0,  # at this step: companion visible, .bin not, then SIGKILL
    "corrupt_at": 0,  # at this step: a checkpoint that must be refused
    "corrupt": "size",  # size, step, count, nan, negative, zero or digest
    "half_line_at": 0,  # half of this step's report, then exit_code
    "bad_line_at": 0,  # a line that is no report, before this step
    "gap_at": 0,  # a number left out before this step
    "nan_at": 0,
    "nan_draws": "",  # as in 150-152: steps whose data are these draws of the run
    "heedless": False,  # skips no data
    "nan_as": "null",  # null, or a word as C prints it: nan, -nan, inf, -inf
}


def parse(words: list[str], attempt: int) -> SimpleNamespace:
    """The options of one attempt. Exits with 2 and one line where a word is unknown."""
    values = SETTINGS | FAULTS
    rest = iter(words)
    for word in rest:
        name = word.removeprefix("--").replace("-", "_")
        if name not in values or not word.startswith("--"):
            sys.stderr.write(f"cannot use {word}: not an argument of the scripted trainer\n")
            raise SystemExit(2)
        default = (SETTINGS | FAULTS)[name]
        values[name] = True if isinstance(default, bool) else type(default)(next(rest))
    if values["attempts"] != "all" and str(attempt) not in str(values["attempts"]).split(","):
        values |= FAULTS
    formats = str(values["format"]).split(",")
    values["format"] = formats[min(attempt, len(formats)) - 1]
    return SimpleNamespace(**values)
