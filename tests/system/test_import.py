"""``init --from``: a run of other software is read, never changed, and gone on with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from supervisor.cli.importing import preset_of
from supervisor.errors import StepkeeperError
from supervisor.perform import building
from tests.support.audited import audit, faults
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.deaths import MOST_CALLS, killed_at
from tests.support.runs import Run, scripted
from tests.support.scripted_checkpoint import content, spoil
from tests.trainer import tiny

LAST = 1040


def as_lines(entries: list[dict[str, object]]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def as_array(entries: list[dict[str, object]]) -> str:
    return json.dumps(entries, indent=1)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A run of other software at step 1040, its checkpoints beside the loss file."""
    folder = tmp_path / "old"
    folder.mkdir()
    entries = [
        {"step": step, "loss": 5 - step / 1000, "tokens": step * 64, "who": {"cares": None}}
        for step in range(1, LAST + 1)
    ]
    (folder / "andrea.loss.json").write_text(as_lines(entries))
    (folder / "andrea.state.json").write_text("{}")
    for step in (800, 900, 1000):
        (folder / f"step_{step:06d}.bin").write_bytes(content(step, 64, 7))
    return folder


def listing(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def prepared(run: Path, sources: Path) -> Run:
    """Settings for the scripted trainer in the place of ours."""
    for arm in ("a", "b"):
        (sources / arm).mkdir(parents=True, exist_ok=True)
        (sources / arm / "text.txt").write_text("text\n")
    path = run / "run.toml"
    trainer = json.dumps(scripted(steps=1100, rate=2000, every=50, no_companion=True))
    lines = [
        f"command = {trainer}" if line.startswith("command") else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines).replace("every_steps = 100", "every_steps = 50") + "\n")
    return Run(run)


def ledger_of(run: Run) -> list[dict[str, object]]:
    lines = (run.path / "andrea.loss.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_an_old_run_is_gone_on_with_from_its_newest_checkpoint(old: Path, tmp_path: Path) -> None:
    before = listing(old)
    sources = tmp_path / "texts"
    for arm in ("a", "b"):
        (sources / arm).mkdir(parents=True)
    told = command("init", tmp_path / "new", "--from", old, "--sources", sources, "--json")
    facts = told.facts()
    assert (told.code, facts["step"], facts["sealed"]) == (0, 1000, [1000, 900, 800])
    digest = hashlib.sha256((old / "andrea.loss.json").read_bytes()).hexdigest()
    assert facts["losses"]["sha256"] == digest
    run = prepared(tmp_path / "new", sources)
    assert faults(run) == []
    status = command("status", run.path)
    assert "exact but for data order" in status.out
    assert command("status", run.path, "--json").facts()["step"] == 1000
    daemon = Daemon(run)
    try:
        assert daemon.start().wait() == 0, daemon.output()
    finally:
        daemon.finish()
    lines = ledger_of(run)
    assert [line["step"] for line in lines] == list(range(1001, 1101))
    identity = run.events("run-created")[0]["run"]
    assert lines[0]["mark"] == f"run:{identity} import:{digest}"
    assert run.attempts()[0]["resume"]["step"] == 1000
    kept = run.path / "origin/andrea.loss.json"
    assert kept.read_bytes() == (old / "andrea.loss.json").read_bytes()
    assert faults(run) == []
    assert "the old loss file's digest is" in command("audit", run.path).out
    assert audit(run).facts()["origin"]["step"] == 1000
    assert listing(old) == before
    kept.write_text("[]")
    assert any("it is not the old loss file" in fault for fault in faults(run))


@pytest.mark.torch
def test_our_own_trainer_goes_on_from_a_bare_checkpoint(tmp_path: Path) -> None:
    """The weights and moments that another program left, by the real trainer and supervisor."""
    old = tiny.make_run(tmp_path / "other")
    process = tiny.Process(old, STEPKEEPER_COMPANION="none")
    try:
        assert process.wait() == 0, process.describe()
    finally:
        process.finish()
    bare = tmp_path / "old"
    bare.mkdir()
    [last] = (old / "checkpoints").glob("step_*.bin")
    last.rename(bare / last.name)
    (bare / "tiny.loss.json").write_text(as_lines([{"step": 30, "loss": 3.0}]))
    assert command("init", tmp_path / "new", "--from", bare).code == 0
    run = tmp_path / "new"
    settings = tiny.toml(
        {
            "model": tiny.MODEL,
            "train": {**tiny.TRAIN, "steps": 40},
            "checkpoint": {"every_steps": 20},
            "sources": {"files": {"path": str(old / "files")}},
        }
    )
    (run / "run.toml").write_text(f'schema = "stepkeeper.run/1"\nname = "tiny"\n{settings}')
    policy = (run / "policy.toml").read_text().replace('"example"', '"files"')
    (run / "policy.toml").write_text(policy)
    daemon = Daemon(Run(run))
    try:
        assert daemon.start().wait(50) == 0, daemon.describe()
    finally:
        daemon.finish()
    lines = (run / "tiny.loss.json").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(31, 41))
    assert json.loads(lines[0])["loss"] < 4.5  # an untrained model's is ln 256, about 5.5
    log = (run / "attempts/000001/output.log").read_text()
    assert "it has no companion: data order and generators begin anew" in log
    assert sorted(path.name for path in (run / "checkpoints").glob("step_000040*")) == [
        "step_000040.bin",
        "step_000040.json",
        "step_000040.seal.json",
    ]
    assert command("audit", run).code == 0
    assert "exact but for data order" not in command("status", run).out


