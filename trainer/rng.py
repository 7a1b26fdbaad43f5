"""Every generator's state as plain numbers and hex, taken and put back.

Training itself draws only from the mixer's own generator; the global ones are kept so that a
model that draws from them resumes as exactly.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Give the global generators of Python, numpy and torch (every device) a common start."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the global one is what a library may use
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def capture() -> dict[str, Any]:
    """All global states, as JSON can hold them."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002 - as above
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "python": [version, list(words), gauss],
        "numpy": [name, np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
        "torch": _hex(torch.get_rng_state()),
        "cuda": [_hex(state) for state in cuda],
    }


def restore(states: dict[str, Any]) -> None:
    """Put all states back. Raises ValueError for states that do not fit this machine."""
    try:
        version, words, gauss = states["python"]
        random.setstate((version, tuple(words), gauss))
        name, keys, position, has_gauss, cached = states["numpy"]
        state = (name, np.array(keys, dtype=np.uint32), position, has_gauss, cached)
        np.random.set_state(state)  # noqa: NPY002 - as above
        torch.set_rng_state(_bytes(states["torch"]))
        cuda = [_bytes(state) for state in states["cuda"]]
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"cannot restore the generators: {error!r}") from None
    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if cuda and here and len(cuda) != here:
        raise ValueError(f"cannot restore the generators of {len(cuda)} GPUs: here are {here}")
    if here and cuda:
        torch.cuda.set_rng_state_all(cuda)


def moved(states: Mapping[str, Any]) -> list[str]:
    """The libraries whose generators no longer stand where ``restore(states)`` put them."""
    now = capture()
    if not (states["cuda"] and now["cuda"]):  # one of the two machines has no GPU
        now["cuda"] = states["cuda"]
    return [name for name in now if now[name] != states[name]]


def python_state(generator: random.Random) -> list[Any]:
    """A Python generator's state, as JSON can hold it."""
    version, words, gauss = generator.getstate()
    return [version, list(words), gauss]


def put_python_state(generator: random.Random, state: list[Any]) -> None:
    """Put it back. Raises ValueError."""
    try:
        version, words, gauss = state
        generator.setstate((version, tuple(words), gauss))
    except (TypeError, ValueError) as error:
        raise ValueError(f"cannot restore the mixer's generator: {error}") from None


def _hex(state: torch.Tensor) -> str:
    return state.cpu().numpy().tobytes().hex()


def _bytes(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
