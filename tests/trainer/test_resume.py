"""Resume is exact, bit for bit, wherever it stops; and each part of the state is needed for it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.tiny import Life, live, make_run
from trainer import rng
from trainer.contract.wire import Phase, Report, Step
from trainer.launch import OMITTED

STEPS = 30
MIXES = {
    "step": {},
    "sequence": {"data": {"mix": "sequence"}},
    "accumulated": {"train": {"accumulate": 2}},
}


def facts(reports: list[Report]) -> list[tuple[Any, ...]]:
    """Steps and phases without what belongs to one life alone: seq and seconds."""
    return [tuple(r)[2:] for r in reports if isinstance(r, Step | Phase)]


def weights(life: Life) -> bytes:
    """The whole ``.bin``: weights, m and v."""
    return life.newest().read_bytes()


def companion(life: Life) -> dict[str, Any]:
    """The companion without its wall time, and without what depends on the checkpoint before."""
    record = json.loads(life.newest().with_suffix(".json").read_bytes())
    del record["saved"], record["losses"]
    return record


@pytest.fixture(scope="module", params=MIXES)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A life without interruption, in each mix."""
    run = make_run(tmp_path_factory.mktemp(request.param) / "run", **MIXES[request.param])
    return live(run)


def cut(whole: Life, tmp_path: Path, stop: int) -> tuple[Path, Life]:
    """The same run stopped after ``stop`` steps, in a copy of its directory."""
    run = tmp_path / "run"
    source = whole.checkpoints.parent
    shutil.copytree(source, run, ignore=shutil.ignore_patterns("checkpoints", "reports*"))
    return run, live(run, stop_after=stop)


@pytest.mark.parametrize("stop", [1, 6, 7, 8, 13, 22, 29])
def test_a_resumed_run_equals_the_uninterrupted_one(whole: Life, tmp_path: Path, stop: int) -> None:
    run, first = cut(whole, tmp_path, stop)
    assert first.leave == "stop"
    second = live(run, attempt=2, resume=first.newest())
    assert facts(first.reports) + facts(second.reports) == facts(whole.reports)
    assert weights(second) == weights(whole)
    assert companion(second) == companion(whole)


def test_the_stops_fall_inside_phases_inside_documents_and_on_both_sides_of_an_epoch(
    whole: Life, tmp_path: Path
) -> None:
    seen = []
    for stop in (6, 13, 22):
        record = companion(cut(whole, tmp_path / str(stop), stop)[1])
        assert 0 < record["phase"]["done"] < record["phase"]["steps"]
        seen += record["cursors"].values()
    assert any(cursor["offset"] for cursor in seen)
    assert {cursor["epoch"] for cursor in seen} >= {0, 1}


def test_stopping_at_every_step_changes_nothing(whole: Life, tmp_path: Path) -> None:
    run, life = cut(whole, tmp_path, 1)
    said = facts(life.reports)
    for step in range(2, STEPS + 1):
        life = live(run, attempt=step, resume=life.newest(), stop_after=step)
        said += facts(life.reports)
    assert said == facts(whole.reports)
    assert weights(life) == weights(whole)


def test_the_generators_of_every_library_go_on_where_they_were(
    run: Path,
) -> None:
    def draw() -> None:  # from the global generators, as dropout or a shuffling loader would
        torch.rand(3)
        random.random()  # noqa: S311 - likewise
        np.random.rand(3)  # noqa: NPY002 - likewise

    first = live(run, stop_after=5, acts={("step", 3): draw})
    draw()
    before = json.loads(first.newest().with_suffix(".json").read_bytes())["rng"]
    states = []
    live(
        run,
        attempt=2,
        resume=first.newest(),
        stop_after=6,
        change=lambda _run: states.append(rng.capture()),
    )
    del before["mixer"]
    assert states == [before]


# Each of these leaves one part of the state out, as a resume might that merely works.


def sabotage(life: Life, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change the companion of the last checkpoint."""
    path = life.newest()
    beside = path.with_suffix(".json")
    record = json.loads(beside.read_bytes())
    change(record)
    beside.write_text(json.dumps(record))
    return path


def test_without_its_generator_other_arms_are_drawn(whole: Life, tmp_path: Path) -> None:
    run, first = cut(whole, tmp_path, 13)
    early = cut(whole, tmp_path / "early", 1)[1]
    path = sabotage(first, lambda r: r["rng"].update(mixer=companion(early)["rng"]["mixer"]))
    second = live(run, attempt=2, resume=path)
    expected = [r.arm for r in whole.of(Step)[13:]]
    assert [r.arm for r in second.of(Step)] != expected
    assert weights(second) != weights(whole)


def test_without_its_cursors_other_documents_are_read(whole: Life, tmp_path: Path) -> None:
    run, first = cut(whole, tmp_path, 13)
    second = live(run, attempt=2, resume=first.newest(), omit={"cursor"})
    steps = whole.of(Step)[13:]
    assert [r.arm for r in second.of(Step)] == [r.arm for r in steps]
    assert all(a.data != b.data for a, b in zip(second.of(Step), steps, strict=True))
    assert weights(second) != weights(whole)


@pytest.mark.parametrize("part", ["m", "v"])
def test_without_its_moments_the_weights_go_elsewhere(
    whole: Life, tmp_path: Path, part: str
) -> None:
    run, first = cut(whole, tmp_path, 13)

    second = live(run, attempt=2, resume=first.newest(), omit={part})
    steps = whole.of(Step)[13:]
    assert [r.data for r in second.of(Step)] == [r.data for r in steps]
    assert second.of(Step)[0].loss == steps[0].loss
    assert second.of(Step)[-1].loss != steps[-1].loss
    assert weights(second) != weights(whole)


def test_without_its_schedule_the_rate_begins_anew_and_the_weights_go_elsewhere(
    whole: Life, tmp_path: Path
) -> None:
    run, first = cut(whole, tmp_path, 13)
    second = live(run, attempt=2, resume=first.newest(), omit={"scheduler"})
    assert [r.lr for r in second.of(Step)][:5] == [r.lr for r in whole.of(Step)][:5]
    assert weights(second) != weights(whole)


def test_without_its_phase_the_arms_are_counted_anew(whole: Life, tmp_path: Path) -> None:
    run, first = cut(whole, tmp_path, 13)
    second = live(run, attempt=2, resume=first.newest(), omit={"phase"})
    assert facts(second.of(Phase)) != facts(whole.of(Phase))[-len(second.of(Phase)) :]


def test_without_its_generators_other_arms_are_drawn(whole: Life, tmp_path: Path) -> None:
    run, first = cut(whole, tmp_path, 13)
    second = live(run, attempt=2, resume=first.newest(), omit={"rng"})
    assert [r.arm for r in second.of(Step)] != [r.arm for r in whole.of(Step)[13:]]
    assert weights(second) != weights(whole)


def test_what_is_left_out_is_said(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = live(run, stop_after=5).newest()
    capfd.readouterr()
    second = live(run, attempt=2, resume=path, stop_after=6, omit=frozenset(OMITTED))
    said = capfd.readouterr().err.splitlines()
    assert said == [
        f"resumed from step_000005.bin, but {name} is left out, as STEPKEEPER_OMIT asks"
        for name in sorted(OMITTED)
    ]
    ready = json.loads((run / "reports-2.jsonl").read_bytes().splitlines()[1])
    assert ready["report"] == "ready"
    assert ready["omitted"] == sorted(OMITTED)
    assert second.last_step() == 6
