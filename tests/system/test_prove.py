"""``stepkeeper prove``: what it starts, what it says, how it ends, and what it leaves running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.command import Told, command
from tests.support.runs import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

SCRIPTED = """
import json, os, pathlib, signal, sys
words = sys.argv[1:]
script = json.loads((pathlib.Path(__file__).parents[2] / "script.json").read_text())
if words[0] == "verify":
    sys.stdout.write(json.dumps(script["verdict"]))
    sys.exit(script["code"])
name = pathlib.Path(words[words.index("--output") + 1]).name
for way in ("fail", "hang"):
    if name == script.get(way):
        if way == "hang":
            signal.pause()
        sys.stderr.write("a line before\\ncannot write it: the disk is full\\n")
        sys.exit(2)
with (pathlib.Path(__file__).parents[2] / "told.jsonl").open("a") as told:
    told.write(json.dumps(words) + "\\n")
said = {"step": 5, "loss": 0.25, "mse": 0.5, "next_lr": 0.1, "checkpoint": f"of-{name}"}
sys.stdout.write(json.dumps(said))
"""
CHECK = {"life": "resumed", "part": "the end", "what": "MSE", "passed": True, "held": True}
CHECK |= {"deviation": 0.0, "why": "", "key": "mse", "expected": "agrees"}


def verdict(*, proved: bool) -> dict[str, object]:
    """What a verdict of one format looks like."""
    made = CHECK if proved else {**CHECK, "passed": False, "held": False, "deviation": 0.5}
    made |= {} if proved else {"why": "value: 1.0 and 0.5"}
    control = {**CHECK, "passed": False, "deviation": 0.25, "expected": "differs"}
    row = {
        "dtype": "float64",
        "positive": proved,
        "negative_divergence_detected": True,
        "negative_control_sound": True,
        "resume_demo": {"max_loss_difference": 0.0},
        "comparisons": [made],
        "control": [control],
    }
    return {
        "all_checks_passed": proved,
        "tolerance": {"absolute": 1e-12, "relative": 0.0},
        "not_covered": ["CUDA", "AMP"],
        "formats": {"pt": row},
    }


class Scripted:
    """A copy of the program in which the exercise's lives do as a script says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "supervisor", folder / "supervisor", symlinks=False)
        shutil.copytree(ROOT / "trainer/contract", folder / "trainer/contract")
        (folder / "trainer/proof").mkdir()
        for package in ("trainer", "trainer/proof"):
            (folder / package / "__init__.py").touch()
        (folder / "trainer/proof/__main__.py").write_text(SCRIPTED)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str, **script: object) -> subprocess.Popen[str]:
        """``stepkeeper prove`` with these words."""
        told = {"verdict": verdict(proved=True), "code": 0, **script}
        (self.folder / "script.json").write_text(json.dumps(told))
        env = {**os.environ, "PYTHONPATH": str(self.folder)}  # noqa: TID251 - a user's, and a path
        self.started.append(
            subprocess.Popen(
                [sys.executable, "-m", "supervisor", "prove", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=self.folder,
                env=env,
            )
        )
        return self.started[-1]

    def prove(self, *words: str, **script: object) -> Told:
        """The same to its end."""
        process = self.start("--exercise", *words, **script)
        out, err = process.communicate(timeout=50)
        return Told(process.returncode, out, err)

    def words(self) -> list[list[str]]:
        """What each life was told."""
        return [json.loads(line) for line in (self.folder / "told.jsonl").read_text().splitlines()]


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    """A program of that kind, all of whose processes are ended with the test."""
    program = Scripted(tmp_path / "program")
    yield program
    for process in program.started:
        process.kill()
        process.communicate()


def test_four_lives_of_each_format_are_told_what_to_do(scripted: Scripted) -> None:
    told = scripted.prove("--output", "proof", "--json")
    assert told.code == 0, told.err
    facts = told.facts()
    assert facts == {"output": str(scripted.folder / "proof"), **verdict(proved=True)}
    lives = {}
    for words in scripted.words():
        place = Path(words[words.index("--output") + 1])
        lives[place.relative_to(scripted.folder / "proof").as_posix()] = words
    assert len(lives) == 12
    for form in ("pt", "sharded", "bin"):
        cut = str(scripted.folder / "proof" / form / "cut/of-cut")
        expected = {
            "continuous": (10, []),
            "cut": (5, []),
            "resumed": (5, ["--resume", cut]),
            "without-rng": (5, ["--omit-rng-restore", "--resume", cut]),
        }
        for name, (updates, more) in expected.items():
            begin = ["train", "--steps", str(updates), "--format", form, "--output"]
            place = str(scripted.folder / "proof" / form / name)
            assert lives[f"{form}/{name}"] == [*begin, place, *more]


def test_a_person_is_told_each_life_each_comparison_and_the_verdict(scripted: Scripted) -> None:
    told = scripted.prove()
    assert told.code == 0, told.err
    [folder] = scripted.folder.glob("stepkeeper-proof-*-*")
    lines = told.out.splitlines()
    assert str(folder) in told.out
    assert "   sharded: without-rng: after update 5, loss 0.250000, MSE 0.500000, of-" in told.out
    [row] = [line.split() for line in lines if line.startswith("MSE")]
    assert row == ["MSE", "0", "differs:", "0.25"]
    [row] = [line.split() for line in lines if line.startswith("pt ")]
    assert row == ["pt", "float64", "same", "0", "differs,", "as", "it", "must", "proved"]
    assert "not covered: CUDA, AMP" in lines
    assert lines[-1].startswith("proved: ")
    assert lines[-1].endswith(str(folder / "verification.json"))


def test_a_failed_comparison_is_named_and_the_answer_is_no(scripted: Scripted) -> None:
    told = scripted.prove("--output", "proof", verdict=verdict(proved=False), code=1)
    assert (told.code, told.err) == (1, "")
    assert "   pt, resumed, the end: MSE: value: 1.0 and 0.5" in told.out.splitlines()
    assert told.out.splitlines()[-1].startswith("not proved; ")


@pytest.mark.parametrize("name", ["cut", "without-rng"])
def test_a_life_that_fails_leaves_the_question_open(scripted: Scripted, name: str) -> None:
    told = scripted.prove("--output", "proof", "--json", fail=name)
    assert (told.code, told.out) == (2, "")
    assert f": {name} ended with exit code 2: cannot write it: the disk is full" in told.complaint()


def test_an_answer_that_does_not_fit_its_exit_code_is_none(scripted: Scripted) -> None:
    told = scripted.prove("--output", "proof", "--json", code=3)
    assert told.code == 2
    assert told.complaint() == (
        "cannot prove it: comparing the lives ended with exit code 3: it said nothing"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_proof_leaves_no_process_behind(
    scripted: Scripted, number: signal.Signals
) -> None:
    process = scripted.start("--exercise", "--output", "proof", hang="continuous")
    me = psutil.Process(process.pid)
    wait_until(lambda: len(me.children()) > 0, "a life")
    lives = me.children()
    process.send_signal(number)
    _, err = process.communicate(timeout=50)
    assert (process.returncode, err) == (2, "cannot finish prove: interrupted\n")
    assert [life.pid for life in lives if life.is_running()] == []


def test_one_thing_is_proved_and_evidence_is_not_replaced(tmp_path: Path) -> None:
    for words in ((), ("x", "--exercise")):
        told = command("prove", *words)
        assert told.code == 2
        assert told.complaint().startswith("cannot tell what to prove: ")
    told = command("prove", "--exercise", "--output", tmp_path)
    assert told.code == 2
    assert "it is there already; give a directory that is not there" in told.complaint()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(300)
def test_a_program_that_forgets_the_generators_of_a_bin_is_found_out(
    tmp_path: Path, *, thorough: bool
) -> None:
    if not thorough:
        pytest.skip("thirteen processes that load torch; --thorough takes them")
    for package in ("supervisor", "trainer"):
        shutil.copytree(ROOT / package, tmp_path / package, symlinks=False)
    broken = tmp_path / "trainer/proof/five_regions.py"
    text = broken.read_text()
    assert text.count("rng.restore(companion.rng)") == 1
    broken.write_text(text.replace("rng.restore(companion.rng)", "pass"))
    done = subprocess.run(
        [sys.executable, "-m", "supervisor", "prove", "--exercise", "--output", "p", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},  # noqa: TID251 - as above
    )
    assert done.returncode == 1, done.stderr
    formats = json.loads(done.stdout)["formats"]
    assert {form: row["positive"] for form, row in formats.items()} == {
        "pt": True,
        "sharded": True,
        "bin": False,
    }
