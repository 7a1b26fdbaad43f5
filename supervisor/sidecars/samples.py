"""``NAME.samples.json``: the most recent samples and the gate's outcomes, until a pivot.

The file is bounded and replaced atomically; evicted samples are appended, one JSON line each,
under ``archive/``, so none is ever lost. A sample's text is data, never an instruction. Unknown
keys are refused, older schemas migrated by name, newer ones refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from supervisor.core.coherence.gate import GateState, Outcome
from supervisor.core.coherence.judging import Judged
from supervisor.core.messages import KeepSamples
from supervisor.errors import RefusedError
from trainer.contract.durable import AppendFile, sync_folder, write_file

SCHEMA: Final = "stepkeeper.samples/2"
KEPT = 500
KEPT_CHARACTERS = 4 << 20  # of all texts together: the whole file is written for each sample


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SampleModel(_Model):
    """One sample with the policy and attempt that made it; scores and verdict when judged.

    ``characters`` counts those of the whole text, of which ``text`` may be the beginning.
    """

    step: int
    attempt: int
    policy: int
    prompt: str
    text: str
    characters: int
    temperature: float
    scores: dict[str, float]
    verdict: str


class OutcomeModel(_Model):
    """All samples of a step, as in ``core.coherence.gate.Outcome``."""

    step: int
    attempt: int
    judged: int
    failed: int
    score: float | None
    verdict: str
    counts: bool
    sum: float
    firing: str
    sketches: tuple[tuple[int, ...], ...]


class GateModel(_Model):
    """What the gate knows. ``standing`` says it in words and numbers, for readers alone."""

    outcomes: list[OutcomeModel] = Field(default_factory=list)
    missing: int | None = None
    standing: dict[str, Any] = Field(default_factory=dict)


class SamplesModel(_Model):
    """The whole file."""

    schema_: Literal["stepkeeper.samples/2"] = Field(default=SCHEMA, alias="schema")
    samples: list[SampleModel] = Field(default_factory=list)
    gate: GateModel = GateModel()


class Samples:
    """The samples of the policy in force; the only writer of the file."""

    def __init__(
        self, path: Path, archive: Path, kept: int = KEPT, characters: int = KEPT_CHARACTERS
    ) -> None:
        self._path = path
        self._archive = archive
        self._kept = kept
        self._characters = characters
        found = read(path) if path.exists() else SamplesModel()
        self._samples = found.samples
        self.gate = state_of(found.gate)

    def keep(self, effect: KeepSamples) -> None:
        """Add samples and replace what is known of the gate, in one write.

        One that a repeated fold reports again is not added twice. Raises OSError.
        """
        samples = list(self._samples)
        known = {_key(sample) for sample in samples}
        for judged in effect.samples:
            model = _model(judged, effect.attempt, effect.policy)
            if _key(model) not in known:
                known.add(_key(model))
                samples.append(model)
        at = self._first_kept(samples)
        if at:
            self._keep_evicted(samples[:at])
        samples = samples[at:]
        outcomes = [OutcomeModel(**outcome._asdict()) for outcome in effect.gate.outcomes]
        gate = GateModel(outcomes=outcomes, missing=effect.gate.missing, standing=effect.standing)
        text = SamplesModel(samples=samples, gate=gate).model_dump_json(by_alias=True, indent=1)
        write_file(self._path, text.encode("utf-8") + b"\n")
        self._samples = samples
        self.gate = effect.gate

    def forget(self) -> None:
        """Begin empty, after a pivot has moved the file away."""
        self._samples = []
        self.gate = GateState()

    def _first_kept(self, samples: list[SampleModel]) -> int:
        at, room = len(samples), self._characters
        while at and len(samples) - at < self._kept:
            room -= len(samples[at - 1].text) + len(samples[at - 1].prompt)
            if room < 0:
                break
            at -= 1
        return at

    def _keep_evicted(self, evicted: list[SampleModel]) -> None:
        if not self._archive.is_dir():
            self._archive.mkdir(mode=0o750)
            sync_folder(self._archive.parent)
        lines = b"".join(s.model_dump_json().encode("utf-8") + b"\n" for s in evicted)
        file = AppendFile(self._archive / "samples-evicted.jsonl", create=True)
        try:
            file.append(lines)
            file.sync()  # before the file that still holds them is replaced
        finally:
            file.close()


def read(path: Path) -> SamplesModel:
    """The file. Raises RefusedError or OSError."""
    try:
        record: Any = json.loads(path.read_bytes())
        return SamplesModel.model_validate(migrated(record))
    except (ValueError, RecursionError) as error:
        text = str(error).splitlines()[0]
        raise RefusedError(f"cannot use {path}: {text}; move it away to begin anew") from None


def migrated(record: Any) -> Any:  # noqa: ANN401 - checked by who calls
    """The record as of the newest schema; one of an unknown schema as it is."""
    while isinstance(record, dict):
        step = MIGRATIONS.get(str(record.get("schema")))
        if step is None:
            break
        record = step(record)
    return record


def _from_1(record: dict[str, Any]) -> dict[str, Any]:
    """What was never cut is as long as it is; the gate knew nothing yet."""
    samples = record.get("samples", [])
    if isinstance(samples, list):
        samples = [_measured(sample) for sample in samples]
    return {**record, "schema": SCHEMA, "samples": samples, "gate": {}}


def _measured(sample: Any) -> Any:  # noqa: ANN401 - checked by who calls
    if not isinstance(sample, dict) or not isinstance(sample.get("text"), str):
        return sample
    return {"scores": {}, "verdict": "", **sample, "characters": len(sample["text"])}


MIGRATIONS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "stepkeeper.samples/1": _from_1,
}


def _key(sample: SampleModel) -> tuple[int, int, str, str]:
    return sample.step, sample.attempt, sample.prompt, sample.text


def _model(judged: Judged, attempt: int, policy: int) -> SampleModel:
    return SampleModel(
        attempt=attempt, policy=policy, **{**judged._asdict(), "scores": dict(judged.scores)}
    )


def state_of(model: GateModel) -> GateState:
    """What the gate knows, as it was kept."""
    outcomes = tuple(Outcome(**outcome.model_dump()) for outcome in model.outcomes)
    return GateState(outcomes, None, model.missing)
