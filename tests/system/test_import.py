"""``init --from``: a run of other software is read, never changed, and gone on with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from supervisor.cli.importing import preset_of
from supervisor.errors import UsageError
from supervisor.sidecars import old_losses
from tests.support.audited import audit, faults
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.deaths import MOST_CALLS, killed_at
from tests.support.runs import Run, scripted
from tests.support.scripted_checkpoint import content, spoil

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


def test_bad_checkpoints_and_those_ahead_are_passed_over_by_name(old: Path, tmp_path: Path) -> None:
    (old / "checkpoints").mkdir()
    (old / "checkpoints/step_001040.bin").write_bytes(spoil(content(1040, 64, 7), "nan"))
    (old / "checkpoints/step_001100.bin").write_bytes(content(1100, 64, 7))
    (old / "step_001000.bin").write_bytes(spoil(content(1000, 64, 7), "size"))
    (old / "step_000900.bin").write_bytes(content(900, 128, 7))
    (old / "step_900.bin").write_bytes(b"another name")
    told = command("init", tmp_path / "new", "--from", old, "--json")
    facts = told.facts()
    assert facts["sealed"] == [900]
    why = {row["name"]: row["why"] for row in facts["refused"]}
    assert list(why) == [f"step_{step:06d}.bin" for step in (1100, 1040, 1000, 800)]
    assert "andrea.loss.json ends before it" in why["step_001100.bin"]
    assert "a finite number" in why["step_001040.bin"]
    assert "size" in why["step_001000.bin"]
    assert "64 parameters, unlike step_000900.bin" in why["step_000800.bin"]
    left = sorted(path.name for path in (tmp_path / "new/checkpoints").iterdir())
    assert left == ["step_000900.bin", "step_000900.seal.json"]


@pytest.mark.parametrize("case", ["no losses", "two", "no bins", "only bad", "a run", "nothing"])
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
    elif case == "only bad":
        for path in bins:
            path.write_bytes(spoil(path.read_bytes(), "zero"))
    elif case == "a run":
        (old / "run.toml").write_text("")
    told = command("init", tmp_path / "new", "--from", old if case != "nothing" else old / "none")
    assert told.code in (1, 2)
    assert told.complaint()
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


# ---------------------------------------------------------------- the old loss file

ENTRIES: list[dict[str, object]] = [
    {"step": step, "loss": loss} for step, loss in ((1, 5.5), (2, None), (3, 4))
]


@pytest.mark.parametrize("form", [as_lines, as_array])
def test_lines_and_an_array_say_the_same(form: object, tmp_path: Path) -> None:
    path = tmp_path / "x.loss.json"
    path.write_text(form(ENTRIES))  # type: ignore[operator] # one of two functions
    found = old_losses.read(path)
    assert (found.entries, found.steps, found.first, found.last) == (3, 3, 1, 3)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_other_programs_write_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.loss.json"
    path.write_text(
        '\n{"step":1,"loss":NaN}\r\n{"step":2.0,"loss":-Infinity}\n\n{"step":2,"loss":1}\n{"step":4,"l'
    )
    found = old_losses.read(path)
    assert (found.entries, found.steps, found.last, found.torn) == (3, 2, 2, True)
    path.write_text('{"step":1,"loss":2}\n{"step":2,"loss":3}')
    assert (old_losses.read(path).entries, old_losses.read(path).torn) == (2, False)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ('{"step":1,"loss":2}\n{"step":2}\n', 2, "the entry has no loss"),
        ('{"step":1,"loss":2}\n\n{"loss":2}\n', 3, "the entry has no step"),
        ('{"step":1,"loss":2}\nnot json\n{"step":3,"loss":2}\n', 2, "it is no JSON"),
        ('{"step":-1,"loss":2}\n', 1, "step: expected a whole number"),
        ('{"step":true,"loss":2}\n', 1, "step: expected a whole number"),
        ('{"step":1.5,"loss":2}\n', 1, "step: expected a whole number"),
        ('{"step":1,"loss":"2"}\n', 1, "loss: expected a number"),
        ("3\n", 1, "expected an object"),
        ('[\n {"step":1,"loss":2},\n {"step":2}\n]\n', 3, "the entry has no loss"),
        ('[\n {"step":1,"loss":2},\n {"step":2,"loss":}\n]\n', 3, "it is no JSON"),
        ('[{"step":1,"loss":2}\n', 2, "neither goes on nor ends"),
        ('[{"step":1,"loss":2},\n', 2, "it is no JSON"),
        ('[{"step":1,\n"loss":2} {"step":2,"loss":2}]', 2, "neither goes on nor ends"),
        ('{"step":1,"loss":2}\n\xff\xfe', 2, "UTF-8"),
    ],
)
def test_a_fault_is_named_with_its_line(text: str, line: int, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "x.loss.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=rf"^cannot use {path}: line {line}: .*{problem}"):
        old_losses.read(path)


@pytest.mark.parametrize("text", ["", "\n\n", "[]", "[ ]\n", '{"st'])
def test_a_file_without_an_entry_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.loss.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="it holds no entry"):
        old_losses.read(path)


def test_presets_are_known_by_their_published_counts() -> None:
    assert preset_of(12_780_288) == "andrea-12m"
    assert preset_of(98_698_752) == "andrea-120m"
    assert preset_of(868_352) == "demo"
    assert preset_of(64) == ""
