"""``fork``: a run of its own from a checkpoint of another one, which is only read."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.config import load
from supervisor.config.toml_text import dump, relocated
from tests.support.audited import audit, faults, head_of
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.deaths import MOST_CALLS, killed_at
from tests.support.runs import Run, copy_of, make_run, policy_text, scripted

Supervise = Callable[..., Daemon]
STEPS = 200


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A finished run with the seals 50, 100, 150, 200."""
    trainer = scripted(steps=STEPS, rate=2000, every=50)
    daemon = Daemon(make_run(tmp_path_factory.mktemp("ended") / "run", trainer, every=50))
    try:
        assert daemon.start().wait() == 0
        yield daemon.run
    finally:
        daemon.finish()


@pytest.fixture
def parent(ended: Run, tmp_path: Path) -> Run:
    return copy_of(ended, tmp_path / "parent")


def go_on(run: Run) -> str:
    daemon = Daemon(run)
    try:
        assert daemon.start().wait() == 0, daemon.output()
    finally:
        daemon.finish()
    return daemon.output()


def content(run: Run) -> dict[str, bytes]:
    """Every file of a run but the locks."""
    files = [path for path in run.path.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(run.path)): path.read_bytes() for path in files}


def facts_of(line: dict[str, object]) -> dict[str, object]:
    """What a step was, whoever recorded it."""
    return {key: line[key] for key in ("step", "loss", "arm", "lr", "data", "policy")}


def test_a_fork_goes_on_as_its_parent_did_and_names_it(parent: Run, tmp_path: Path) -> None:
    before = content(parent)
    told = command("fork", parent.path, tmp_path / "new", "--step", 100, "--json")
    facts = told.facts()
    assert (told.code, facts["step"]) == (0, 100)
    assert content(parent) == before
    new = Run(tmp_path / "new")
    assert facts["head"] == head_of(parent, 100)
    assert faults(new) == []  # before its first step, too
    assert list(new.seals()) == [100]
    go_on(new)
    assert content(parent) == before
    first, second, *_ = new.ledger()
    own = new.events("run-created")[0]["run"]
    mother = parent.events("run-created")[0]["run"]
    assert own != mother
    assert first["mark"] == f"run:{own} fork:{mother} head:{facts['head']}"
    assert second["mark"].startswith("from:")
    assert [line["step"] for line in new.ledger()] == [*range(101, 201)]
    old = parent.canonical()
    assert [facts_of(line) for line in new.ledger()] == [
        facts_of(old[step]) for step in range(101, 201)
    ]
    assert faults(new) == []
    origin = audit(new).facts()["origin"]
    assert (origin["kind"], origin["of"], origin["head"]) == ("fork", mother, facts["head"])
    assert f"head {facts['head']}" in command("audit", new.path).out
    assert faults(parent, "--head", facts["head"]) == []


def test_a_fork_has_a_policy_of_its_own_and_an_empty_bandit(parent: Run, tmp_path: Path) -> None:
    policy = tmp_path / "own.toml"
    policy.write_text(policy_text({"a": {"cap": 0.4}, "b": {}}, "ucb1", "share"))
    told = command("fork", parent.path, tmp_path / "new", "--policy", policy, "--json")
    assert (told.facts()["policy"], told.facts()["step"]) == (2, 200)
    new = Run(tmp_path / "new")
    settings = new.path / "run.toml"
    trainer = json.dumps(scripted(steps=260, rate=2000, every=50))
    lines = settings.read_text().splitlines()
    lines = [f"command = {trainer}" if line.startswith("command") else line for line in lines]
    settings.write_text("\n".join(lines) + "\n")
    go_on(new)
    assert {line["policy"] for line in new.ledger()} == {2}
    bandit = new.read("demo.state.json") or {}
    assert sum(arm["served"] for arm in bandit["arms"].values()) == 60
    assert (new.path / "policy.toml").read_text() == policy.read_text()
    assert faults(new) == []


def test_nothing_of_the_files_is_shared(parent: Run, tmp_path: Path) -> None:
    assert command("fork", parent.path, tmp_path / "new", "--step", 100).code == 0
    for path in (tmp_path / "new").rglob("*"):
        if path.is_file():
            assert path.stat().st_nlink == 1
    shutil.rmtree(parent.path / "checkpoints")
    assert faults(Run(tmp_path / "new")) == []


def test_sources_are_found_from_the_new_place(parent: Run, tmp_path: Path) -> None:
    told = command("fork", parent.path, tmp_path / "far/away/new")
    assert "its sources lie in the parent's directory and are read there: a, b" in told.out
    config = load(tmp_path / "far/away/new")
    assert config.sources == load(parent.path).sources
    assert config.name == "demo"


@pytest.mark.system
def test_a_living_run_is_forked_and_does_not_notice(supervise: Supervise, tmp_path: Path) -> None:
    daemon = supervise(scripted(rate=100, every=50), every=50).start()
    daemon.until_seal(50)
    run = daemon.run
    told = command("fork", run.path, tmp_path / "new", "--json")
    step = told.facts()["step"]
    child = Daemon(Run(tmp_path / "new"))
    try:
        child.start().until_step(step + 30)
        last = run.last_step()
        daemon.until_step(last + 10)
        assert child.stop() == 0
        assert faults(child.run) == []
    finally:
        child.finish()
    assert daemon.stop() == 0
    assert len(run.attempts()) == 1
    assert faults(run, "--head", told.facts()["head"]) == []


