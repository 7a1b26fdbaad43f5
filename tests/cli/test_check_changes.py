"""What check says of settings that differ from those in force, and what it refuses of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.config import Reach, begin_with, compare
from supervisor.errors import SettingsError
from supervisor.sidecars import kept_settings
from tests.support.command import command
from tests.support.runs import Run, make_run, scripted

BASE = """\
schema = "stepkeeper.run/1"
[trainer]
env = { KEY = "one", OTHER = "x" }
[sources."a.b"]
path = "a"
[sources.c]
path = "c"
"""


def changes(tmp_path: Path, before: str, after: str) -> dict[str, tuple[object, object, Reach]]:
    found = compare(tmp_path, before.encode(), after.encode())
    return {change.setting: (change.old, change.new, change.reach) for change in found}


def test_each_change_has_its_old_and_new_value_and_its_class(tmp_path: Path) -> None:
    after = BASE.replace('"a"', '"b"').replace("[trainer]", "[stop]\ngrace = 5.0\n[trainer]")
    after = after.replace('[sources.c]\npath = "c"\n', "[train]\nlr = 0.5\n")
    assert changes(tmp_path, BASE, after) == {
        "sources.a.b.path": ("a", "b", Reach.NEXT),
        "sources.c.path": ("c", None, Reach.NEXT),
        "sources.c.kind": ("auto", None, Reach.NEXT),
        "sources.c.field": ("text", None, Reach.NEXT),
        "stop.grace": (60.0, 5.0, Reach.LIVE),
        "train.lr": (0.001, 0.5, Reach.NEXT),
    }


def test_values_of_the_environment_are_never_shown(tmp_path: Path) -> None:
    after = BASE.replace("one", "two").replace(', OTHER = "x"', "")
    assert changes(tmp_path, BASE, after) == {
        "trainer.env.KEY": ("(hidden)", "(hidden)", Reach.NEXT),
        "trainer.env.OTHER": ("(hidden)", None, Reach.NEXT),
    }


def test_a_default_written_out_or_a_structure_in_other_words_is_no_change(tmp_path: Path) -> None:
    written = f'name = "{tmp_path.name}"\n{BASE}[model]\nwidth = 128\n[train]\nlr = 0.001\n'
    assert changes(tmp_path, BASE, written) == {}


@pytest.fixture
def begun(tmp_path: Path) -> Run:
    """A run whose settings are in force, and nothing more."""
    run = make_run(tmp_path / "run", scripted())
    kept_settings.install(run.path, 1, (run.path / "run.toml").read_bytes())
    return run


def edit(run: Run, before: str, after: str) -> None:
    path = run.path / "run.toml"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def test_check_lists_what_a_reload_would_change(begun: Run) -> None:
    edit(begun, "every_steps = 100", "every_steps = 50")
    told = command("check", begun.path)
    assert told.code == 0
    assert "checkpoint.every_steps: 100 -> 50 (next attempt)" in told.out
    change = {"setting": "checkpoint.every_steps", "old": 100, "new": 50, "reach": "next attempt"}
    assert command("check", begun.path, "--json").facts()["changes"] == [change]


def test_check_refuses_another_name_and_a_source_that_the_policy_in_force_needs(begun: Run) -> None:
    (begun.path / "policies").mkdir()
    (begun.path / "policies/0001.toml").write_bytes((begun.path / "policy.toml").read_bytes())
    edit(begun, 'name = "demo"', 'name = "other"')
    edit(begun, '[sources."b"]', '[sources."z"]')
    told = command("check", begun.path, "--json")
    assert told.code == 1
    text = "\n".join(told.facts()["problems"])
    assert "name: 'other': it is 'demo' for the life of this run" in text
    assert "policy 1 in force: arms.b: no source of that name in run.toml" in text


def test_a_model_may_be_changed_until_something_was_trained_with_it(begun: Run) -> None:
    edit(begun, "[trainer]", "[model]\nwidth = 64\n[trainer]")
    assert begin_with(begun.path, keep=False)[1] == ""
    config, why = begin_with(begun.path, keep=True)
    assert "model.width: 64" in why
    assert config.text == kept_settings.newest(begun.path)


def test_a_start_without_a_trainer_does_not_pass_over_settings_that_do_not_hold(begun: Run) -> None:
    edit(begun, "every_steps = 100", "every_steps = 0")
    with pytest.raises(SettingsError, match="every_steps"):
        begin_with(begun.path, keep=False)
    config, why = begin_with(begun.path, keep=True)
    assert "every_steps" in why
    assert config.settings.cadence == 100


def test_a_copy_of_secret_settings_is_no_more_readable_than_they_are(begun: Run) -> None:
    kept_settings.install(begun.path, 2, b"x", 0o100600)
    kept_settings.install(begun.path, 3, b"x", 0o100644)
    modes = [kept_settings.path_of(begun.path, n).stat().st_mode & 0o777 for n in (2, 3)]
    assert modes == [0o600, 0o640]
