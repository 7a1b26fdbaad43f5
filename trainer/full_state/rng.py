"""Every generator's state as plain numbers, lists and strings, taken and put back.

Nothing here draws, so taking a state never changes what comes next. A state of torch is its bytes
as a list of numbers and no tensor: one form serves a ``.pt`` and a JSON file alike.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainer.full_state.errors import DeviceError, SchemaError, StructureError

Generator = random.Random | np.random.Generator | torch.Generator
Named = Mapping[str, Generator]


def capture_rng_state(generators: Named | None = None) -> dict[str, Any]:
    """The states of Python's, NumPy's and torch's global generators, and of those given by name.

    ``python`` and ``numpy`` are the tuples that these libraries hand out, as lists; ``torch_cpu``
    is a list of bytes; ``torch_cuda`` one such list per device, empty without CUDA;
    ``generators`` holds the named ones.
    """
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    numpy_state = np.random.get_state(legacy=True)  # noqa: NPY002 - the one that libraries draw from
    return {
        "python": _listed(random.getstate()),
        "numpy": _listed(numpy_state),
        "torch_cpu": torch.get_rng_state().tolist(),
        "torch_cuda": [state.tolist() for state in cuda],
        "generators": {name: state_of(given) for name, given in (generators or {}).items()},
    }


def check_rng_state(
    states: dict[str, Any], generators: Named | None = None, *, cuda: bool = True
) -> None:
    """Raise SchemaError, StructureError or DeviceError where ``restore_rng_state`` would.

    Nothing is changed: the states are tried on generators made for that. ``cuda=False`` leaves
    the devices out.
    """
    _same_names(states, generators or {})
    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if cuda and states["torch_cuda"] and len(states["torch_cuda"]) != here:
        raise DeviceError(
            f"cannot restore the generators of {len(states['torch_cuda'])} CUDA devices: here are "
            f"{here}; make as many visible, or allow another device"
        )
    _set("python", random.Random(), states["python"])  # noqa: S311 - no secret is drawn
    _set("numpy", np.random.RandomState(), states["numpy"])
    _set("torch_cpu", torch.Generator(), states["torch_cpu"])
    for name, given in (generators or {}).items():
        check_state(given, states["generators"][name], name)


def restore_rng_state(
    states: dict[str, Any], generators: Named | None = None, *, cuda: bool = True
) -> None:
    """Put all states back, or none: call it right before the next draw.

    Raises SchemaError for a state that is none, StructureError where the named generators are not
    those that were saved, DeviceError where the number of CUDA devices is another one.
    """
    check_rng_state(states, generators, cuda=cuda)
    random.setstate(_python_tuple(states["python"]))
    np.random.set_state(_numpy_tuple(states["numpy"]))  # noqa: NPY002 - as in capture_rng_state
    torch.set_rng_state(_bytes(states["torch_cpu"]))
    if cuda and states["torch_cuda"]:
        torch.cuda.set_rng_state_all([_bytes(state) for state in states["torch_cuda"]])
    for name, given in (generators or {}).items():
        put_state(given, states["generators"][name], name)


def generators_moved(states: dict[str, Any], generators: Named | None = None) -> list[str]:
    """The generators that no longer stand where ``restore_rng_state(states)`` put them.

    Ask right before the first step after a resume: a constructor that reseeds is caught by it.
    Named ones appear as ``generators.NAME``. CUDA is compared where both sides have it.
    """
    now = capture_rng_state(generators)
    if not (states["torch_cuda"] and now["torch_cuda"]):
        now["torch_cuda"] = states["torch_cuda"]
    named, saved = now.pop("generators"), states.get("generators", {})
    moved = [name for name in now if now[name] != states[name]]
    return moved + [f"generators.{name}" for name in named if named[name] != saved.get(name)]


def state_of(generator: Generator) -> Any:  # noqa: ANN401 - each library has a form of its own
    """One generator's state as plain numbers, lists and strings."""
    if isinstance(generator, random.Random):
        return _listed(generator.getstate())
    if isinstance(generator, torch.Generator):
        return generator.get_state().tolist()
    return _listed(generator.bit_generator.state)


def check_state(generator: Generator, state: Any, name: str) -> None:  # noqa: ANN401 - as above
    """Raise what ``put_state`` would, and leave the generator alone."""
    put_state(_like(generator), state, name)


def put_state(generator: Generator, state: Any, name: str) -> None:  # noqa: ANN401 - as above
    """Put one generator's state back. Raises SchemaError."""
    _set(name, generator, state)


def _set(
    name: str,
    generator: Generator | np.random.RandomState,
    state: Any,  # noqa: ANN401 - as above
) -> None:
    try:
        match generator:
            case random.Random():
                generator.setstate(_python_tuple(state))
            case np.random.RandomState():
                generator.set_state(_numpy_tuple(state))
            case torch.Generator():
                generator.set_state(_bytes(state))
            case np.random.Generator():
                bits = generator.bit_generator
                bits.state = _as_arrays(state, bits.state)
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        text = " ".join(str(error).split())
        raise SchemaError(f"cannot restore the generator {name}: {text}") from None


def _same_names(states: dict[str, Any], generators: Named) -> None:
    saved = states["generators"]
    if set(saved) != set(generators):
        raise StructureError(
            f"cannot restore the named generators: saved were {_names(saved)}, given are "
            f"{_names(generators)}; give the same ones"
        )


def _names(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "none"


def _like(generator: Generator) -> Generator:
    """A generator of the same kind to try a state on."""
    match generator:
        case torch.Generator():
            return torch.Generator(generator.device)
        case np.random.Generator():
            return np.random.Generator(type(generator.bit_generator)())
        case _:
            return random.Random()  # noqa: S311 - no secret is drawn


def _listed(value: Any) -> Any:  # noqa: ANN401 - a state of any library
    """The same state without tuples and arrays."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _as_arrays(state: Any, like: Any) -> Any:  # noqa: ANN401 - as above
    """The state with arrays where ``like``, a state of the same kind, has them."""
    if isinstance(like, dict):
        return {key: _as_arrays(state[key], item) for key, item in like.items()}
    return np.array(state, dtype=like.dtype) if isinstance(like, np.ndarray) else state


def _python_tuple(state: list[Any]) -> tuple[Any, ...]:
    version, words, gauss = state
    return version, tuple(words), gauss


def _numpy_tuple(state: list[Any]) -> tuple[Any, ...]:
    name, keys, position, has_gauss, cached = state
    return name, np.array(keys, dtype=np.uint32), position, has_gauss, cached


def _bytes(state: list[int]) -> Tensor:
    return torch.tensor(state, dtype=torch.uint8)
