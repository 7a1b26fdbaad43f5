"""Export the weights of a sealed checkpoint for inference: nothing that training needs besides."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor import __version__, clock
from supervisor.errors import StepkeeperError
from supervisor.perform.exporting import (
    Kept,
    Origin,
    Part,
    Tell,
    exporting,
    keep,
    keep_sums,
    origin,
    read_back,
)
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.checkpoints.weights_child import Written
from trainer.contract.checkpoint_format import form_of
from trainer.contract.settings import Shape

MODEL: Final = "model.safetensors"
SCHEMA: Final = "stepkeeper.weights/1"
_ROOT: Final = Path(__file__).parents[2]  # what `supervisor` is imported from
_CHILD: Final = "supervisor.sidecars.checkpoints.weights_child"
_TABLES: Final = ("model", "train", "data")  # of run.toml: what the weights were made by
_OURS: Final = ("{python}", "-m", "trainer")

_README = """\
# Weights of {name} after step {step}

`{model}` holds {numbers} numbers ({dtypes}), {named}. Its metadata
and `config.json` name the run, the step, the checkpoint's digest and its seal.

{loading}

For inference alone: **training cannot be resumed from it**. Moments, generators, learning rate and
place in the data are not here: they stay in the run's checkpoint.

`sha256sum -c {sums}` tells whether the files are as they were written.
"""
_PLAIN = """\
```python
from safetensors.numpy import load_file

weights = load_file("model.safetensors")
```

`safetensors.torch` and others read it too."""
_TRANSFORMER = """\
```python
import json

from safetensors.torch import load_file

from trainer.contract.settings import Shape
from trainer.model import Transformer

with open("config.json") as file:
    model = Transformer(Shape(**json.load(file)["model"]))
model.load_state_dict(load_file("model.safetensors"))
model.eval()
```

Without torch, `safetensors.numpy` gives the same numbers:"""


class Weights(NamedTuple):
    """What was exported: its files, and the numbers and tensors in ``model.safetensors``."""

    files: list[Kept]
    numbers: int
    tensors: int


def export(run: Path, seal: SealRecord, target: Path, tell: Tell) -> Weights:
    """Make the folder ``target``. Raises StepkeeperError, OSError; then nothing is left."""
    with origin(run, seal) as source, exporting(target) as place:
        written = _model(source, place / MODEL, tell)
        files = [Kept(MODEL, written.bytes, written.sha256)]
        files.append(keep(place, "config.json", _config(source, written)))
        files.append(keep(place, "README.md", _readme(source, written)))
        read_back(place, [*files[1:], keep_sums(place, files)])
    return Weights(files, written.numbers, written.tensors)


def _model(source: Origin, target: Path, tell: Tell) -> Written:
    """Have a child write it: numpy lives only there. Raises StepkeeperError, OSError."""
    seal = source.seal
    metadata = {
        "run": source.run_id,
        "name": source.name,
        "step": str(seal.step),
        "checkpoint": seal.bin.sha256,
        "seal": seal.digest,
        "format": "pt",  # what readers of the wide world ask for: tensors as torch lays them out
    }
    task = {
        "files": [(part.root, part.name, str(part.path)) for part in source.parts],
        "name": seal.bin.name,
        "sha256": seal.bin.sha256,
        "companion": None if source.companion is None else source.companion.decode("ascii"),
        "target": str(target),
        "metadata": metadata,
    }
    answer = b""
    total = seal.bin.bytes + seal.bin.bytes // 3  # read once, a third of it written and read back
    for line in _lines(task, source.parts):
        if line.strip().isdigit():
            tell(f"writing {MODEL}", int(line), total)
        else:
            answer = line
    try:
        written = Written(**json.loads(answer))
    except (ValueError, TypeError):
        said = answer.decode("utf-8", "replace").strip()[:200]
        raise StepkeeperError(
            f"cannot export step {seal.step}: the process that writes {MODEL} ended early: {said!r}"
        ) from None
    if written.problem:
        raise StepkeeperError(f"cannot export step {seal.step}: {written.problem}")
    return written


def _lines(task: dict[str, Any], parts: tuple[Part, ...]) -> Iterator[bytes]:
    """What the child says, line by line; it ends with us."""
    child = subprocess.Popen(
        [sys.executable, "-m", _CHILD],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[part.descriptor for part in parts],
        process_group=0,  # a Ctrl-C at the terminal is for us, who end it
    )
    try:
        if child.stdin is not None:
            with child.stdin:
                child.stdin.write(json.dumps(task).encode("ascii"))
        yield from child.stdout or ()
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _shape(source: Origin, numbers: int) -> Shape | None:
    """The model's sizes, where the settings speak of a model of so many numbers."""
    shape = source.file.model.shape
    return shape if shape.n_params == numbers else None


def _config(source: Origin, written: Written) -> bytes:
    seal = source.seal
    shape = _shape(source, written.numbers)
    tables = tomllib.loads(source.settings.decode("utf-8"))
    record = {
        "schema": SCHEMA,
        "run": source.run_id,
        "name": source.name,
        "step": seal.step,
        "checkpoint": seal.bin._asdict(),
        "seal": seal.digest,
        "numbers": written.numbers,
        "dtypes": written.dtypes,
        "model": None if shape is None else shape._asdict(),
        "settings": {key: tables[key] for key in _TABLES if key in tables},
        "identities": source.made_by.identities if source.made_by is not None else None,
        "stepkeeper": __version__,
        "made": clock.wall(),
    }
    return json.dumps(record, indent=1).encode("ascii") + b"\n"


def _readme(source: Origin, written: Written) -> bytes:
    ours = source.file.trainer.command == _OURS and _shape(source, written.numbers) is not None
    named = source.companion is not None or form_of(source.seal.bin.name) != "bin"
    text = _README.format(
        name=source.name,
        step=source.seal.step,
        model=MODEL,
        numbers=f"{written.numbers:,}",
        dtypes=", ".join(written.dtypes),
        named=f"{written.tensors} tensors by name"
        if named
        else "one tensor named `weights`, since this trainer does not name its parameters",
        loading=f"{_TRANSFORMER}\n\n{_PLAIN}" if ours and named else _PLAIN,
        sums="SHA256SUMS",
    )
    return text.encode("utf-8")
