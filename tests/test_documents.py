"""The README tells the truth: its tables match the code, its trees match the disk."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import get_args

import pytest
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from supervisor import errors
from supervisor.cli import acting, demo
from supervisor.cli.registry import COMMANDS
from supervisor.config import PolicyFile, RunFile
from supervisor.config.reach import REACH
from tests.support import document
from tests.support.document import blocks, plain, table, tree
from tests.support.runs import ROOT
from tests.support.sources import modules, project_files


def test_the_two_commands_stand_in_the_agreed_form() -> None:
    [block] = blocks("sh", "The two commands")
    first, second = block.lines
    for line in (first, second):
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert first.endswith("stepkeeper demo")
    assert second.endswith("pytest")


def test_the_readme_names_the_torch_that_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [torch] = [need for need in project["dependencies"] if need.startswith("torch")]
    assert f"`{torch}`" in document.TEXT
    assert f"Python {project['requires-python'].removeprefix('>=')} or later" in document.TEXT


def test_the_table_of_exit_codes_is_that_of_the_errors() -> None:
    rows = {(int(code), plain(of)) for code, of, _ in table("## Exit codes")}
    tree_codes = {v.exit_code for v in vars(errors).values() if hasattr(v, "exit_code")}
    stopped = (errors.GaveUpError, errors.RefusedError, errors.HaltedError)
    run_codes = {error.exit_code for error in stopped}
    expected = {(code, "all") for code in {0} | tree_codes - run_codes}
    expected |= {(code, "run") for code in run_codes}
    expected |= {(acting.OLDER, "stop"), (acting.NONE, "stop"), (demo.INTERRUPTED, "demo")}
    assert rows == expected


def _options(word: str) -> list[set[str]]:
    """The options that a command takes, each with all its names; help is left out."""
    app = typer.Typer(add_completion=False)
    app.command(word)(COMMANDS[word].load())
    parameters = typer.main.get_command(app).params
    named = [p for p in parameters if p.param_type_name == "option"]
    return [{*p.opts, *p.secondary_opts} for p in named]


def test_the_table_of_commands_is_the_registry() -> None:
    rows = [(plain(form), what) for form, what in table("## All commands")]
    assert [form.split()[0] for form, _ in rows] == list(COMMANDS)
    for form, what in rows:
        assert what == COMMANDS[form.split()[0]].help


@pytest.mark.parametrize("word", COMMANDS)
def test_the_table_of_commands_names_every_option(word: str) -> None:
    [form] = [plain(row[0]) for row in table("## All commands") if plain(row[0]).split()[0] == word]
    told = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", form))
    options = _options(word)
    assert [names for names in options if not names & told] == []
    assert told - set().union(*options) == set()


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every key of a settings file with its default; tables by name appear as NAME."""
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        inner = [a for a in (field.annotation, *get_args(field.annotation)) if _is_model(a)]
        if not inner:
            yield key, _default(field)
        else:
            by_name = ".NAME" if get_args(field.annotation) else ""
            yield from _keys(inner[0], f"{key}{by_name}.")


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _default(field: FieldInfo) -> object:
    default: object = field.get_default(call_default_factory=True)
    return None if default is PydanticUndefined else default


@pytest.mark.parametrize(
    ("heading", "model"), [("### run.toml", RunFile), ("### policy.toml", PolicyFile)]
)
def test_the_tables_of_settings_are_the_models(heading: str, model: type[BaseModel]) -> None:
    rows = {plain(key): plain(default) for key, default, _ in table(heading)}
    known = dict(_keys(model))
    assert set(rows) == set(known)
    for key, default in known.items():
        if default is None:
            assert not rows[key] or rows[key][0].isalpha(), key
        else:
            shown = list(default) if isinstance(default, tuple) else default
            assert json.loads(rows[key]) == shown, key


def test_every_setting_has_a_class_that_says_when_a_change_takes_effect() -> None:
    assert set(REACH) == {key for key, _ in _keys(RunFile)}


def test_what_the_operator_sees_is_what_the_program_says() -> None:
    """Numbers stand for any number, so what is compared are the words between them."""
    code = "".join((ROOT / path).read_text() for path in modules("supervisor"))
    rows = [row[0] for row in table("### At three in the morning")]
    phrases = [phrase for cell in rows for phrase in re.findall("`([^`]+)`", cell)]
    assert len(phrases) >= 5
    words = [part.strip(": ") for phrase in phrases for part in re.split(r"\d+|killed", phrase)]
    assert [part for part in words if part not in code] == []


def test_the_tree_of_the_repository_matches_the_disk() -> None:
    drawn = tree("For newcomers")
    files = {str(path) for path in project_files()}
    folders = {f"{parent}/" for name in files for parent in _parents(name)}
    assert [path for path in drawn if path not in files | folders] == []
    shallow = {path for path in folders if path.count("/") <= 2 and path[0] != "."}
    assert sorted(shallow - set(drawn)) == []


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
