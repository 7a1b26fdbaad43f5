"""Settings refuse what does not hold, all problems at once, in the words of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.trainer.tiny import launch
from trainer.config import read_policy_arms, read_sections
from trainer.contract import settings, wire
from trainer.contract.settings import TrainerSections
from trainer.errors import SettingsError
from trainer.launch import read_launch


def problems(**sections: dict[str, Any]) -> list[tuple[str, str]]:
    """Where and what is wrong."""
    with pytest.raises(ValidationError) as caught:
        TrainerSections.model_validate(sections)
    return [
        (".".join(str(part) for part in error["loc"]), error["msg"])
        for error in caught.value.errors()
    ]


def test_an_empty_file_means_the_demo_on_this_machine() -> None:
    sections = TrainerSections.model_validate({})
    assert sections.model.shape == settings.PRESETS["demo"]
    assert sections.checkpoint.every_steps == 100
    assert (sections.train.device, sections.train.deterministic) == ("auto", True)
    assert (sections.samples.every, sections.evaluate.every) == (0, 0)


def test_overrides_change_the_preset() -> None:
    sections = TrainerSections.model_validate({"model": {"preset": "andrea-12m", "context": 256}})
    assert sections.model.shape == settings.PRESETS["andrea-12m"]._replace(context=256)


def test_arms_are_named_as_on_the_wire() -> None:
    schema = TrainerSections.model_json_schema()
    pattern = next(iter(schema["properties"]["sources"]["patternProperties"]))
    assert pattern == f"^{wire.ARM_NAME.pattern}$"


@pytest.mark.parametrize(
    ("sections", "where", "what"),
    [
        ({"train": {"stepz": 3}}, "train.stepz", "Extra inputs are not permitted"),
        ({"train": {"steps": "3"}}, "train.steps", "valid integer"),
        ({"train": {"steps": True}}, "train.steps", "valid integer"),
        ({"train": {"lr": 0.0}}, "train.lr", "greater than 0"),
        ({"train": {"lr": float("nan")}}, "train.lr", "finite"),
        ({"checkpoint": {"every_seconds": 0.0}}, "checkpoint.every_seconds", "greater than 0"),
        ({"checkpoint": {"sigusr1": "later"}}, "checkpoint.sigusr1", "'now' or 'boundary'"),
        ({"evaluate": {"holdout": 0.6}}, "evaluate.holdout", "less than or equal to 0.5"),
        ({"evaluate": {"every": 5}}, "evaluate", "holdout = 0.0 keeps no document"),
        ({"samples": {"every": 150}}, "samples", "not a multiple of checkpoint.every_steps = 100"),
        ({"samples": {"every": 100, "prompts": []}}, "samples", "prompts is empty"),
        ({"model": {"width": 100, "heads": 3}}, "model", "not a multiple of heads 3"),
        ({"model": {"preset": "huge"}}, "model.preset", "'demo', 'andrea-12m' or 'andrea-120m'"),
        ({"sources": {"a b": {"path": "x"}}}, "sources.a b.[key]", "match pattern"),
        ({"sources": {"a": {}}}, "sources.a.path", "Field required"),
        ({"sources": {"a": {"path": "x", "kind": "csv"}}}, "sources.a.kind", "'auto', 'text'"),
        ({"moodel": {}}, "moodel", "Extra inputs are not permitted"),
    ],
)
def test_what_does_not_hold_is_refused_at_its_place(
    sections: dict[str, Any], where: str, what: str
) -> None:
    ((place, message),) = problems(**sections)
    assert place == where
    assert what in message


def test_settings_cannot_be_changed_afterwards() -> None:
    sections = TrainerSections.model_validate({})
    with pytest.raises(ValidationError, match="frozen"):
        sections.train.steps = 5


def test_a_file_without_sources_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('name = "x"\n[retention]\nkeep = 3\n')
    with pytest.raises(SettingsError, match=r"cannot use .*run\.toml: no \[sources\.NAME\]"):
        read_sections(launch(tmp_path, 1, None))


@pytest.mark.parametrize(("text", "why"), [(None, "no such file"), ("[a\n", "line 1")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / "run.toml").write_text(text)
    with pytest.raises(SettingsError, match=rf"cannot read .*run\.toml: .*{why}"):
        read_sections(launch(tmp_path, 1, None))


def test_arguments_decide_over_the_file(run: Path) -> None:
    words = ["--run", str(run), "--steps", "7", "--ckpt-every-seconds", "2.5"]
    sections = read_sections(read_launch(words, {}))
    assert sections.train.steps == 7
    assert sections.checkpoint.every_seconds == 2.5


def test_the_environment_names_a_supervised_life(tmp_path: Path) -> None:
    given = {
        "STEPKEEPER_RUN": str(tmp_path),
        "STEPKEEPER_ATTEMPT": "7",
        "STEPKEEPER_REPORTS": str(tmp_path / "reports.jsonl"),
        "STEPKEEPER_ORDERS": str(tmp_path / "orders.json"),
        "STEPKEEPER_RESUME": str(tmp_path / "checkpoints/step_112700.bin"),
    }
    found = read_launch([], given)
    assert not found.alone
    assert (found.attempt, found.resumed_step) == (7, 112_700)
    assert found.checkpoints == tmp_path / "checkpoints"
    assert read_launch([], {**given, "STEPKEEPER_RESUME": ""}).resume is None


def test_the_settings_in_force_count_and_not_the_file_that_is_being_edited(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[train]\nsteps =")
    kept = tmp_path / "kept.toml"
    kept.write_text('[train]\nsteps = 7\n[sources.a]\npath = "a"\n')
    given = {"STEPKEEPER_RUN": str(tmp_path), "STEPKEEPER_SETTINGS": str(kept)}
    assert read_sections(read_launch([], given)).train.steps == 7
    with pytest.raises(SettingsError, match=r"run\.toml"):
        read_sections(read_launch([], {**given, "STEPKEEPER_SETTINGS": ""}))


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        ([], {}, "no run directory; give --run RUN"),
        (["--run", "no/such"], {}, "cannot train in no/such: it is not a directory"),
        (["--run", "."], {"WORLD_SIZE": "2"}, "cannot train with WORLD_SIZE=2"),
        (["--run", "."], {"STEPKEEPER_ATTEMPT": "x"}, "cannot use STEPKEEPER_ATTEMPT='x'"),
        (["--run", ".", "--output", "d"], {"STEPKEEPER_REPORTS": "r"}, "cannot use --output"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(
    words: list[str], given: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        read_launch(words, given)


def test_a_policy_names_its_arms(tmp_path: Path) -> None:
    assert read_policy_arms(tmp_path) is None
    (tmp_path / "policy.toml").write_text("[arms.chat]\nfloor = 0.1\n[arms.prose]\ncap = 0.9\n")
    assert read_policy_arms(tmp_path) == ("chat", "prose")
    (tmp_path / "policy.toml").write_text('algorithm = "static"\n')
    with pytest.raises(SettingsError, match=r"no \[arms\.NAME\]"):
        read_policy_arms(tmp_path)
