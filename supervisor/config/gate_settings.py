"""``[gate]``: the coherence gate over the samples that a trainer draws."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from supervisor.config.parsing import Section
from supervisor.core.coherence.gate import Rules
from supervisor.core.rungs import Action

_LONGEST = 64 << 20  # bytes of a word list

Share = Annotated[float, Field(gt=0, lt=1)]


class GateSettings(Section):
    """When samples fail, and what is done then; a rule whose threshold is 0 is off.

    ``every`` of None is the cadence of ``[samples]``.
    """

    every: int | None = Field(default=None, ge=0)
    after: int = Field(default=2000, ge=0)
    min_tokens: int = Field(default=32, ge=4, le=512)
    fail_below: float = Field(default=30.0, ge=0, le=100)
    words: str | None = Field(default=None, min_length=1)
    in_a_row: int = Field(default=5, ge=0, le=100)
    failing: int = Field(default=7, ge=0, le=100)
    window: int = Field(default=25, ge=1, le=100)
    cusum: float = Field(default=9.0, ge=0, le=1000)
    healthy: Share = 0.05
    collapsed: Share = 0.3
    action: Literal["record", "alert", "checkpoint", "freeze", "rollback", "stop"] = "alert"

    @model_validator(mode="after")
    def _sensible(self) -> GateSettings:
        if self.failing > self.window:
            raise ValueError(f"failing: {self.failing} of {self.window} samples cannot fail")
        if self.healthy >= self.collapsed:
            raise ValueError("healthy: fewer samples have to fail than of a collapsed model")
        return self


def rules(settings: GateSettings, samples_every: int, run: Path) -> tuple[Rules, str]:
    """The rules, and why the word list is left out of them: empty where it is not."""
    words, problem = None, ""
    if settings.words is not None:
        try:
            words = _words(run / settings.words)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            problem = f"cannot use gate.words = {settings.words!r}: {why}; words are not scored"
    values = settings.model_dump(exclude={"every", "words", "action"})
    every = samples_every if settings.every is None else settings.every
    return Rules(every=every, words=words, action=Action(settings.action), **values), problem


def _words(path: Path) -> frozenset[str]:
    """One word a line, in lower case. Raises OSError or ValueError."""
    if path.stat().st_size > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST >> 20} MiB")
    words = path.read_text("utf-8").casefold().split()
    if not words:
        raise ValueError("it holds no word")
    return frozenset(words)
