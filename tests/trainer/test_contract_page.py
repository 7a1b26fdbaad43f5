"""The page for authors of trainers says what the contract's readers hold true."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.runs import ROOT
from trainer.contract import wire
from trainer.contract.checkpoint_format import COMPANION_SCHEMA, REASONS, Companion
from trainer.contract.wire import words

PAGE = (ROOT / "trainer/contract/README.md").read_text()
REPORTS = {
    "ready": wire.Ready,
    "doing": wire.Doing,
    "step": wire.Step,
    "phase": wire.Phase,
    "checkpoint": wire.Checkpoint,
    "sample": wire.Sample,
    "evaluation": wire.Evaluation,
    "finished": wire.Finished,
}


def section(title: str) -> str:
    """The text under a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def examples(text: str) -> list[bytes]:
    """The lines of its JSON blocks."""
    blocks = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    return [line.encode() for block in blocks for line in block.splitlines()]


def rows(text: str) -> list[str]:
    """The first cells of its tables' rows."""
    return re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)


@pytest.mark.parametrize("name", REPORTS)
def test_every_example_of_a_report_is_read_as_that_report(name: str) -> None:
    lines = examples(section(f"`{name}`"))
    assert lines
    for line in lines:
        assert isinstance(wire.read_report(line), REPORTS[name])


@pytest.mark.parametrize("name", REPORTS)
def test_every_field_of_a_report_has_a_row_and_no_row_is_of_another(name: str) -> None:
    fields = set(REPORTS[name]._fields) - {"seq", "at", "extras"}
    named = {field for row in rows(section(f"`{name}`")) for field in re.findall(r"`(\w+)`", row)}
    assert named == fields


@pytest.mark.parametrize("name", REPORTS)
def test_the_fullest_example_has_every_field(name: str) -> None:
    fields = set(REPORTS[name]._fields) - {"extras"}
    keys = [set(wire_keys) for line in examples(section(f"`{name}`")) if (wire_keys := _keys(line))]
    assert any(fields | {"report"} <= found for found in keys)


def _keys(line: bytes) -> list[str]:
    return re.findall(r'(?<=[{,])"(\w+)":', line.decode())


def test_every_example_of_orders_is_read_and_every_field_has_a_row() -> None:
    read = [wire.read_orders(line) for line in examples(section("Orders"))]
    assert read[0].phases[0].phase == 9
    assert read[1].save == wire.SaveOrder(42, "cadence", "exit")
    assert read[2].hold
    assert {row.strip("`") for row in rows(section("Orders"))} == set(wire.Orders._fields)


def test_no_example_stands_anywhere_else() -> None:
    titles = [f"`{name}`" for name in REPORTS] + ["Orders"]
    assert len(examples(PAGE)) == sum(len(examples(section(title))) for title in titles)


def test_activities_and_reasons_are_all_named() -> None:
    assert set(re.findall(r"`(\w+)`", section("`doing`"))) >= set(words.ACTIVITIES)
    assert set(re.findall(r"`(\w+)`", section("`checkpoint`"))) >= set(REASONS)


def test_the_companions_table_is_its_keys_and_schema() -> None:
    text = section("Checkpoints")
    named = {key for row in rows(text) for key in re.findall(r"`(\w+)`", row)}
    assert named == {"schema", *Companion._fields}
    assert f"`{COMPANION_SCHEMA}`" in text


def test_the_environment_is_the_one_that_a_life_reads() -> None:
    named = {row.strip("`") for row in rows(section("Environment"))}
    spoken = set(re.findall(r'"(STEPKEEPER_\w+)"', (ROOT / "trainer/launch.py").read_text()))
    assert spoken - {"STEPKEEPER_ORPHAN_AFTER"} <= named
    child = (ROOT / "supervisor").rglob("*.py")
    given = {name for path in child for name in re.findall(r"STEPKEEPER_[A-Z]+", path.read_text())}
    assert {name for name in named if name not in given} <= {"STEPKEEPER_OMIT"}  # of proofs alone


def test_an_example_that_breaks_the_contract_would_be_found() -> None:
    line = examples(section("`ready`"))[0]
    broken = json.dumps({**json.loads(line), "pid": "4711"}).encode()
    with pytest.raises(wire.WireError, match="pid"):
        wire.read_report(broken)
