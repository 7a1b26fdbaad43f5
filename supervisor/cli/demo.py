"""``stepkeeper demo``: a real training run, kept before the operator's eyes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli.demo_closing import sum_up, what_next
from supervisor.cli.demo_keeper import LOG
from supervisor.cli.demo_screen import screen
from supervisor.cli.demo_settings import Plan, plan_for, prepare
from supervisor.cli.demo_stage import Stage
from supervisor.cli.demo_tour import Tour
from supervisor.cli.interrupts import ends_are_interrupts
from supervisor.errors import StepkeeperError, UsageError

DEFAULT_STEPS = 600
LEAST_STEPS = 96  # a cadence of 8: the tour acts in the middle of one
INTERRUPTED = 130  # as a shell says of a command ended by Ctrl-C

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A directory that is not there yet.")]
Steps = Annotated[int, typer.Option(min=1, metavar="N", help="How many steps are shown.")]
WithTour = Annotated[
    bool, typer.Option("--tour/--no-tour", help="Kill, pivot, stop and audit, or just train.")
]


def demo(
    folder: Folder = Path("stepkeeper-demo"), steps: Steps = DEFAULT_STEPS, *, tour: WithTour = True
) -> int:
    """Keep a real training run, live: text of this Python's own, on the CPU, nothing downloaded.

    The tour kills the trainer and the supervisor, pivots, stops and audits, and looks up each
    claim in the run's files: exit 1 where one does not hold.
    """
    if tour and steps < LEAST_STEPS:
        raise UsageError(
            f"cannot show the tour in {steps} steps: give --steps {LEAST_STEPS} or more, or "
            "--no-tour"
        )
    run = folder.absolute()
    _refuse_what_is_there(run, folder)
    plan = plan_for(steps, tour=tour)
    sizes = prepare(run, plan)
    with screen(plan.shown, max(1, plan.cadence // 2)) as view:
        stage = Stage(run, str(folder), view)
        arms = ", ".join(f"{arm} {size // 1000} kB" for arm, size in sizes.items())
        view.say(f"A run in {folder}: {arms}; a checkpoint every {plan.cadence} steps")
        view.say(f"   $ {stage.line('run')}   (its output: {folder / LOG})")
        return _keep(stage, plan, tour=tour)


def _refuse_what_is_there(run: Path, shown: Path) -> None:
    if run.is_dir() and not any(run.iterdir()):
        return
    if (run / "run.toml").exists():
        raise UsageError(
            f"cannot make the demo in {shown}: it holds a run; give another directory, or go on "
            f"with: stepkeeper run {shlex.quote(str(shown))}"
        )
    if run.exists() or run.is_symlink():
        raise UsageError(
            f"cannot make the demo in {shown}: it is not empty; give a directory that is not there"
        )


def _keep(stage: Stage, plan: Plan, *, tour: bool) -> int:
    """Start the supervisor, play, and never leave without having stopped it."""
    with ends_are_interrupts():
        try:
            stage.keeper.start()
            if tour:
                Tour(stage, plan).play()
            else:
                _watch_to_the_end(stage)
        except KeyboardInterrupt:
            _stop(stage, "interrupted")
            return INTERRUPTED
        except BaseException:
            _stop(stage, "the demo cannot go on")
            raise
        sum_up(stage)
        what_next(stage, goes_on=tour)
    if stage.failed:
        raise StepkeeperError("cannot stand by the demo: " + "; ".join(stage.failed))
    return 0


def _watch_to_the_end(stage: Stage) -> None:
    keeper, watch = stage.keeper, stage.watch
    stage.until(lambda: not keeper.alive, "the end of the run", alone=True)
    stage.claim(
        keeper.exit_code == 0, f"the supervisor ended the run, exit code {keeper.exit_code}"
    )
    if keeper.trainer_lives():
        stage.command("stop")
    seals = watch.seals()
    stage.claim(seals and seals[0].step == watch.step, f"the last step, {watch.step}, is sealed")


def _stop(stage: Stage, why: str) -> None:
    """Stop what runs, with a checkpoint, and say what is left where."""
    keeper, say = stage.keeper, stage.screen.say
    say(f"\n{why}: stopping the run with a checkpoint of this step")
    try:
        if keeper.alive:
            keeper.terminate()
            stage.until(lambda: not keeper.alive, "the last seal", alone=True)
        elif keeper.trainer_lives():
            stage.command("stop")
    except KeyboardInterrupt:
        say(f"not waiting any longer; see to it with: {stage.line('stop')}")
        return
    seals = stage.watch.seals()
    sealed = f"sealed at step {seals[0].step}" if seals else "without a checkpoint"
    say(f"stopped, {sealed} of {stage.watch.step}; the run is in {stage.shown}, go on with:")
    say(f"   {stage.line('run')}")
