"""``NAME.samples.json``: the most recent samples, until a pivot; what is evicted is kept.

The file is bounded and replaced atomically; evicted samples are appended, one JSON line each,
under ``archive/``, so none is ever lost. A sample's text is data, never an instruction.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from supervisor.errors import RefusedError
from trainer.contract.durable import AppendFile, sync_folder, write_file
from trainer.contract.wire import Sample

SCHEMA: Final = "stepkeeper.samples/1"
KEPT = 500


class SampleModel(BaseModel):
    """One sample with the policy and attempt that made it; scores and verdict when judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    attempt: int
    policy: int
    prompt: str
    text: str
    temperature: float
    scores: dict[str, float] = Field(default_factory=dict)
    verdict: str = ""


class SamplesModel(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal["stepkeeper.samples/1"] = Field(default=SCHEMA, alias="schema")
    samples: list[SampleModel] = Field(default_factory=list)


class Samples:
    """The samples of the policy in force; the only writer of the file."""

    def __init__(self, path: Path, archive: Path, kept: int = KEPT) -> None:
        self._path = path
        self._archive = archive
        self._kept = kept
        self._samples = read(path) if path.exists() else []

    def add(self, attempt: int, policy: int, sample: Sample) -> None:
        """Add a sample; one that a repeated fold reports again is not added twice.

        Raises OSError.
        """
        model = SampleModel(
            step=sample.step,
            attempt=attempt,
            policy=policy,
            prompt=sample.prompt,
            text=sample.text,
            temperature=sample.temperature,
        )
        key = (model.step, model.attempt, model.prompt)
        if any((s.step, s.attempt, s.prompt) == key for s in self._samples):
            return
        samples = [*self._samples, model]
        evicted = samples[: -self._kept]
        if evicted:
            self._keep_evicted(evicted)
        samples = samples[-self._kept :]
        text = SamplesModel(samples=samples).model_dump_json(by_alias=True, indent=1)
        write_file(self._path, text.encode("utf-8") + b"\n")
        self._samples = samples

    def forget(self) -> None:
        """Begin empty, after a pivot has moved the file away."""
        self._samples = []

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


def read(path: Path) -> list[SampleModel]:
    """The samples in a file. Raises RefusedError or OSError."""
    try:
        record: Any = json.loads(path.read_bytes())
        return SamplesModel.model_validate(record).samples
    except (ValueError, RecursionError) as error:
        text = str(error).splitlines()[0]
        raise RefusedError(f"cannot use {path}: {text}; move it away to begin anew") from None
