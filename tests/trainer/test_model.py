"""The model has the published parameters, looks only back, and starts the same everywhere."""

from __future__ import annotations

import math

import pytest
import torch

from trainer.contract.settings import PRESETS, Shape
from trainer.model import Transformer

TINY = Shape(vocabulary=50, width=16, heads=2, layers=2, context=10)


def made(shape: Shape = TINY, seed: int = 0) -> Transformer:
    model = Transformer(shape)
    model.initialise(seed)
    return model


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_has_as_many_parameters_as_its_shape_says(preset: str) -> None:
    with torch.device("meta"):
        model = Transformer(PRESETS[preset])
    counted = sum(parameter.numel() for parameter in model.parameters())
    assert counted == PRESETS[preset].n_params
    assert all(parameter.dim() == 2 for parameter in model.parameters())  # no biases, no gains


def test_the_head_is_not_tied_to_the_embedding() -> None:
    model = made()
    assert model.head.weight.data_ptr() != model.tokens.data_ptr()
    assert not torch.equal(model.head.weight, model.tokens)


def test_no_token_sees_a_later_one() -> None:
    model = made()
    tokens = torch.arange(10).reshape(1, 10)
    changed = tokens.clone()
    changed[0, 6:] = 40
    before, after = model.logits(tokens), model.logits(changed)
    assert torch.equal(before[0, :6], after[0, :6])
    assert not torch.allclose(before[0, 6:], after[0, 6:])


def test_the_loss_of_each_sequence_is_its_own() -> None:
    model = made()
    sequences = torch.randint(0, 50, (4, 11), generator=torch.Generator().manual_seed(1))
    together = model(sequences)
    assert together.shape == (4,)
    assert together.tolist() == pytest.approx([model(s[None]).item() for s in sequences])
    assert together.mean().item() == pytest.approx(math.log(50), abs=0.1)


def test_the_same_seed_gives_the_same_model_and_touches_no_global_generator() -> None:
    before = torch.get_rng_state()
    one, two, other = made(seed=1), made(seed=1), made(seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.tokens, other.tokens)
