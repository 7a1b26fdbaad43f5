"""Checkpoints of torch's formats as a trainer leaves them: the full state, and its companion."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from supervisor.sidecars.checkpoints.verify_child import verify
from supervisor.sidecars.checkpoints.verify_companion import Expected
from supervisor.sidecars.checkpoints.verify_stream import Manner
from tests.sidecars.sealing import companion
from trainer.contract.checkpoint_format import companion_of, form_of, name_of
from trainer.full_state import (
    Objects,
    Payload,
    TrainState,
    Written,
    new_payload,
    payload_of,
    write_one_file,
    write_sharded,
)

STEP = 100
PARAMETERS = (("0.weight", (3, 2)), ("0.bias", (3,)), ("1.weight", (3,)), ("1.bias", (3,)))
N_PARAMS = 15
LOSSES = [2.0 + i / 7 for i in range(STEP)]
FORMS = ("pt", "sharded")


@dataclass
class Case:
    """A checkpoint in a folder, and the verdict on it."""

    path: Path
    written: Written

    def verdict(self, manner: Manner | None = None, **expected: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
        """What the reader says of it."""
        return verify(self.path, Expected(**expected), manner or Manner())

    def problem(self, **expected: Any) -> str:  # noqa: ANN401 - any field
        """What is wrong with it; it must be told by the name of the checkpoint or of its file."""
        return str(self.verdict(**expected)["problem"])

    def rewrite(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the companion."""
        beside = self.path.with_name(companion_of(STEP))
        record = json.loads(beside.read_bytes())
        change(record)
        beside.write_text(json.dumps(record))


def torch_payload() -> Payload:
    """A model with buffers and torch's own Adam, after its updates."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True)
    model(torch.randn(4, 2)).square().sum().backward()
    optimizer.step()
    state = TrainState(STEP, 3, 5, list(LOSSES))
    return payload_of(Objects(model, optimizer), state)


def own_payload() -> Payload:
    """The same model with the reference trainer's optimizer: m and v by name."""
    whole = torch_payload()
    model = {name: whole["model"][name] for name, _ in PARAMETERS}
    optimizer = {
        "m": {name: torch.full(shape, 0.5) for name, shape in PARAMETERS},
        "v": {name: torch.full(shape, 0.25) for name, shape in PARAMETERS},
        "updates": STEP,
    }
    state = TrainState(STEP, 0, 0, list(LOSSES))
    rng = whole["rng"]
    return new_payload(
        model=model, optimizer=optimizer, state=state, rng=rng, device=torch.device("cpu")
    )


def save(folder: Path, form: str, payload: Payload, **more: Any) -> Case:  # noqa: ANN401 - any field
    """Write it with its companion."""
    path = folder / name_of(STEP, form)
    written = write(path, payload, **more)
    record = companion(
        STEP,
        b"",
        sha256=written.sha256,
        bytes=written.bytes,
        n_params=N_PARAMS,
        parameters=PARAMETERS,
        format=form,
        losses={"first": 91, "values": LOSSES[90:]},
    )
    (folder / companion_of(STEP)).write_bytes(record)
    return Case(path, written)


def write(path: Path, payload: Payload, **more: Any) -> Written:  # noqa: ANN401 - any field
    """The checkpoint alone."""
    if form_of(path.name) == "pt":
        return write_one_file(path, payload)
    return write_sharded(path, payload, shards=2, **more)
