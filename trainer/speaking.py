"""Let the model speak: a sample for each prompt, reported, once for a step."""

from __future__ import annotations

from trainer import sample
from trainer.run import Run


def speak(run: Run) -> None:
    """Report what the model says now, unless it did so at this step or is to end."""
    step, settings = run.state.step, run.sections.samples
    if run.spoken == step or run.stopping():
        return
    run.doing("sample")
    amid = run.stopping_amid("sample")
    for prompt, text in sample.draw(run.state.model, run.compute, settings, step, amid):
        run.reports.send(
            "sample", step=step, prompt=prompt, text=text, temperature=settings.temperature
        )
    run.spoken = step
