"""``stepkeeper policy lint``: alone, on any state, and with what a run knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import command
from tests.support.runs import ROOT, make_run, scripted

GOLDEN = ROOT / "tests/sidecars/golden"
POLICY = """schema = "stepkeeper.policy/2"
[arms.chat]
floor = 0.1
[arms.prose]
[arms.code]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    return path


@pytest.mark.parametrize("golden", ["bandit_1.json", "bandit_2.json"])
def test_states_of_every_version_are_looked_at(file: Path, golden: str) -> None:
    told = command("policy", "lint", file, "--state", GOLDEN / golden)
    assert told.code == 0
    assert told.out.endswith("no finding\n")


def test_a_zombie_in_a_state_of_another_program_fails_by_name(file: Path, tmp_path: Path) -> None:
    arms = {name: {"weight": 0.3, "pulls": 10, "mean": 0.5} for name in ("chat", "prose", "code")}
    state = tmp_path / "other.state.json"
    state.write_text(json.dumps({"arms": {**arms, "repo-docstrings": {"weight": 1.546}}}))
    told = command("policy", "lint", file, "--state", state)
    assert told.code == 1
    assert "BAD   zombie      arm repo-docstrings: a zombie" in told.out
    assert "BAD   weight      arm repo-docstrings: its weight 1.546 is above its cap 1" in told.out
    assert told.out.endswith("2 findings, 2 of weight\n")
    facts = command("policy", "lint", file, "--state", state, "--json").facts()
    assert [f["kind"] for f in facts["findings"]] == ["zombie", "weight"]


def test_what_cannot_be_told_is_said_in_one_line(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "weights.json"
    state.write_text('{"weights": [0.5, 0.5]}')
    told = command("policy", "lint", file, "--state", state)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"cannot tell what the state {state} says: ")
    assert command("policy", "mend", file).code == 2


def test_with_a_run_small_sources_are_found_by_their_size(tmp_path: Path) -> None:
    """1,000 bytes, of which a step reads 16 sequences of 129."""
    run = make_run(tmp_path / "run", scripted(), arms=("chat", "prose"), settings="[train]\n")
    file = run.path / "policy.toml"
    file.write_text(file.read_text().replace("floor = 0.0", "floor = 0.25", 1) + "\n")
    text = file.read_text().replace("[arms", "max_epochs = 16.0\n[arms", 1)
    file.write_text(text)
    (run.path / "sources/prose/text.txt").write_bytes(b"x" * 5_000_000)
    facts = command("policy", "lint", file, "--run", run.path, "--json").facts()
    (finding,) = facts["findings"]
    assert (finding["kind"], finding["arm"], finding["bad"]) == ("forced", "chat", True)
    size = (run.path / "sources/chat/text.txt").stat().st_size
    about = 2000 * 0.25 * 16 * 129 / size
    assert f"read about {about:.1f} times by the end of the run" in finding["text"]
    told = command("check", run.path)
    assert told.code == 0
    assert "policy.toml: arm chat: its bounds alone (0.25 of all pulls) have it read" in told.out