def test_a_fork_can_be_forked_at_its_beginning(parent: Run, tmp_path: Path) -> None:
    assert command("fork", parent.path, tmp_path / "new", "--step", 100).code == 0
    told = command("fork", tmp_path / "new", tmp_path / "newer", "--json")
    assert told.facts()["head"].startswith("0:" + "0" * 32)
    newer = Run(tmp_path / "newer")
    go_on(newer)
    assert len(newer.ledger()) == 100
    assert faults(newer) == []
    assert faults(Run(tmp_path / "new"), "--head", told.facts()["head"]) == []


def test_a_fork_whose_parent_is_not_what_it_says_is_found(parent: Run, tmp_path: Path) -> None:
    assert command("fork", parent.path, tmp_path / "new", "--step", 100).code == 0
    new = Run(tmp_path / "new")
    kept = new.path / "origin/step_000100.seal.json"
    other = (parent.path / "checkpoints/step_000150.seal.json").read_bytes()
    good = kept.read_bytes()
    kept.write_bytes(other)
    assert any("it is not of the parent's head" in fault for fault in faults(new))
    kept.unlink()
    assert any("the parent's seal is missing" in fault for fault in faults(new))
    kept.write_bytes(good)
    go_on(new)
    ledger = new.path / "demo.loss.json"
    ledger.write_bytes(ledger.read_bytes().replace(b" fork:", b" fork:0", 1))
    assert faults(new)


# ---------------------------------------------------------------- refusals


def test_what_cannot_be_forked_is_refused_and_leaves_nothing(parent: Run, tmp_path: Path) -> None:
    new = tmp_path / "new"
    told = command("fork", parent.path, new, "--step", 120)
    assert (told.code, "of step 100 and of step 150" in told.complaint()) == (1, True)
    bad = tmp_path / "bad.toml"
    bad.write_text(policy_text({"zz": {}}, "ucb1", "share"))
    told = command("fork", parent.path, new, "--policy", bad)
    assert (told.code, "arms.zz" in told.complaint()) == (2, True)
    spoiled = parent.path / "checkpoints/step_000100.bin"
    data = bytearray(spoiled.read_bytes())
    data[40] ^= 1
    spoiled.write_bytes(data)
    told = command("fork", parent.path, new, "--step", 100)
    assert (told.code, "sha256" in told.complaint()) == (1, True)
    ledger = parent.path / "demo.loss.json"
    text = ledger.read_bytes()
    ledger.write_bytes(text[: len(text) // 2])
    told = command("fork", parent.path, new, "--step", 200)
    assert (told.code, "does not hold the line" in told.complaint()) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.toml", "parent"]
    new.mkdir()
    (new / "mine").write_text("mine")
    told = command("fork", parent.path, new)
    assert (told.code, "is there already" in told.complaint()) == (2, True)
    assert [path.name for path in new.iterdir()] == ["mine"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_fork_that_dies_leaves_no_run_or_a_whole_one(
    parent: Run, tmp_path: Path, *, thorough: bool
) -> None:
    """And the next try makes it, whatever was left; the parent never changes."""
    before = content(parent)
    new = Run(tmp_path / "new")
    for at in range(1, MOST_CALLS, 1 if thorough else 19):
        words = ("fork", parent.path, new.path, "--step", 100)
        alive = not killed_at(at, tmp_path / "count", *words)
        assert content(parent) == before, at
        if not new.path.exists():
            assert command(*words).code == 0, at
        left = {path.name for path in tmp_path.iterdir()} - {"count"}
        assert left == {"parent", "new"}, at
        assert faults(new) == [], at
        if thorough or at == 1 or alive:
            go_on(new)
            assert len(new.ledger()) == 100
            assert faults(new) == [], at
        shutil.rmtree(new.path)
        for log in tmp_path.glob("new.daemon-*"):
            log.unlink()
        if alive:
            break
    assert alive


# ---------------------------------------------------------------- the settings' text


@pytest.mark.parametrize(
    "text",
    [
        '[sources.a]\npath = "x/y"   # here\nkind = "text"\n[train]\nsteps = 3\n',
        "[sources.'b.c']\n  path='../up'\n",
        'sources = { a = { path = "x" } }\n',
        'sources.a.path = "x"\n',
        '[sources]\na = { path = "x", kind = "text" }\nb.path = "y"\n',
        '[sources."ü"]\npath = "mit \\"quotes\\""\n[trainer]\ncommand = ["a", "b c"]\n',
        '[sources.a]\npath = "/abs/x"\n[model]\nx = 1.5\ny = true\n',
        "# nothing\n",
    ],
)
def test_relative_sources_become_absolute_and_nothing_else_changes(
    text: str, tmp_path: Path
) -> None:
    before = tomllib.loads(text)
    after = tomllib.loads(relocated(text, tmp_path))
    assert after.keys() == before.keys()
    for arm, source in before.get("sources", {}).items():
        expected = os.path.normpath(tmp_path / source["path"])
        assert after["sources"][arm] == {**source, "path": expected}
    assert {k: v for k, v in after.items() if k != "sources"} == {
        k: v for k, v in before.items() if k != "sources"
    }


def test_comments_stay_where_a_source_is_on_a_line_of_its_own(tmp_path: Path) -> None:
    text = '# why\n[sources.a]\npath = "x"  # where\n'
    assert relocated(text, tmp_path) == f'# why\n[sources.a]\npath = "{tmp_path}/x"  # where\n'


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.one_of(
    WORDS, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)
)
TABLES = st.recursive(
    st.dictionaries(WORDS, st.one_of(VALUES, st.lists(VALUES, max_size=3)), max_size=3),
    lambda inner: st.dictionaries(WORDS, st.one_of(VALUES, inner), max_size=3),
    max_leaves=8,
)


@given(data=TABLES)
def test_tables_read_back_as_they_were_written(data: dict[str, object]) -> None:
    assert tomllib.loads(dump(data)) == data
