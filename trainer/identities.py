"""What made a checkpoint (code, settings, data, libraries), and how that differs from now."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainer.contract.settings import TrainerSections
from trainer.data import Arm
from trainer.device import Compute

# Where an arm's documents lie (what they are is under "data"), and what a resume is allowed.
_NO_MATTER = re.compile(
    r"settings\.(sources\..*\.path|train\.(strict|device_change))|device_changes"
)
_SECTIONS = {"model", "train", "data", "sources", "evaluate"}  # those that steps depend on


def collect(sections: TrainerSections, arms: Iterable[Arm], compute: Compute) -> dict[str, Any]:
    """All identities of this life, as the companion holds them."""
    device = "cpu"
    if compute.device.type == "cuda":
        device = torch.cuda.get_device_name(compute.device)
    return {
        "code": code_digest(),
        "settings": sections.model_dump(mode="json", include=_SECTIONS),
        "data": {arm.name: arm.identity for arm in arms},
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "device": device,
            "threads": torch.get_num_threads(),
        },
    }


def code_digest() -> str:
    """SHA-256 over all modules of this package, names and contents."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def differences(saved: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """One phrase for each identity that is not what it was when the checkpoint was written."""
    before, after = _flat(saved), _flat(now)
    return [
        f"{key} was {_short(before.get(key))} and is {_short(after.get(key))}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key) and not _NO_MATTER.fullmatch(key)
    ]


def kind_of_device(tree: dict[str, Any]) -> str:
    """``cpu`` or ``cuda``; a device that is not named counts as a CPU."""
    return "cpu" if tree.get("versions", {}).get("device", "cpu") == "cpu" else "cuda"


def device_change(saved: dict[str, Any], now: dict[str, Any]) -> str:
    """``cuda (its name), and this is cpu`` where the kind of device is another one, else empty."""
    before, after = (tree.get("versions", {}).get("device") for tree in (saved, now))
    kinds = [kind_of_device(saved), kind_of_device(now)]
    if not before or kinds[0] == kinds[1]:
        return ""
    named = [
        kind if kind == "cpu" else f"{kind} ({name})"
        for kind, name in zip(kinds, (before, after), strict=True)
    ]
    return f"{named[0]}, and this is {named[1]}"


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _short(value: object) -> str:
    text = "unset" if value is None else str(value)
    return text if len(text) <= 40 else text[:12] + "..."  # noqa: PLR2004 - a digest is longer
