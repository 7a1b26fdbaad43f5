"""Generators and the orders drawn from them go on exactly where they were."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainer.full_states import BATCH, ITEMS, Script, same
from trainer.full_state import (
    EpochOrder,
    SchemaError,
    StructureError,
    capture_rng_state,
    generators_moved,
    restore_rng_state,
)


@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("python", lambda _: random.seed(7)),
        ("numpy", lambda _: np.random.seed(7)),  # noqa: NPY002 - the global one is meant
        ("torch_cpu", lambda _: torch.manual_seed(7)),
        ("generators.noise", lambda noise: noise.random()),
    ],
)
def test_a_generator_moved_after_the_resume_is_named(
    tmp_path: Path, name: str, move: Callable[[np.random.Generator], object]
) -> None:
    script = Script(1)
    script.save(tmp_path / "state.pt")
    script.train(1)
    restored = script.load(tmp_path / "state.pt")
    named = {"noise": script.noise}
    assert generators_moved(restored.rng, named) == []
    move(script.noise)
    assert generators_moved(restored.rng, named) == [name]


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_generator_of_numpy_goes_on_where_it_was(kind: str) -> None:
    def fresh(seed: int) -> np.random.Generator:
        return np.random.Generator(getattr(np.random, kind)(seed))

    one, other = fresh(1), fresh(2)
    one.integers(9, size=3, dtype=np.uint32)  # half a word is left over
    states = json.loads(json.dumps(capture_rng_state({"it": one})))
    restore_rng_state(states, {"it": other})
    assert other.integers(9, size=5, dtype=np.uint32).tolist() == (
        one.integers(9, size=5, dtype=np.uint32).tolist()
    )
    assert other.normal() == one.normal()


def test_generators_of_python_and_torch_are_kept_by_name() -> None:
    one: dict[str, random.Random | torch.Generator] = {
        "gain": random.Random(1),  # noqa: S311 - as a script would
        "mask": torch.Generator().manual_seed(1),
    }
    states = capture_rng_state(one)
    expected = one["gain"].random(), torch.rand(1, generator=one["mask"])
    restore_rng_state(states, one)
    assert (one["gain"].random(), torch.rand(1, generator=one["mask"])) == expected


def test_no_generator_is_touched_where_one_state_is_none() -> None:
    states = capture_rng_state()
    random.seed(5)
    before = capture_rng_state()
    with pytest.raises(SchemaError, match="cannot restore the generator torch_cpu: "):
        restore_rng_state({**states, "torch_cpu": [1, 2, 3]})
    assert capture_rng_state() == before


def test_named_generators_must_be_those_that_were_saved() -> None:
    states = capture_rng_state({"noise": np.random.default_rng(1)})
    with pytest.raises(StructureError, match="saved were noise, given are none"):
        restore_rng_state(states)


@pytest.mark.parametrize("cut", range(13))
def test_no_input_is_skipped_or_seen_twice_wherever_the_epoch_is_cut(cut: int) -> None:
    def order(seed: int) -> EpochOrder:
        return EpochOrder(ITEMS, BATCH, np.random.default_rng(seed))

    whole = order(1)
    batches = [whole.next_batch() for _ in range(18)]
    one = order(1)
    first = [one.next_batch() for _ in range(cut)]
    other = order(2)
    other.load_state_dict(one.state_dict())
    taken = first + [other.next_batch() for _ in range(18 - cut)]
    assert taken == batches
    epochs = [list(chain(*taken[at : at + 6])) for at in (0, 6, 12)]
    assert all(sorted(epoch) == list(range(ITEMS)) for epoch in epochs)
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("cut", [0, 1, 5, 6, 7])
def test_looking_ahead_gives_the_rest_of_the_epoch_and_takes_nothing(cut: int) -> None:
    one = EpochOrder(ITEMS, BATCH, np.random.default_rng(1))
    for _ in range(cut):
        one.next_batch()
    before = one.state_dict()
    ahead = one.rest_of_epoch()
    after = one.state_dict()
    assert torch.equal(before.pop("permutation"), after.pop("permutation"))
    assert before == after
    assert len(ahead) == 6 - cut % 6
    assert [one.next_batch() for _ in ahead] == ahead


def test_an_order_can_be_drawn_by_torch() -> None:
    one = EpochOrder(5, 2, torch.Generator().manual_seed(1))
    one.next_batch()
    other = EpochOrder(5, 2, torch.Generator().manual_seed(2))
    other.load_state_dict(one.state_dict())
    for order in (one, other):
        assert order.batch_in_epoch == 1
    assert [one.next_batch() for _ in range(9)] == [other.next_batch() for _ in range(9)]


def test_an_order_of_other_items_is_refused_and_nothing_is_loaded(tmp_path: Path) -> None:
    one = Script(1)
    one.train(1)
    one.save(tmp_path / "state.pt")
    other = Script(2)
    before = deepcopy(other.everything())
    other.loader.items = ITEMS + 1
    with pytest.raises(StructureError, match="it had items = 22 and has 23: inputs would be skip"):
        other.load(tmp_path / "state.pt")
    other.loader.items = ITEMS
    assert same(other.everything(), before)
