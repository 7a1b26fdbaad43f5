"""The generators' states in the two forms on disk: the companion's, and a full state's.

Both hold the same numbers. The companion says torch's bytes in hex and keeps the mixer's generator
among the global ones; a full state lists the bytes and keeps it by name.

Training itself draws only from the mixer's own generator; the global ones are kept so that a
model that draws from them resumes as exactly.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from trainer.full_state.rng import capture_rng_state, generators_moved, restore_rng_state

_GLOBALS = ("python", "numpy")
_COMPANION = {"torch_cpu": "torch", "torch_cuda": "cuda"}


def seed_everything(seed: int) -> None:
    """Give the global generators of Python, numpy and torch (every device) a common start."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the global one is what a library may use
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def capture() -> dict[str, Any]:
    """All global states, as the companion holds them."""
    return companion_form(capture_rng_state())


def restore(states: dict[str, Any]) -> None:
    """Put all states back. Raises ValueError for states that do not fit this machine.

    Without CUDA here those of its devices are left out.
    """
    cuda = torch.cuda.is_available()
    restore_rng_state({**full_state_form(states), "generators": {}}, cuda=cuda)


def moved(states: Mapping[str, Any]) -> list[str]:
    """The libraries whose generators no longer stand where ``restore(states)`` put them."""
    found = generators_moved({**full_state_form(states), "generators": {}})
    return [_COMPANION.get(name, name) for name in found]


def companion_form(states: dict[str, Any]) -> dict[str, Any]:
    """The states of ``capture_rng_state`` as the companion holds them."""
    return {
        **{name: states[name] for name in _GLOBALS},
        "torch": bytes(states["torch_cpu"]).hex(),
        "cuda": [bytes(state).hex() for state in states["torch_cuda"]],
        **states["generators"],
    }


def full_state_form(states: Mapping[str, Any]) -> dict[str, Any]:
    """The companion's states as a full state holds them. Raises ValueError."""
    try:
        return {
            **{name: states[name] for name in _GLOBALS},
            "torch_cpu": list(bytes.fromhex(states["torch"])),
            "torch_cuda": [list(bytes.fromhex(state)) for state in states["cuda"]],
            "generators": {
                name: state
                for name, state in states.items()
                if name not in (*_GLOBALS, "torch", "cuda")
            },
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"cannot restore the generators: {error!r}") from None