def test_an_import_can_be_forked_before_and_after_its_first_start(
    old: Path, tmp_path: Path
) -> None:
    assert command("init", tmp_path / "new", "--from", old).code == 0
    run = prepared(tmp_path / "new", tmp_path / "new/sources")
    policy = (run.path / "policy.toml").read_text().replace('"example"', '"a"')
    (run.path / "policy.toml").write_text(policy)
    path = run.path / "run.toml"
    path.write_text(path.read_text().replace("example", "a"))
    for name in ("before", "after"):
        told = command("fork", run.path, tmp_path / name, "--step", 900)
        assert (told.code, told.err) == (0, "")
        fork = Run(tmp_path / name)
        daemon = Daemon(fork)
        try:
            assert daemon.start().wait() == 0, daemon.output()
        finally:
            daemon.finish()
        assert [line["step"] for line in ledger_of(fork)] == list(range(901, 1101))
        assert faults(fork) == []
        if name == "before":
            daemon = Daemon(run)
            try:
                assert daemon.start().wait() == 0, daemon.output()
            finally:
                daemon.finish()


def test_a_copy_that_is_not_the_original_is_no_checkpoint(tmp_path: Path) -> None:
    """Without a companion, too, which would have caught it."""
    source = tmp_path / "step_000100.bin"
    source.write_bytes(content(100, 64, 7))
    (tmp_path / "to").mkdir()
    with pytest.raises(StepkeeperError, match="sha256: expected"):
        building.copied(source, tmp_path / "to", "0" * 64, companion=False)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    source.rename(tmp_path / "step_000200.bin")
    (tmp_path / "step_000200.bin").write_bytes(content(200, 64, 7))
    (tmp_path / "step_000200.bin").rename(source)
    with pytest.raises(StepkeeperError, match="step in the header"):
        building.copied(source, tmp_path / "to", digest, companion=False)


def test_bad_checkpoints_and_those_ahead_are_passed_over_by_name(old: Path, tmp_path: Path) -> None:
    (old / "checkpoints").mkdir()
    (old / "checkpoints/step_001040.bin").write_bytes(spoil(content(1040, 64, 7), "nan"))
    (old / "checkpoints/step_001100.bin").write_bytes(content(1100, 64, 7))
    (old / "step_001000.bin").write_bytes(spoil(content(1000, 64, 7), "size"))
    (old / "step_000900.bin").write_bytes(content(900, 128, 7))
    (old / "step_900.bin").write_bytes(b"another name")
    (old / "step_000850.pt").write_bytes(b"of a format that is not brought in")
    told = command("init", tmp_path / "new", "--from", old, "--json")
    facts = told.facts()
    assert facts["sealed"] == [900]
    why = {row["name"]: row["why"] for row in facts["refused"]}
    assert why.pop("step_000850.pt") == "only a .bin can be brought in"
    assert list(why) == [f"step_{step:06d}.bin" for step in (1100, 1040, 1000, 800)]
    assert "andrea.loss.json ends before it" in why["step_001100.bin"]
    assert "a finite number" in why["step_001040.bin"]
    assert "size" in why["step_001000.bin"]
    assert "64 parameters, unlike step_000900.bin" in why["step_000800.bin"]
    left = sorted(path.name for path in (tmp_path / "new/checkpoints").iterdir())
    assert left == ["step_000900.bin", "step_000900.seal.json"]


@pytest.mark.parametrize(
    "case",
    ["no losses", "two", "no bins", "other formats", "only bad", "a run", "nothing"],
)
def test_what_cannot_be_imported_is_refused_and_leaves_nothing(
    old: Path, tmp_path: Path, case: str
) -> None:
    bins = list(old.glob("step_*.bin"))
    if case == "no losses":
        (old / "andrea.loss.json").unlink()
    elif case == "two":
        (old / "other.loss.json").write_text("[]")
    elif case == "no bins":
        (old / "andrea.loss.json").write_text(as_array([{"step": 700, "loss": 1.0}]))
    elif case == "other formats":
        for path in bins:
            path.rename(path.with_suffix(".pt"))
    elif case == "only bad":
        for path in bins:
            path.write_bytes(spoil(path.read_bytes(), "zero"))
    elif case == "a run":
        (old / "run.toml").write_text("")
    told = command("init", tmp_path / "new", "--from", old if case != "nothing" else old / "none")
    assert told.code in (1, 2)
    assert told.complaint()
    if case == "other formats":
        assert "step_001000.pt is of the format pt; of other software's files" in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_import_that_dies_leaves_no_run_or_a_whole_one(
    old: Path, tmp_path: Path, *, thorough: bool
) -> None:
    before = listing(old)
    new = tmp_path / "new"
    for at in range(1, MOST_CALLS, 1 if thorough else 20):
        words = ("init", new, "--from", old)
        alive = not killed_at(at, tmp_path / "count", *words)
        if not new.exists():
            assert command(*words).code == 0, at
        assert {path.name for path in tmp_path.iterdir()} == {"old", "new", "count"}, at
        assert faults(Run(new)) == [], at
        assert listing(old) == before, at
        new.rename(tmp_path.parent / f"{tmp_path.name}-{at}")
        if alive:
            break
    assert alive


def test_presets_are_known_by_their_published_counts() -> None:
    assert preset_of(12_780_288) == "andrea-12m"
    assert preset_of(98_698_752) == "andrea-120m"
    assert preset_of(868_352) == "demo"
    assert preset_of(64) == ""
