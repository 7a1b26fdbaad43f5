"""The end of a step: requests and orders are looked at, checkpoints written, holds kept.

Every place that waits comes back here again and again, so a stop, a save or an orphan's end is
never far away.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainer import clock
from trainer.cadence import Leave
from trainer.mixer import Batch, NothingServedError
from trainer.phases import follow, repeat
from trainer.reports import say
from trainer.run import Run
from trainer.speaking import speak

_LOOK_AGAIN = 0.02
_TRY_SOURCES_AGAIN = 1.0


def attend(run: Run) -> Leave:
    """Answer what was asked since the last look; returns why training shall end, or nothing."""
    # Signals first: an order is on disk before the signal that announces it is sent.
    signalled = run.requests.take_save()
    complaint = run.orders.look()
    if complaint:
        say(complaint)
    if run.orphan is not None and run.orphan.abandoned(clock.seconds()):
        say("run.lock has been free for too long: saving, and ending")
        run.requests.stop = True
    state = run.state
    run.keeper.collect()
    if state.step == run.began:  # nothing to save yet; requests wait for the first step
        if signalled:
            run.requests.ask_save()
        return "stop" if run.requests.stop else ""
    due = run.saves.decide(
        state.step,
        last=state.step >= run.last_step,
        stop=run.requests.stop,
        signalled=signalled,
        order=run.orders.now.save,
        since=run.keeper.since,
    )
    order = run.orders.now.save
    if due.save is not None and order is not None and order.sample:
        speak(run)
    if due.reason:
        run.keeper.keep(state, due)
    for owed in run.keeper.take_owed():
        run.saves.reopen(owed)
    return due.leave


def hold(run: Run) -> Leave:
    """Wait while the orders say so, without limit."""
    for leave in _waiting(run):
        if leave or run.orders.now.hold is None:
            return leave
    return ""


def begin_phase(run: Run) -> Leave:
    """Make sure that a phase is in progress: the next one ordered, or the last one repeated.

    With no phase ever ordered there is nothing to repeat, so the wait has no limit.
    """
    state = run.state
    if state.phase is not None and not state.phase.over:
        return ""
    until = clock.seconds() + run.phase_wait
    for leave in _waiting(run):
        if leave:
            return leave
        found = follow(state.phase, run.orders.now, state.step)
        if found is None and state.phase is not None and clock.seconds() > until:
            say(f"no orders for phase {state.phase.number + 1}: repeating the last one")
            found = repeat(state.phase, state.step)
        if found is not None:
            state.phase = found
            return ""
    return ""


def next_batch(run: Run) -> tuple[Batch | None, Leave]:
    """The batch of the next step; while no arm can serve, wait and try again."""
    settings, phase = run.sections.train, run.state.phase
    if phase is None:
        return None, ""
    retry_at = 0.0
    for leave in _waiting(run):
        if leave:
            return None, leave
        if clock.seconds() < retry_at:
            continue
        try:
            batch = run.state.mixer.batch(phase.weights, settings.batch * settings.accumulate)
        except NothingServedError as error:
            phase.failed(error.failed)
            run.say_once(f"cannot draw a batch: {error}; trying again")
            retry_at = clock.seconds() + _TRY_SOURCES_AGAIN
            continue
        phase.failed(batch.failed)
        for problem in batch.problems:
            run.say_once(problem)
        return batch, ""
    return None, ""


def skip(run: Run) -> Leave:
    """Draw what a rollback leaves out and throw it away, before the first step.

    The next batch is then another than the checkpoint foretells.
    """
    say(f"skipping the data of {run.skip} steps, as STEPKEEPER_SKIP asks")
    leave: Leave = ""
    while run.skip and not leave:
        batch, leave = next_batch(run)
        run.skip -= batch is not None
        leave = leave or attend(run)
    run.expected = None
    return leave


def _waiting(run: Run) -> Iterator[Leave]:
    """Yield at once, then for ever: report the wait, pause, attend. Yields what attend says."""
    yield ""
    told = -1
    while True:
        if told != run.keeper.answers:  # at first, and after each report of a checkpoint
            told = run.keeper.answers
            run.doing("wait")
        clock.pause(_LOOK_AGAIN)
        yield attend(run)
