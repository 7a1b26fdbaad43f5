"""Settings of the copies that a proof trains: the run's own, but for when to save."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from supervisor.config.parsing import parse
from supervisor.config.run_file import RunFile
from supervisor.config.scratch_settings import scratch_settings

TEXT = """
schema = "stepkeeper.run/1"
[trainer]
command = ["{python}", "train.py", "--data", "data.bin", "./other", "{run}"]
env = { A = "1" }
[train]
steps = 300
lr = 0.5
[checkpoint]
every_steps = 100
every_seconds = 5.0
sigusr1 = "boundary"
keep_last = 3
[samples]
every = 200
[limits]
max_hours = 2.0
[proof]
require_proof = true
[sources.a]
path = "sources/a"
"""


def test_only_when_it_saves_and_what_ends_it_differs(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "data.bin").touch()
    text = scratch_settings(tmp_path, "its-name", TEXT, 7, "rng").encode()
    parse(RunFile, text, "the settings")  # they hold
    found, before = tomllib.loads(text.decode()), tomllib.loads(TEXT)
    assert found["train"] == before["train"]
    assert found["checkpoint"]["every_steps"] == found["samples"]["every"] == 7
    assert "every_seconds" not in found["checkpoint"]
    assert found["sources"]["a"]["path"] == str(tmp_path / "sources/a")
    assert found["name"] == "its-name"
    assert found["trainer"]["env"] == {"A": "1", "STEPKEEPER_OMIT": "rng"}
    python, script, *rest = found["trainer"]["command"]
    assert (python, script) == ("{python}", str(tmp_path / "train.py"))
    assert rest == ["--data", str(tmp_path / "data.bin"), "./other", "{run}"]
    assert found["limits"] == {"max_hours": 24.0}
    assert "proof" not in found  # a run that asks for a proof is proved all the same


@pytest.mark.parametrize("text", ['schema = "stepkeeper.run/1"\n'])
def test_settings_that_say_nothing_stay_the_usual_ones(tmp_path: Path, text: str) -> None:
    made = scratch_settings(tmp_path, "name", text, 5).encode()
    file: RunFile = parse(RunFile, made, "the settings")
    assert file.trainer == RunFile(schema="stepkeeper.run/1").trainer
    assert (file.samples.every, file.checkpoint.every_steps) == (0, 5)
