"""In every format a run is saved and resumed to the bit, and may go from one format to another."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trainer.tiny import Life, live, make_run, toml
from trainer.contract.checkpoint_format import FORMATS, form_of, read_companion
from trainer.contract.wire import Checkpoint, Phase, Report, Step
from trainer.full_state import TrainState, read_one_file, read_sharded
from trainer.launch import OMITTED
from trainer.model import Transformer
from trainer.run import Run

STEPS = 30
FULL = ("pt", "sharded")


def facts(reports: list[Report]) -> list[tuple[Any, ...]]:
    """Steps and phases without what belongs to one life alone: seq and seconds."""
    return [tuple(r)[2:] for r in reports if isinstance(r, Step | Phase)]


def set_format(run: Path, form: str, **more: object) -> Path:
    """Write the settings anew, with that format."""
    text = (run / "run.toml").read_text()
    kept = text.split("[checkpoint]")[0]
    rest = text.split("[checkpoint]")[1].split("\n\n", 1)[1]
    table = {"every_steps": 1000, "format": form, **more}
    (run / "run.toml").write_text(kept + toml({"checkpoint": table}) + rest)
    return run


def arrays(life: Life) -> list[Tensor]:
    """All weights, m and v."""
    return list(life.run.state.arrays())


def same(life: Life, other: Life) -> bool:
    """Whether two lives ended in the same place, to the bit."""
    return all(map(torch.equal, arrays(life), arrays(other)))


def payload(path: Path) -> dict[str, Any]:
    """What a checkpoint of the library's formats holds."""
    return read_one_file(path) if form_of(path.name) == "pt" else read_sharded(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A life without interruption, in which every sequence draws its own arm."""
    return live(make_run(tmp_path_factory.mktemp("whole") / "run", data={"mix": "sequence"}))


def again(whole: Life, tmp_path: Path, form: str, **more: object) -> Path:
    """A copy of the run's directory that saves in that format."""
    run = tmp_path / "run"
    source = whole.checkpoints.parent
    shutil.copytree(source, run, ignore=shutil.ignore_patterns("checkpoints", "reports*"))
    return set_format(run, form, **more)


@pytest.mark.parametrize("stop", [1, 6, 7, 13, 22, 29])
@pytest.mark.parametrize("form", FULL)
def test_a_resumed_run_equals_the_uninterrupted_one(
    whole: Life, tmp_path: Path, form: str, stop: int
) -> None:
    run = again(whole, tmp_path, form)
    first = live(run, stop_after=stop)
    assert form_of(first.newest().name) == form
    second = live(run, attempt=2, resume=first.newest())
    assert facts(first.reports) + facts(second.reports) == facts(whole.reports)
    assert same(second, whole)
    assert second.run.state.losses.whole() == whole.run.state.losses.whole()


def test_a_run_goes_on_from_any_format_in_any_other(whole: Life, tmp_path: Path) -> None:
    run = again(whole, tmp_path, "pt")
    said: list[tuple[Any, ...]] = []
    path = None
    order = ("pt", "sharded", "bin", "bin", "sharded", "pt", "pt", "bin", "sharded", "sharded")
    for attempt, form in enumerate(order, 1):
        set_format(run, form)
        life = live(run, attempt=attempt, resume=path, stop_after=min(3 * attempt, STEPS))
        said += facts(life.reports)
        path = life.newest()
        assert form_of(path.name) == form
    assert said == facts(whole.reports)
    assert same(life, whole)


@pytest.mark.parametrize("split", ["by_size", "round_robin", "by_group"])
def test_every_split_and_number_of_shards_comes_back(
    whole: Life, tmp_path: Path, split: str
) -> None:
    for shards in (2, 3, 100):
        run = again(whole, tmp_path / str(shards), "sharded", split=split, shards=shards)
        path = live(run, stop_after=13).newest()
        found = len(list(path.glob("model.shard-*.pt")))
        assert found == min(shards, len(whole.run.state.shapes()))
        assert same(live(run, attempt=2, resume=path), whole)


def test_shards_may_lie_in_named_folders_elsewhere(whole: Life, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    roots = {"a": str(tmp_path / "one"), "b": "../two"}
    run = again(whole, tmp_path, "sharded", shard_roots=roots)
    path = live(run, stop_after=13).newest()
    assert sorted(item.name for item in path.iterdir()) == ["index.json", "meta.pt"]
    assert {len(list((tmp_path / name).iterdir())) for name in ("one", "two")} == {2}
    assert same(live(run, attempt=2, resume=path), whole)


@pytest.mark.parametrize("background", ["copy", "live"])
@pytest.mark.parametrize("form", FULL)
def test_saved_beside_training_it_is_that_very_step(
    whole: Life, tmp_path: Path, form: str, background: str
) -> None:
    run = again(whole, tmp_path, form, every_steps=4, background=background)
    first = live(run)
    assert same(first, whole)
    plain = live(again(whole, tmp_path / "plain", form), stop_after=12).newest()
    beside = first.checkpoints / plain.name
    assert (
        abs(size(beside) - size(plain)) < 1000
    )  # a view takes nothing else of the copy into a file
    second = live(run, attempt=2, resume=beside)
    assert same(second, whole)


def size(path: Path) -> int:
    """Bytes of all tensors' files."""
    return sum(file.stat().st_size for file in path.glob("*.pt")) or path.stat().st_size


@pytest.mark.parametrize("form", FORMATS)
def test_companion_report_and_checkpoint_agree(whole: Life, tmp_path: Path, form: str) -> None:
    life = live(again(whole, tmp_path, form), stop_after=5)
    path = life.newest()
    companion = read_companion(path.with_suffix(".json").read_bytes(), "x")
    report = life.of(Checkpoint)[-1]
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    assert companion.format == form
    assert report.name == path.name
    assert companion.sha256 == report.sha256
    assert companion.bytes == report.bytes == sum(file.stat().st_size for file in files)
    losses = [r.loss for r in life.of(Step)]
    assert companion.losses == {"first": 1, "values": losses}
    assert companion.next is not None
    later = live(life.checkpoints.parent, attempt=2, resume=path, stop_after=6).of(Step)[0]
    assert companion.next["lr"] == later.lr


@pytest.mark.parametrize("form", FULL)
def test_the_payload_holds_the_whole_history_over_many_lives(
    whole: Life, tmp_path: Path, form: str
) -> None:
    run = again(whole, tmp_path, form)
    path = None
    for attempt, stop in enumerate((4, 9, 17), 1):
        life = live(run, attempt=attempt, resume=path, stop_after=stop)
        path = life.newest()
    assert path is not None
    where = TrainState.of(payload(path)["train_state"], "x")
    assert where.step == 17
    assert where.losses == [r.loss for r in whole.of(Step)[:17]]
    record = json.loads(path.with_suffix(".json").read_bytes())["losses"]
    assert record == {"first": 10, "values": where.losses[9:]}


def test_a_loss_that_is_not_finite_is_kept_as_what_it_is(whole: Life, tmp_path: Path) -> None:
    run = again(whole, tmp_path, "pt")

    def spoil(built: Run) -> None:
        forward = built.forward
        built.forward = lambda sequences: (
            forward(sequences) * float("nan" if built.state.step == 2 else "1")
        )

    path = live(run, stop_after=3, change=spoil).newest()
    losses = TrainState.of(payload(path)["train_state"], "x").losses
    assert [math.isnan(loss) for loss in losses] == [False, False, True]
    assert json.loads(path.with_suffix(".json").read_bytes())["losses"]["values"][2] == "nan"
    set_format(run, "bin")
    second = live(run, attempt=2, resume=path, stop_after=4)
    assert math.isnan(second.run.state.losses.whole()[2])


@pytest.mark.parametrize("form", FORMATS)
def test_across_epochs_no_document_is_skipped_or_seen_twice(tmp_path: Path, form: str) -> None:
    run = set_format(make_run(tmp_path / "run"), form)
    shutil.rmtree(run / "files")
    (run / "files").mkdir()
    for number in range(10):  # each fills a sequence, so batches of three go across an epoch
        (run / "files" / f"{number}.txt").write_text(f"document {number:03}")
    (run / "records.jsonl").write_text("")
    text = (run / "run.toml").read_text().replace('[sources."records"]\npath = "records.jsonl"', "")
    (run / "run.toml").write_text(text)
    seen: list[bytes] = []

    def watch(built: Run) -> None:
        forward = built.forward

        def watched(sequences: Tensor) -> Tensor:
            seen.extend(bytes(row.tolist()) for row in sequences)
            return forward(sequences)

        built.forward = watched

    path = None
    for attempt, stop in enumerate((2, 5, 10), 1):
        life = live(run, attempt=attempt, resume=path, stop_after=stop, change=watch)
        path = life.newest()
    epochs = [Counter(seen[start : start + 10]) for start in (0, 10, 20)]
    assert all(len(epoch) == 10 and set(epoch.values()) == {1} for epoch in epochs)
    assert seen[:10] != seen[10:20]


@pytest.mark.parametrize("part", OMITTED)
@pytest.mark.parametrize("form", FULL)
def test_each_part_of_the_state_is_needed(
    whole: Life, tmp_path: Path, form: str, part: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run = again(whole, tmp_path, form)
    path = live(run, stop_after=13).newest()
    second = live(run, attempt=2, resume=path, omit={part})
    assert f"{part} is left out, as STEPKEEPER_OMIT asks" in capfd.readouterr().err
    assert facts(second.reports) != facts(whole.reports)[-len(facts(second.reports)) :]


@pytest.mark.parametrize("form", FULL)
def test_any_script_can_go_on_with_torchs_own_optimizer(
    whole: Life, tmp_path: Path, form: str
) -> None:
    run = again(whole, tmp_path, form)
    life = live(run, stop_after=13)
    held = payload(life.newest())
    model = Transformer(life.run.sections.model.shape)
    optimizer = torch.optim.AdamW(model.parameters())
    model.load_state_dict(held["model"])
    optimizer.load_state_dict(held["optimizer"])
    batch: list[Tensor] = []

    def watch(built: Run) -> None:
        forward = built.forward

        def watched(sequences: Tensor) -> Tensor:
            batch.append(sequences)
            return forward(sequences)

        built.forward = watched

    after = live(run, attempt=2, resume=life.newest(), stop_after=14, change=watch)
    model(batch[0]).mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    for mine, theirs in zip(model.parameters(), after.run.state.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.0, atol=0.0)


def test_the_model_has_nothing_that_is_no_parameter(whole: Life) -> None:
    """A buffer would have to be part of a moment."""
    assert list(whole.run.state.model.state_dict()) == [n for n, _ in whole.run.state.shapes()]
