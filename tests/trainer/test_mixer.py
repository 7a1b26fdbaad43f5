"""Arms are drawn by weight from the mixer's own generator, and one that fails is stood in for."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.draws import draw
from trainer.contract.settings import SourceSettings
from trainer.data import Arm
from trainer.mixer import Mixer, NothingServedError
from trainer.sources import open_documents

EVEN = {"a": 0.5, "b": 0.5}


def mixer(root: Path, mix: str = "step", seed: int = 0) -> Mixer:
    arms = []
    for name in ("a", "b"):
        (root / name).mkdir(exist_ok=True)
        for number in range(4):
            (root / name / f"{number}.txt").write_text(name * 20)
        documents = open_documents(SourceSettings(path=name), root, 256, 7)
        arms.append(Arm(name, documents, length=8, seed=seed, holdout=0.0))
    return Mixer(arms, mix=mix, seed=seed)


def letters(tokens: np.ndarray) -> set[str]:
    return {chr(token) for token in tokens.reshape(-1).tolist() if token}


@pytest.mark.parametrize("mix", ["step", "sequence"])
def test_arms_are_drawn_by_weight(tmp_path: Path, mix: str) -> None:
    source = mixer(tmp_path, mix)
    counts = Counter(arm for _ in range(800) for arm in source.batch({"a": 0.2, "b": 0.8}, 2).arms)
    assert counts["a"] / counts.total() == pytest.approx(0.2, abs=0.05)
    assert {arm for _ in range(50) for arm in source.batch({"a": 0.0, "b": 1.0}, 2).arms} == {"b"}


def test_one_arm_feeds_a_whole_step(tmp_path: Path) -> None:
    source = mixer(tmp_path)
    for _ in range(20):
        batch = source.batch(EVEN, 3)
        assert batch.sequences.shape == (3, 8)
        assert batch.arms == tuple(letters(batch.sequences))


def test_each_sequence_draws_its_own_arm(tmp_path: Path) -> None:
    source = mixer(tmp_path, "sequence")
    batch = source.batch(EVEN, 16)
    assert len(batch.arms) == 16
    assert set(batch.arms) == {"a", "b"}
    assert [{arm} for arm in batch.arms] == [letters(row) for row in batch.sequences]


def test_nothing_else_moves_the_draws_and_they_move_nothing_else(tmp_path: Path) -> None:
    alone, among = mixer(tmp_path), mixer(tmp_path)
    drawn = [alone.batch(EVEN, 1).digest for _ in range(10)]
    before = (random.getstate(), torch.get_rng_state())
    for expected in drawn:
        assert among.batch(EVEN, 1).digest == expected
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    random.seed(1)
    torch.manual_seed(1)
    assert [mixer(tmp_path).batch(EVEN, 1).digest] == drawn[:1]


@pytest.mark.parametrize("mix", ["step", "sequence"])
def test_another_arm_stands_in_for_one_that_vanished(tmp_path: Path, mix: str) -> None:
    source = mixer(tmp_path, mix)
    shutil.rmtree(tmp_path / "a")
    failed: Counter[str] = Counter()
    for _ in range(20):
        batch = source.batch(EVEN, 4)
        assert set(batch.arms) == {"b"}
        assert letters(batch.sequences) == {"b"}
        assert len(batch.problems) == batch.failed["a"]
        failed += batch.failed
    assert 0 < failed["a"] <= 20
    assert failed["b"] == 0
    assert source.cursors["a"] == (0, 0, 0)


def test_an_arm_that_no_source_has_fails_like_a_vanished_one(tmp_path: Path) -> None:
    source = mixer(tmp_path)
    batches = [source.batch({"zombie": 0.9, "b": 0.1}, 1) for _ in range(10)]
    assert {arm for batch in batches for arm in batch.arms} == {"b"}
    assert sum(batch.failed["zombie"] for batch in batches) > 5
    assert "no such source could be opened" in next(b.problems[0] for b in batches if b.problems)


@pytest.mark.parametrize("mix", ["step", "sequence"])
def test_when_no_arm_serves_no_cursor_moves(tmp_path: Path, mix: str) -> None:
    source = mixer(tmp_path, mix)
    source.batch(EVEN, 2)
    before = dict(source.cursors)
    for path in (tmp_path / "a/3.txt", tmp_path / "b/3.txt"):
        path.unlink()
    with pytest.raises(NothingServedError) as caught:  # after some of the 200 could be read
        source.batch(EVEN, 200)
    assert caught.value.failed == {"a": 1, "b": 1}
    assert source.cursors == before


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}])
def test_without_weight_nothing_is_served(tmp_path: Path, weights: dict[str, float]) -> None:
    with pytest.raises(NothingServedError, match="no arm has weight"):
        mixer(tmp_path).batch(weights, 2)


def test_a_restored_mixer_says_which_arms_came_and_went(tmp_path: Path) -> None:
    source = mixer(tmp_path)
    source.batch(EVEN, 2)
    record = source.record()
    record["gone"] = record.pop("b")
    again = mixer(tmp_path)
    remarks = again.restore(record)
    assert remarks == ["arm gone is gone", "arm b is new and begins at its first document"]
    assert again.cursors["a"] == source.cursors["a"]
    assert again.record()["gone"] == record["gone"]  # it may come back


@given(
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
    out=st.sets(st.integers(0, 5), max_size=2),
)
def test_every_draw_holds_when_it_is_looked_at_again(
    shares: list[float], seed: int, out: set[int]
) -> None:
    weights = {f"arm{at}": share for at, share in enumerate(shares)}
    failed = Counter(f"arm{at}" for at in out if at < len(shares))
    source = Mixer([], mix="step", seed=seed)
    for _ in range(5):
        drawn = source._draw(weights, failed)
        if drawn is not None:
            again = draw(
                tuple(weights.items()), drawn.number, drawn.arm, drawn.propensity, tuple(failed)
            )
            assert again is not None
            assert again.holds
