"""A life's checkpoint on disk, in the format that its name tells, with its checksum file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

from trainer.contract.checkpoint_format import CheckpointFormatError
from trainer.contract.checkpoint_format import form_of as contract_form_of
from trainer.errors import SettingsError
from trainer.full_state import FullStateError
from trainer.proof import fingerprint, five_regions, held, whole_state
from trainer.proof.experiment import Experiment

FORMATS: Final = ("pt", "sharded", "bin")
_NAMES: Final = {"pt": "checkpoint.pt", "sharded": "checkpoint.sharded"}
_READERS: Final = {"pt": whole_state.load, "sharded": whole_state.load, "bin": five_regions.load}


class Stored(NamedTuple):
    """A checkpoint: its name, and size and SHA-256 of each of its files by name."""

    name: str
    files: dict[str, Any]


def write(folder: Path, experiment: Experiment, form: str) -> Stored:
    """Write it and its checksum file. Raises OSError."""
    if form == "bin":
        path = five_regions.write(folder, experiment)
    else:
        path = folder / _NAMES[form]
        whole_state.write(path, experiment)
    return Stored(path.name, fingerprint.write(path, files_of(path)))


def load(path: Path, experiment: Experiment, *, omit_rng: bool = False) -> Stored:
    """Fill an experiment at its beginning with what ``path`` holds, generators last.

    ``omit_rng`` leaves all generators where the making of the experiment left them: the control
    that has to fail. Raises SettingsError for what is not whole, not as it was written, or of
    another experiment; ``experiment`` is then of no use.
    """
    if not path.exists():
        raise SettingsError(f"cannot resume from {path}: it is not there")
    form = form_of(path)
    files = fingerprint.check(path, files_of(path))
    try:
        _READERS[form](path, experiment, omit_rng=omit_rng)
        held.check_restored(experiment, str(path))
    except (CheckpointFormatError, FullStateError) as error:
        raise SettingsError(str(error)) from None
    except (OSError, LookupError, TypeError, ValueError, RuntimeError) as error:
        text = " ".join(str(error).split())
        raise SettingsError(f"cannot resume from {path}: {type(error).__name__}: {text}") from None
    return Stored(path.name, files)


def dtype_of(form: str) -> torch.dtype:
    """The precision of lives that are saved so: the five regions know float32 alone."""
    return torch.float32 if form == "bin" else torch.float64


def form_of(path: Path) -> str:
    """The format that the checkpoint's name tells. Raises SettingsError."""
    for form, name in _NAMES.items():
        if path.name == name:
            return form
    if contract_form_of(path.name) == "bin":
        return "bin"
    names = f"{', '.join(_NAMES.values())} or step_NNNNNN.bin"
    raise SettingsError(f"cannot resume from {path}: expected one named {names}")


def files_of(path: Path) -> list[Path]:
    """All files of a checkpoint that are there."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if not file.is_dir())
    beside = path.with_suffix(".json") if path.suffix == ".bin" else path
    return [file for file in dict.fromkeys((path, beside)) if file.exists()]
