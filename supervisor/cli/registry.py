"""Every command by name: the function behind it and its line in the help.

A function takes typer parameters (see ``parameters.py``) and returns its exit code. It prints
through ``printing.py``, raises the errors of ``supervisor.errors`` and never exits by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple


class Command(NamedTuple):
    """``target`` is ``module:function`` under ``supervisor.cli``."""

    target: str
    help: str

    def load(self) -> Callable[..., int]:
        """Import the module and give the function."""
        module, _, name = self.target.partition(":")
        function: Callable[..., int] = getattr(import_module(f"supervisor.cli.{module}"), name)
        return function


COMMANDS: Final[dict[str, Command]] = {
    "demo": Command("demo:demo", "Keep a real training run, live, and show what that means."),
    "init": Command("starting:init", "Make a run directory with commented settings."),
    "check": Command("starting:check", "Check the settings of a run and name every problem."),
    "run": Command("starting:run", "Keep a run: start or adopt its trainer and stay with it."),
    "list": Command("listing:list_runs", "List the runs under the state directory."),
    "status": Command("status:status", "Show where a run stands and what is at risk now."),
    "save": Command("acting:save", "Have a checkpoint written now, and wait for its seal."),
    "reload": Command("reloading:reload", "Put edited settings or a new version in force."),
    "stop": Command("acting:stop", "Stop a run with a sealed checkpoint of its last step."),
    "release": Command("acting:release", "Let a run start again that was stopped with --hold."),
    "pivot": Command("pivoting:pivot", "Change the data policy in mid-run, or plan it."),
    "policy": Command("policy_lint:policy", "Look at a policy by itself: policy lint FILE."),
    "rewind": Command("rewinding:rewind", "Go on from an earlier sealed checkpoint."),
    "fork": Command("forking:fork", "Make a run of its own from a sealed checkpoint."),
    "export": Command("exporting:export", "Take a model out, for inference or to resume it."),
    "tail": Command("reading_tail:tail", "Show the newest steps, and follow them."),
    "logs": Command("reading_logs:logs", "Show what the trainer printed, and follow it."),
    "attempts": Command("reading_attempts:attempts", "List every attempt, why it ended, its cost."),
    "events": Command("reading_events:events", "Show what happened, in words, and follow it."),
    "hooks": Command("hooks:hooks", "List who is told of events, and try it."),
    "samples": Command("samples:samples", "Show what the model said, its scores and verdicts."),
    "loss": Command("reading_loss:loss", "Show, smooth, export or plot the loss."),
    "report": Command("report:report", "Look back on a run: all of it on one page."),
    "explain": Command("explaining:explain", "Say why a step drew its arm, and check that."),
    "audit": Command("reading_audit:audit", "Verify the whole history of a run."),
    "prove": Command("proving:prove", "Prove that a resume is exact, with a control that fails."),
    "checkpoints": Command(
        "checkpoints:checkpoints", "List, verify and plan the checkpoints of a run."
    ),
    "pin": Command("pinning:pin", "Keep a checkpoint for ever."),
    "unpin": Command("pinning:unpin", "Leave a checkpoint to retention again."),
    "unquarantine": Command("quarantine:unquarantine", "Trust a suspected checkpoint again."),
    "install-unit": Command(
        "installing:install_unit", "Write the unit by which systemd keeps runs."
    ),
}
