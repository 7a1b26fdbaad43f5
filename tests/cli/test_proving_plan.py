"""What a proof says that it will do is what its lives then do."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.cli.proving_plan import Plan
from supervisor.perform.scratch_runs import Sealed
from supervisor.sidecars.checkpoints import scan
from tests.sidecars.sealing import lineage


@pytest.mark.parametrize("began", [6, 7, 8, 9, 10, 11])
def test_the_cut_is_at_the_first_checkpoint_and_the_end_at_the_first_behind_it(
    tmp_path: Path, began: int
) -> None:
    half = 3  # a life that is cut saves at its multiples, the others at those of twice as many
    lineage(tmp_path, began)
    plan = Plan(Sealed(tmp_path, scan(tmp_path).sealed[0]), half, 0.0)
    cut = next(step for step in range(began + 1, 100) if step % half == 0)
    last = next(step for step in range(cut + 1, 100) if step % (2 * half) == 0)
    assert (plan.began, plan.cut, plan.last) == (began, cut, last)
    assert f"to step {last}; cut at step {cut} and" in plan.in_words()
