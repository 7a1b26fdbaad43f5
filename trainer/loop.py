"""The training loop, in the order things happen."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

import torch

from trainer import boundary, sample
from trainer.cadence import Leave
from trainer.contract.wire import nonfinite
from trainer.mixer import Batch
from trainer.optimizer import clip
from trainer.reports import say
from trainer.run import Run
from trainer.speaking import speak


def train(run: Run) -> Leave:
    """Step until all steps are done or an end is asked for; report why, and return it."""
    try:
        leave = _steps(run)
    finally:
        run.keeper.close()
    run.reports.send("finished", reason=leave or "stop", step=run.state.step)
    return leave


def _steps(run: Run) -> Leave:
    state, settings = run.state, run.sections.train
    leave: Leave = "steps" if state.step >= settings.steps else boundary.hold(run)
    while not leave:
        leave = boundary.begin_phase(run)
        if leave:
            break
        if run.expected is not None:
            run.expected.check_generators(state)
        if run.skip:
            leave = boundary.skip(run)
            if leave:
                break
        batch, leave = boundary.next_batch(run)
        if batch is None:
            break
        run.waited()
        lr = state.next_rate
        look_at_first(run, batch, lr)
        losses, norm = advance(run, batch, lr)
        state.step += 1
        report_step(run, batch, losses, lr, norm)
        if state.phase is not None and state.phase.over:
            run.reports.send("phase", **state.phase.report(state.mixer.epochs()))
        look_at_model(run)
        leave = boundary.attend(run) or boundary.hold(run)
    return leave


def look_at_first(run: Run, batch: Batch, lr: float) -> None:
    """Right after a resume, before a weight changes, see that this is the step that was to come."""
    if run.expected is not None:
        for remark in run.expected.check_update(lr, batch.first):
            say(f"resumed from {run.expected.name}, but {remark}")
        run.expected = None


def advance(run: Run, batch: Batch, lr: float) -> tuple[list[float], float]:
    """One update of the weights; returns the loss of each sequence and the gradient's norm.

    Reading these back at the end is the only time the device is waited for.
    """
    state, settings = run.state, run.sections.train
    sequences = torch.from_numpy(batch.sequences.astype("int64")).to(run.compute.device)
    measured = []
    for start in range(0, sequences.size(0), settings.batch):
        with run.compute.autocast():
            losses = run.forward(sequences[start : start + settings.batch])
        torch.autograd.backward(losses.mean() / settings.accumulate)
        measured.append(losses.detach())
    gradients = [p.grad for p in state.optimizer.parameters if p.grad is not None]
    norm = clip(gradients, settings.clip)
    run.before_update()
    state.optimizer.step(gradients, lr)
    for parameter in state.optimizer.parameters:
        parameter.grad = None
    state.tokens += sequences.size(0) * (sequences.size(1) - 1)
    *values, length = torch.cat((*measured, norm.reshape(1))).tolist()
    return values, length


def report_step(run: Run, batch: Batch, losses: list[float], lr: float, norm: float) -> None:
    """Report the step and count its pulls in the phase."""
    state = run.state
    loss = fmean(losses)
    state.losses.add(state.step, loss)
    phase = state.phase
    if phase is not None:
        phase.done += 1
        pulls = losses if len(batch.arms) > 1 else [loss]
        for arm, value in zip(batch.arms, pulls, strict=True):
            phase.served(arm, value)
    run.reports.send(
        "step",
        step=state.step,
        loss=None if nonfinite(loss) else loss,
        nonfinite=nonfinite(loss),
        arm=_arms(run, batch),
        lr=lr,
        data=batch.digest,
        phase=phase.number if phase is not None else 0,
        grad_norm=None if nonfinite(norm) else norm,
        tokens=state.tokens,
        **_chance(batch),
    )


def _chance(batch: Batch) -> dict[str, float]:
    """How the step's arm was drawn, where one arm serves all of it."""
    if batch.draw is None or batch.propensity is None:
        return {}
    return {"draw": batch.draw, "propensity": batch.propensity}


def _arms(run: Run, batch: Batch) -> str:
    """``chat``, or ``chat=12 prose=4`` where each sequence drew its own."""
    if run.sections.data.mix == "step":
        return batch.arms[0]
    return " ".join(f"{arm}={count}" for arm, count in sorted(Counter(batch.arms).items()))


def look_at_model(run: Run) -> None:
    """Sample and evaluate when the step is due, before the checkpoint that belongs to them."""
    step, sections, model = run.state.step, run.sections, run.state.model
    if run.stopping():
        return
    if sections.samples.every and step % sections.samples.every == 0:
        speak(run)
    if sections.evaluate.every and step % sections.evaluate.every == 0:
        run.doing("eval")
        arms = run.state.mixer.arms.values()
        sequences, batch = sections.evaluate.sequences, sections.train.batch
        amid = run.stopping_amid("eval")
        losses = sample.evaluate(model, run.compute, arms, sequences, batch, amid)
        if losses is not None:
            run.reports.send("evaluation", step=step, losses=losses)
