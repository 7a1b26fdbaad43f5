"""What a run is trained by, told from its settings and files alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor.process.fingerprint import fingerprint

COMMAND = '[trainer]\ncommand = ["{python}", "train.py"]\n'


def of(run: Path, text: str) -> dict[str, Any]:
    found = fingerprint(run, text.encode())
    assert json.loads(json.dumps(found)) == found
    return found


def changed(run: Path, before: str, after: str) -> set[str]:
    one, other = of(run, before), of(run, after)
    return {part for part in one if one[part] != other[part]}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[train]\nlr = 0.1\n", {"settings"}),
        ("[model]\nwidth = 64\n", {"settings"}),
        ('[checkpoint]\nformat = "pt"\n', {"settings"}),
        ('[checkpoint]\nbackground = "live"\n', {"settings"}),
        ("[checkpoint]\nevery_steps = 7\n", set()),
        ("[restart]\nfirst = 7.0\n", set()),
        ('[trainer]\nenv = { A = "1" }\n', {"environment"}),
        ('[trainer]\ncommand = ["cc"]\n', {"command", "code", "libraries"}),
    ],
)
def test_settings_that_steps_depend_on_are_part_of_it(
    tmp_path: Path, text: str, parts: set[str]
) -> None:
    assert changed(tmp_path, "", text) == parts


def test_where_a_source_lies_is_no_part_and_how_it_is_read_is(tmp_path: Path) -> None:
    here = '[sources.a]\npath = "a"\n'
    assert changed(tmp_path, here, here.replace('"a"\n', '"b"\n')) == set()
    assert changed(tmp_path, here, here + 'kind = "text"\n') == {"settings"}


def test_an_edited_script_is_other_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    before = of(tmp_path, COMMAND)
    (tmp_path / "train.py").write_text("print(2)\n")
    after = of(tmp_path, COMMAND)
    assert {part for part in before if before[part] != after[part]} == {"code"}


@pytest.mark.parametrize("name", ["model.py", "parts/__init__.py", "parts/deep/block.py"])
def test_an_edited_module_beside_the_script_is_other_code(tmp_path: Path, name: str) -> None:
    for path in (tmp_path / "train.py", tmp_path / "parts/__init__.py", tmp_path / name):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("print(1)\n")
    before = of(tmp_path, COMMAND)
    (tmp_path / name).write_text("print(2)\n")
    after = of(tmp_path, COMMAND)
    assert {part for part in before if before[part] != after[part]} == {"code"}


def test_an_edited_program_is_other_code(tmp_path: Path) -> None:
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = f"[trainer]\ncommand = [{json.dumps(str(program))}]\n"
    before = of(tmp_path, text)
    program.write_text("#!/bin/sh\n# more\n")
    assert of(tmp_path, text)["code"] != before["code"]
    assert before["libraries"] == {}  # those of a program of its own cannot be told


def test_a_package_that_is_run_by_its_name_is_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "its_trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    text = f"[trainer]\ncommand = [{json.dumps(sys.executable)}, '-m', 'its_trainer']\n"
    before = of(tmp_path, text)
    (package / "model.py").write_text("WIDTH = 2\n")
    assert of(tmp_path, text)["code"] != before["code"]
    assert "python" in before["libraries"]


def test_text_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected"):
        fingerprint(tmp_path, b"[train\n")
