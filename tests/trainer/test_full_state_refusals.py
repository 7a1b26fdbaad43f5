"""What does not fit the objects is refused by name, and the objects stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.full_states import Script, same
from trainer.full_state import (
    FullStateError,
    Objects,
    Payload,
    PayloadError,
    StructureError,
    TrainState,
    payload_of,
    read_one_file,
    restore,
)

Change = Callable[[Payload], object]


@pytest.fixture
def payload(tmp_path: Path) -> Payload:
    """Of a script behind three steps."""
    script = Script(1)
    script.train(3)
    script.save(tmp_path / "made.pt")
    return read_one_file(tmp_path / "made.pt")


def refused(payload: Payload, message: str, script: Script | None = None, **options: Any) -> None:  # noqa: ANN401 - as restore takes them
    """Loading it into a script raises that, and changes nothing."""
    script = script or Script(2)
    before = deepcopy(script.everything())
    objects = Objects(script.model, script.optimizer, script.scheduler, **script.parts)
    with pytest.raises(FullStateError, match=message) as caught:
        restore(payload, objects, **options)
    assert str(caught.value).startswith("cannot ")
    assert "\n" not in str(caught.value)
    assert same(script.everything(), before)


WRONG: dict[str, tuple[Change, str]] = {
    "a missing key": (
        lambda p: p["model"].pop("last.bias"),
        r"the model: the file lacks last\.bias$",
    ),
    "a buffer is missing": (
        lambda p: p["model"].pop("norm.running_var"),
        r"the model: the file lacks norm\.running_var$",
    ),
    "keys that are not here": (
        lambda p: p["model"].update({str(at): torch.ones(1) for at in range(5)}),
        "the model: the file holds 0, 1, 2 and 2 more, which is not here",
    ),
    "another shape": (
        lambda p: p["model"].update({"last.bias": torch.ones(2)}),
        r"last\.bias has the shape \(2,\) in the file and \(1,\) here",
    ),
    "another dtype": (
        lambda p: p["model"].update({"last.bias": torch.ones(1, dtype=torch.float64)}),
        r"last\.bias has the dtype torch\.float64 in the file and torch\.float32 here",
    ),
    "no optimizer": (lambda p: p.update(optimizer=None), "the optimizer: the file holds no state"),
    "no scheduler": (lambda p: p.update(scheduler=None), "the scheduler: the file holds no state"),
    "no scaler": (lambda p: p.update(scaler=None), "the scaler: the file holds no state"),
    "no loader": (lambda p: p.update(loader=None), "the loader: the file holds no state of one"),
    "another optimizer": (
        lambda p: p["structure"]["classes"].update(optimizer="Adam"),
        "the optimizer: it was Adam and is AdamW",
    ),
    "another scheduler": (
        lambda p: p["structure"]["classes"].update(scheduler="StepLR"),
        "the scheduler: it was StepLR and is OneCycleLR",
    ),
    "more groups": (
        lambda p: p["structure"]["parameters"].append([]),
        "it had 2 groups of parameters and has 1",
    ),
    "parameters in another order": (
        lambda p: p["structure"]["parameters"][0].reverse(),
        r"the parameters of group 0: the file has last\.bias where first\.weight is here",
    ),
    "fewer groups of options": (
        lambda p: p["optimizer"].update(param_groups=[]),
        "the optimizer: it had 0 groups and has 1",
    ),
    "a group with fewer parameters": (
        lambda p: p["optimizer"]["param_groups"][0]["params"].pop(),
        "group 0 had 5 parameters and has 6",
    ),
    "an option is missing": (
        lambda p: p["optimizer"]["param_groups"][0].pop("eps"),
        "the optimizer's group 0: the file lacks eps",
    ),
    "a moment is missing": (
        lambda p: p["optimizer"]["state"][2].pop("exp_avg_sq"),
        "the optimizer: state 2 lacks exp_avg_sq",
    ),
    "a moment of another shape": (
        lambda p: p["optimizer"]["state"][5].update(exp_avg=torch.ones(3)),
        r"state 5\.exp_avg has the shape \(3,\) in the file and its parameter \(1,\) here",
    ),
    "state of a parameter too many": (
        lambda p: p["optimizer"]["state"].update({6: p["optimizer"]["state"][5]}),
        "the optimizer: state 6 lacks a parameter",
    ),
    "a key of the scheduler is missing": (
        lambda p: p["scheduler"].pop("total_steps"),
        "the scheduler: the file lacks total_steps",
    ),
    "learning rates of more groups": (
        lambda p: p["scheduler"]["base_lrs"].append(0.1),
        "the scheduler: it had 2 learning rates and has 1",
    ),
    "a loader of another size": (lambda p: p["loader"].update(items=23), "it had items = 23"),
    "a loader without its permutation": (
        lambda p: p["loader"].update(permutation=torch.zeros(22, dtype=torch.int64)),
        "the order of epochs: its permutation is none",
    ),
    "a loader whose generator is none": (
        lambda p: p["loader"].update(generator={"state": 1}),
        "the generator of the order of epochs",
    ),
    "gradients of what is not here": (
        lambda p: p.update(accumulation={"position": 1, "gradients": {"x": torch.ones(1)}}),
        "the accumulation: the file holds x, which is not here",
    ),
    "a generator's state that is none": (
        lambda p: p["rng"].update(python=[3, [1], None]),
        "the generator python",
    ),
    "other generators": (
        lambda p: p["rng"].update(generators={}),
        "named generators: saved were none, given are noise",
    ),
    "another kind of device": (
        lambda p: p.update(device={"type": "cuda", "name": "NVIDIA H200"}),
        r"what was saved on cuda \(NVIDIA H200\) on cpu \(.+\): .*allow it with device_change",
    ),
    "more CUDA devices": (
        lambda p: p["rng"].update(torch_cuda=[[0] * 16] * 99),
        "the generators of 99 CUDA devices",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_and_nothing_is_loaded(payload: Payload, name: str) -> None:
    change, message = WRONG[name]
    change(payload)
    refused(payload, message)


@pytest.mark.parametrize("part", ["optimizer", "scheduler", "scaler", "loader"])
def test_a_state_is_never_dropped_in_silence(payload: Payload, part: str) -> None:
    script = Script(2)
    objects = {"optimizer": script.optimizer, "scheduler": script.scheduler, **script.parts}
    objects[part] = None
    if part == "optimizer":
        objects["scheduler"] = None
    with pytest.raises(StructureError, match=f'without the {part}: .* or omit "{part}"'):
        restore(payload, Objects(script.model, **objects), omit=_beside(part))
    restore(payload, Objects(script.model, **objects), omit=(part, *_beside(part)))


def _beside(part: str) -> tuple[str, ...]:
    return ("scheduler",) if part == "optimizer" else ()


def test_a_scheduler_of_another_optimizer_is_refused(payload: Payload) -> None:
    script, other = Script(2), Script(3)
    script.scheduler = other.scheduler
    refused(payload, "the scheduler: it drives another optimizer", script)


def test_a_wider_model_is_refused(payload: Payload) -> None:
    message = r"first\.weight has the shape \(8, 2\) in the file and \(9, 2\) here"
    refused(payload, message, Script(2, width=9))


def test_what_is_omitted_is_not_compared(payload: Payload) -> None:
    payload["model"].pop("last.bias")
    script = Script(2)
    objects = Objects(script.model, script.optimizer, script.scheduler, **script.parts)
    assert restore(payload, objects, omit=("model",)).omitted == ("model",)


def test_a_change_of_device_that_is_allowed_is_recorded_and_leaves_cuda_states_out(
    payload: Payload,
) -> None:
    payload["device"] = {"type": "cuda", "name": "NVIDIA H200"}
    payload["rng"]["torch_cuda"] = [[0] * 16]
    script = Script(2)
    objects = Objects(script.model, script.optimizer, script.scheduler, **script.parts)
    restored = restore(payload, objects, device_change=True)
    assert restored.device_changed
    assert restored.remarks == ("the device was cuda and is cpu: no claim on bits",)
    assert same(script.model.state_dict()["last.bias"], payload["model"]["last.bias"])


def test_another_device_of_the_same_kind_and_other_libraries_are_remarked(
    payload: Payload,
) -> None:
    here = payload["device"]["name"]
    payload["device"]["name"] = "z80"
    payload["libraries"]["numpy"] = "1.26.0"
    script = Script(2)
    objects = Objects(script.model, script.optimizer, script.scheduler, **script.parts)
    first, second = restore(payload, objects).remarks
    assert first == f"the cpu device was z80 and is {here}"
    assert second.startswith("numpy was 1.26.0 and is ")


def test_what_another_torch_adds_to_an_optimizer_is_remarked(payload: Payload) -> None:
    """The same class under another version of torch: refusing would end every run at an update."""
    payload["libraries"]["torch"] = "2.6.0"
    del payload["optimizer"]["param_groups"][0]["decoupled_weight_decay"]
    script = Script(2)
    objects = Objects(script.model, script.optimizer, script.scheduler, **script.parts)
    remark = "the optimizer's group 0 has a new decoupled_weight_decay, which stays True"
    assert remark in restore(payload, objects).remarks


def test_a_parameter_that_is_not_the_models_is_not_lost_in_silence() -> None:
    model, more = torch.nn.Linear(1, 1), torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([*model.parameters(), more], lr=0.1)
    with pytest.raises(PayloadError, match="the optimizer updates 1 parameters that are not the"):
        payload_of(Objects(model, optimizer), TrainState())
