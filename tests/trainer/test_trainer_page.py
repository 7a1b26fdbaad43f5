"""The reference trainer's page lists its modules and its settings, with their defaults."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tests.support.runs import ROOT
from trainer.contract.settings import PRESETS, SourceSettings, TrainerSections

PAGE = (ROOT / "trainer/README.md").read_text()
ROWS = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| `\w+\.", line)]
KEYS = {key: row[1].strip() for row in ROWS for key in re.findall(r"`([\w.]+)`", row[0])}


def fields() -> dict[str, object]:
    """Every settings key and its default."""
    found: dict[str, object] = {}
    for section, info in TrainerSections.model_fields.items():
        model = SourceSettings if section == "sources" else info.annotation
        name = "sources.NAME" if section == "sources" else section
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        found |= {f"{name}.{key}": field.default for key, field in model.model_fields.items()}
    return found


def test_every_setting_has_a_row_and_every_row_is_a_setting() -> None:
    assert set(KEYS) == set(fields())


@pytest.mark.parametrize("key", fields())
def test_the_default_of_a_setting_is_the_one_in_its_row(key: str) -> None:
    default, shown = fields()[key], KEYS[key]
    if default is PydanticUndefined:
        assert shown == "required"
    elif default is None:
        assert shown in ("of the preset", "none")
    else:
        assert json.loads(shown.strip("`")) == json.loads(json.dumps(default))


def test_every_module_is_named() -> None:
    named = {
        name for line in PAGE.splitlines() if "|" in line for name in re.findall(r"`(\w+)`", line)
    }
    modules = {path.stem for path in (ROOT / "trainer").glob("*.py")} - {"__init__"}
    assert modules - named == set()


def test_the_counts_of_the_presets_are_right() -> None:
    for name, shape in PRESETS.items():
        assert re.search(rf"`{name}` \({shape.n_params:,}", PAGE)
