"""The demo's last words: the loss as a plot, the mix per policy, and what to try next."""

from __future__ import annotations

from collections import Counter

from supervisor.cli.demo_stage import Stage
from supervisor.cli.demo_watch import Facts, served
from supervisor.cli.plot import ALPHA, plot
from supervisor.cli.printing import table
from supervisor.core.smoothing import ema

GOAL, GOAL_STEPS = 2.6, 600  # as many steps bring the loss below that
FEW_STEPS = 10  # fewer promise nothing


def sum_up(stage: Stage) -> None:
    """What the whole run looks like, read from its files."""
    say, watch = stage.screen.say, stage.watch
    say("\nThe loss over the whole run")
    losses = watch.losses()
    say(plot(losses, marks=stage.marks))
    smooth = [loss for loss in ema((loss for _, loss in losses), ALPHA) if loss is not None]
    if len(smooth) >= FEW_STEPS:
        bound = GOAL if len(losses) >= GOAL_STEPS else smooth[0]
        stage.claim(
            smooth[-1] < bound,
            f"the EMA of the loss fell from {smooth[0]:.3f} to {smooth[-1]:.3f}, below {bound:.3f}",
        )
    say("\nSequences of each arm")
    say(_mix(watch.lines()))
    if sample := watch.last_sample():
        say(f"\nThe model's newest sample, after {watch.step} steps: {sample!a}")


def what_next(stage: Stage, *, goes_on: bool) -> None:
    """Commands on the directory that is left behind."""
    tries = [
        ("status", (), "where it stands, and what is at risk"),
        ("tail", ("-n", "5"), "the newest steps"),
        ("loss", ("--plot",), "the plot again, from the ledger alone"),
        ("checkpoints", ("--verify",), "every checkpoint, read back"),
        ("audit", (), "the whole history, verified"),
        ("report", ("-o", "{run}/report.html"), "all of it on one page"),
    ]
    if goes_on:
        tries.insert(0, ("run", (), "go on from the last step; Ctrl-C stops it"))
        tries.append(("pivot", ("--cap", "names=0.05", "--plan"), "what a pivot would do"))
    lines = [(f"{stage.line(verb, *words)}", why) for verb, words, why in tries]
    width = max(len(line) for line, _ in lines)
    stage.screen.say(f"\nLeft in {stage.shown}; try next:")
    for line, why in lines:
        stage.screen.say(f"   {line:<{width}}   {why}")


def _mix(lines: list[Facts]) -> str:
    """How many sequences each arm served, one column for each policy."""
    counts: dict[int, Counter[str]] = {}
    for line in lines:
        counts.setdefault(line["policy"], Counter()).update(served(line["arm"]))
    arms = sorted({arm for count in counts.values() for arm in count})
    rows = [
        [f"   {arm}", *(f"{n[arm]} ({n[arm] / n.total():.0%})" for n in counts.values())]
        for arm in arms
    ]
    return table(["   arm", *(f"policy {policy}" for policy in counts)], rows)
