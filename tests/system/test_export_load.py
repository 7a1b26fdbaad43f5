"""The load of a bundle: by the run's own trainer command, in a scratch place, held to its word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.sidecars import bundle
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, scripted

# A trainer that lives in its run's directory and says that it is ready, after a step of its own.
OWN = """
import json, os, pathlib, sys, time
resume = pathlib.Path(os.environ["STEPKEEPER_RESUME"])
if {spoil}:
    with resume.open("r+b") as file:
        file.write(file.read(1))
seq = 0
def say(**fields):
    global seq
    seq += 1
    with open(os.environ["STEPKEEPER_REPORTS"], "a") as file:
        file.write(json.dumps({{"seq": seq, "at": 1.0 * seq, **fields}}) + "\\n")
say(report="doing", what="load", step=100)
print("read " + pathlib.Path("notes.txt").read_text())
if {silent}:
    sys.exit("the model does not fit")
say(report="ready", pid=os.getpid(), n_params={n_params}, step={step}, companion=True)
time.sleep(60)
"""


def with_trainer(run: Run, trainer: list[str]) -> None:
    """Another trainer command, as if it had always been this one."""
    for path in (run.path / "run.toml", run.path / "settings/0001.toml"):
        lines = path.read_text().splitlines()
        new = f"command = {json.dumps(trainer)}"
        lines = [new if line.startswith("command") else line for line in lines]
        path.write_text("\n".join(lines) + "\n")


def own_trainer(
    run: Run, *, step: int = 100, n_params: int = 64, spoil: bool = False, silent: bool = False
) -> None:
    text = OWN.format(step=step, n_params=n_params, spoil=spoil, silent=silent)
    (run.path / "train.py").write_text(text)
    (run.path / "notes.txt").write_text("my notes")
    with_trainer(run, ["{python}", "train.py"])


def test_a_trainer_in_the_runs_directory_is_found_and_loads(simple: Run, tmp_path: Path) -> None:
    own_trainer(simple)
    told = command("export", simple.path, tmp_path / "out", "--bundle", "--step", 100)
    assert (told.code, told.err) == (0, "")
    assert not (tmp_path / "out/loading").exists()
    page = (tmp_path / "out/README.md").read_text()
    assert (
        "Not copied, though they stood in its directory: `notes.txt`, `sources`, `train.py`."
        in page
    )


@pytest.mark.system
@pytest.mark.parametrize("form", ["pt", "sharded"])
def test_a_checkpoint_of_another_format_is_loaded_and_gone_on_from(
    supervise: Callable[..., Daemon], tmp_path: Path, form: str, *, thorough: bool
) -> None:
    if form == "pt" and not thorough:
        pytest.skip("one file of torch is loaded here with --thorough")
    trainer = scripted(steps=60, rate=2000, every=20, format=form)
    daemon = supervise(trainer, every=20)
    assert daemon.start().wait() == 0
    told = command("export", daemon.run.path, tmp_path / "out", "--bundle", "--step", 40)
    assert (told.code, told.err) == (0, "")
    evidence = bundle.read_evidence(tmp_path / "out")
    assert evidence.resumed.name == f"checkpoints/step_000040.{form}"
    assert command("fork", tmp_path / "out", tmp_path / "new").code == 0
    new = Daemon(Run(tmp_path / "new"))
    try:
        assert new.start().wait() == 0, new.output()
    finally:
        new.finish()
    old = daemon.run.canonical()
    assert [line["loss"] for line in new.run.ledger()] == [old[s]["loss"] for s in range(41, 61)]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"step": 0}, "ready after step 0 with 64 parameters, not after step 100"),
        ({"n_params": 63}, "with 63 parameters"),
        ({"spoil": True}, "the trainer changed checkpoints/step_000100.bin"),
        ({"silent": True}, "the trainer ended before it was ready; it printed last: the model"),
    ],
    ids=["step", "n_params", "spoil", "silent"],
)
def test_a_load_that_fails_leaves_no_bundle(
    simple: Run, tmp_path: Path, how: dict[str, int], why: str
) -> None:
    own_trainer(simple, **how)
    told = command("export", simple.path, tmp_path / "out", "--bundle", "--step", 100)
    assert told.code == 1
    assert told.complaint().startswith("cannot vouch for the bundle: ")
    assert why in told.complaint()
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_trainer_that_stands_still_is_given_its_budget_and_ended(
    simple: Run, tmp_path: Path
) -> None:
    with_trainer(simple, scripted(hang_loading=True))
    for path in (simple.path / "run.toml", simple.path / "settings/0001.toml"):
        path.write_text(path.read_text() + "\n[hang]\nload = 0.3\n")
    told = command("export", simple.path, tmp_path / "out", "--bundle")
    assert (told.code, "reported nothing for 0.3 s, doing load" in told.complaint()) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_program_that_is_not_there_cannot_load(simple: Run, tmp_path: Path) -> None:
    with_trainer(simple, ["no-such-program"])
    told = command("export", simple.path, tmp_path / "out", "--bundle")
    assert (told.code, "no-such-program is not a program" in told.complaint()) == (1, True)
    assert not (tmp_path / "out").exists()
