"""A full state is restored to the bit, whatever it consists of, as one file and in shards."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from tests.trainer.full_states import OPTIMIZERS, SCHEDULERS, Script, same

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
