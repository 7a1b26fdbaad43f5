"""The optimizer is torch's AdamW bit for bit, the clip torch's, the schedule the published one."""

from __future__ import annotations

import math

import pytest
import torch

from trainer.contract.settings import TrainSettings
from trainer.optimizer import AdamW, clip, learning_rate

SHAPES = ((5, 7), (128, 64), (1,), (300, 130))


def tensors(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_thirty_updates_equal_those_of_torch_bit_for_bit(*, foreach: bool, decay: float) -> None:
    ours = tensors(0)
    theirs = [torch.nn.Parameter(t.clone()) for t in ours]
    mine = AdamW(ours, weight_decay=decay)
    reference = torch.optim.AdamW(theirs, weight_decay=decay, foreach=foreach)
    for number in range(30):
        lr = 1e-3 * (1 + number % 5)
        gradients = tensors(number + 1)
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        reference.param_groups[0]["lr"] = lr
        reference.step()
        mine.step(gradients, lr)
    assert mine.updates == 30
    for index, parameter in enumerate(theirs):
        state = reference.state[parameter]
        assert torch.equal(ours[index], parameter.detach())
        assert torch.equal(mine.m[index], state["exp_avg"])
        assert torch.equal(mine.v[index], state["exp_avg_sq"])


@pytest.mark.parametrize("bound", [0.5, 1e6])
def test_clipping_equals_that_of_torch(bound: float) -> None:
    gradients = tensors(3)
    parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    expected = torch.nn.utils.clip_grad_norm_(parameters, bound)
    assert torch.equal(clip(gradients, bound), expected)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert torch.equal(gradient, parameter.grad)


def test_a_bound_of_zero_leaves_gradients_alone() -> None:
    gradients, before = tensors(3), tensors(3)
    clip(gradients, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(gradients, before, strict=True))


@pytest.mark.parametrize(
    ("t", "factor"), [(0, 0.0005), (1000, 0.5005), (1998, 0.9995), (1999, 1.0)]
)
def test_the_warm_up_has_the_published_factors(t: int, factor: float) -> None:
    settings = TrainSettings(steps=200_000, lr=3e-4, warmup_steps=2000)
    assert learning_rate(t, settings) == pytest.approx(3e-4 * factor, rel=1e-12)


def test_the_cosine_goes_from_the_peak_to_its_floor() -> None:
    settings = TrainSettings(steps=1100, lr=1.0, warmup_steps=100, final_lr_share=0.1)
    middle = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 0.5))
    assert learning_rate(99, settings) == 1.0
    assert learning_rate(599, settings) == pytest.approx(middle)
    assert learning_rate(1099, settings) == pytest.approx(0.1)
    rates = [learning_rate(t, settings) for t in range(99, 1100)]
    assert rates == sorted(rates, reverse=True)
    assert learning_rate(5000, settings) == pytest.approx(0.1)


@pytest.mark.parametrize("warmup", [0, 1])
def test_without_a_warm_up_the_first_rate_is_not_zero(warmup: int) -> None:
    settings = TrainSettings(steps=100, lr=1.0, warmup_steps=warmup)
    assert learning_rate(0, settings) > 0.99
