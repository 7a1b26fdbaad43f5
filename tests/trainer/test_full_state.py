"""A full state is restored to the bit, whatever it consists of, as one file and in shards."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainer.full_states import OPTIMIZERS, SCHEDULERS, Script, same
from trainer.full_state import (
    PARTS,
    Objects,
    PayloadError,
    StructureError,
    TrainState,
    atomic_write_json,
    capture_rng_state,
    frozen,
    load_checkpoint,
    load_sharded_checkpoint,
    payload_of,
    read_one_file,
    restore,
    save_checkpoint,
    save_sharded_checkpoint,
    write_one_file,
)

FORMS = ("state.pt", "state.sharded")
PAIRS = list(zip(OPTIMIZERS, SCHEDULERS, strict=True))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("optimizer", "scheduler"), PAIRS)
def test_the_steps_after_a_resume_are_those_that_would_have_followed(
    tmp_path: Path, optimizer: str, scheduler: str, name: str
) -> None:
    one = Script(1, optimizer, scheduler)
    one.train(5)
    one.save(tmp_path / name)
    at_five = deepcopy(one.everything())
    one.train(6)
    at_eleven = one.everything()
    other = Script(2, optimizer, scheduler)
    restored = other.load(tmp_path / name)
    assert (restored.step, restored.remarks, restored.omitted) == (5, (), ())
    assert same(other.everything(), at_five)
    other.train(6)
    assert other.state.epoch > restored.epoch
    assert other.seen == one.seen[10:]
    assert same(other.everything(), at_eleven)


@pytest.mark.parametrize("part", PARTS)
def test_a_resume_that_leaves_a_part_out_is_another_run(tmp_path: Path, part: str) -> None:
    """The negative control of the test above: each part is one that the steps depend on."""
    one = Script(1)
    one.train(4)
    one.micro()
    one.save(tmp_path / "state.pt", accumulated=1)
    one.micro()
    one.update()
    one.train(3)
    other = Script(2)
    restored = other.load(tmp_path / "state.pt", omit=(part,))
    assert restored.omitted == (part,)
    other.micro()
    other.update()
    other.train(3)
    assert not same(other.everything(), one.everything())


def test_an_unknown_part_cannot_be_omitted(tmp_path: Path) -> None:
    script = Script()
    script.save(tmp_path / "state.pt")
    with pytest.raises(StructureError, match="cannot omit rgn: parts are model, optimizer"):
        script.load(tmp_path / "state.pt", omit=("rgn",))
    assert script.load(tmp_path / "state.pt", omit="rng").omitted == ("rng",)


@pytest.mark.parametrize(
    "call",
    [save_checkpoint, load_checkpoint, save_sharded_checkpoint, load_sharded_checkpoint],
)
def test_an_option_that_is_mistyped_leaves_nothing_out_in_silence(
    tmp_path: Path, call: Callable[..., object]
) -> None:
    script = Script()
    script.save(tmp_path / "state")
    before = (tmp_path / "state").read_bytes()
    objects = (script.model, script.optimizer, script.scheduler)
    state = (script.state,) if call.__name__.startswith("save") else ()
    with pytest.raises(TypeError, match=r"there is no option scalar; there are .*scaler"):
        call(tmp_path / "state", *objects, *state, scalar=script.scaler)
    assert (tmp_path / "state").read_bytes() == before


@pytest.mark.parametrize("name", FORMS)
def test_gradients_in_mid_window_are_restored(tmp_path: Path, name: str) -> None:
    one = Script(1)
    one.train(3)
    one.micro()
    one.save(tmp_path / name, accumulated=1)
    one.micro()
    one.update()
    whole = one.everything()
    other = Script(2)
    assert other.load(tmp_path / name).accumulation == 1
    other.micro()
    other.update()
    assert same(other.everything(), whole)


def test_gradients_left_over_from_before_a_resume_are_forgotten(tmp_path: Path) -> None:
    one = Script(1)
    one.train(1)
    one.save(tmp_path / "state.pt")
    other = Script(2)
    other.micro()
    assert other.load(tmp_path / "state.pt").accumulation == 0
    assert all(parameter.grad is None for parameter in other.model.parameters())


def test_taking_the_state_draws_from_no_generator() -> None:
    script = Script(3)
    before = capture_rng_state({"noise": script.noise})
    payload_of(Objects(script.model, script.optimizer), script.state)
    assert capture_rng_state({"noise": script.noise}) == before


def test_a_loss_that_is_no_number_survives_and_a_tensor_becomes_one(tmp_path: Path) -> None:
    script = Script()
    odd = [float("nan"), float("inf"), -0.0, torch.tensor(1.5), np.float32(0.25)]
    script.state.losses = odd
    script.save(tmp_path / "state.pt")
    losses = script.load(tmp_path / "state.pt").losses
    assert math.isnan(losses[0])
    assert losses[1:] == [math.inf, 0.0, 1.5, 0.25]
    assert {type(loss) for loss in losses} == {float}
    atomic_write_json({"losses": odd, "best": losses[1]}, tmp_path / "losses.json")
    record = json.loads((tmp_path / "losses.json").read_text(), parse_constant=pytest.fail)
    assert record == {
        "losses": [None, None, -0.0, 1.5, 0.25],
        "best": None,
        "nonfinite": {"losses[0]": "nan", "losses[1]": "inf", "best": "inf"},
    }


def test_what_is_no_plain_container_is_named_and_not_saved(tmp_path: Path) -> None:
    script = Script()
    with pytest.raises(PayloadError, match=r"cannot save extra\.odd\[1\]: builtins\.set is"):
        script.save(tmp_path / "state.pt", extra={"odd": [1, {2}]})
    lamb = torch.optim.lr_scheduler.LambdaLR(script.optimizer, Half())
    with pytest.raises(PayloadError, match=r"cannot save losses\[0\]: str is not a number"):
        payload_of(Objects(script.model), TrainState(losses=["x"]))
    payload_of(Objects(script.model, script.optimizer, lamb), script.state)
    assert list(tmp_path.iterdir()) == []


class Half:
    """A rate function with a state, which torch hands out as a dict."""

    def __call__(self, step: int) -> float:
        return 0.5**step


def test_what_is_the_callers_own_comes_back(tmp_path: Path) -> None:
    script = Script()
    extra = {"best": torch.arange(3.0), "names": ["a", "b"], 7: (1, None, 2.5, b"x")}
    script.save(tmp_path / "state.pt", extra=extra)
    assert same(script.load(tmp_path / "state.pt").extra, extra)


def test_a_frozen_payload_does_not_follow_the_training(tmp_path: Path) -> None:
    script = Script(1)
    script.train(2)
    objects = Objects(script.model, script.optimizer, script.scheduler, **script.parts)
    payload = payload_of(objects, script.state)
    still = frozen(payload)
    write_one_file(tmp_path / "before.pt", payload)
    script.train(2)
    write_one_file(tmp_path / "after.pt", still)
    assert same(read_one_file(tmp_path / "after.pt"), read_one_file(tmp_path / "before.pt"))
    assert not same(payload["model"], still["model"])


def test_tied_weights_stay_tied_in_a_frozen_payload() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    still = frozen(payload_of(Objects(model), TrainState()))["model"]
    assert still["0.weight"].data_ptr() == still["1.weight"].data_ptr()


def test_the_model_trains_after_a_resume_and_the_learning_rate_is_the_next_one(
    tmp_path: Path,
) -> None:
    one = Script(1, "Adam", "StepLR")
    one.train(4)
    one.save(tmp_path / "state.pt")
    other = Script(2, "Adam", "StepLR")
    other.model.eval()
    other.load(tmp_path / "state.pt")
    assert other.model.training
    assert other.optimizer.param_groups[0]["lr"] == 0.015
    other.train(2)
    assert other.optimizer.param_groups[0]["lr"] == 0.0075


def test_a_payload_goes_where_it_is_asked_to(tmp_path: Path) -> None:
    Script().save(tmp_path / "state.pt")
    payload = read_one_file(tmp_path / "state.pt", map_location="meta")
    assert {tensor.device.type for tensor in payload["model"].values()} == {"meta"}


def test_a_restored_payload_can_be_restored_again(tmp_path: Path) -> None:
    """Training goes on with tensors of its own, so the payload stays what it was."""
    one = Script(1)
    one.train(3)
    one.save(tmp_path / "state.pt")
    payload = read_one_file(tmp_path / "state.pt")
    kept = deepcopy(payload)
    objects = Objects(one.model, one.optimizer, one.scheduler, **one.parts)
    restore(payload, objects)
    one.micro()
    one.micro()
    one.update()
    assert same(payload, kept)
