"""Evidence of the exercise that is missing, damaged or of something else proves nothing."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.support.runs import ROOT
from tests.trainer.exercise import copy, verify, vouch
from trainer.proof import commands


def lose(path: str) -> Callable[[Path], object]:
    return lambda folder: (folder / path).unlink()


def flip(path: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        data = bytearray((folder / path).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / path).write_bytes(data)

    return change


def shorten(path: str) -> Callable[[Path], object]:
    return lambda folder: os.truncate(folder / path, 100)


def unpicklable(folder: Path) -> None:
    path = folder / "pt/cut/checkpoint.pt"
    torch.save({"schema": Path("x")}, path)
    vouch(path)


def stray(folder: Path) -> None:
    (folder / "sharded/cut/checkpoint.sharded/more.pt").write_bytes(b"x")


def swap(folder: Path) -> None:
    (folder / "pt/resumed").rename(folder / "pt/x")
    (folder / "pt/without-rng").rename(folder / "pt/resumed")
    (folder / "pt/x").rename(folder / "pt/without-rng")


UNKNOWN = [
    ("pt", lose("pt/resumed/summary.json"), "summary.json: No such file"),
    ("pt", shorten("pt/resumed/summary.json"), "summary.json: JSONDecodeError"),
    ("pt", lose("pt/cut/checkpoint.pt"), "it is not there"),
    ("pt", lose("pt/cut/checkpoint.pt.sha256"), "checkpoint.pt.sha256: No such file"),
    ("pt", flip("pt/cut/checkpoint.pt"), "sha256: [0-9a-f]{64} when it was written"),
    ("pt", shorten("pt/cut/checkpoint.pt"), "bytes: [0-9]+ when it was written, 100 now"),
    ("pt", unpicklable, "only tensors and plain containers are loaded"),
    ("pt", swap, "it is another life"),
    ("sharded", lose("sharded/cut/checkpoint.sharded/index.json"), "index.json is missing"),
    ("sharded", stray, "does not vouch for it"),
    ("sharded", flip("sharded/cut/checkpoint.sharded/model.shard-001.pt"), "sha256: "),
    ("bin", flip("bin/cut/step_000005.bin"), "step_000005.bin: sha256: "),
    ("bin", flip("bin/cut/step_000005.json"), "step_000005.json: sha256: "),
    ("bin", lose("bin/resumed/step_000010.json"), "step_000010.json is missing"),
]


@pytest.mark.parametrize(("form", "spoil", "words"), UNKNOWN)
def test_what_cannot_be_determined_is_neither_proved_nor_refuted(
    exercise_lives: Path,
    tmp_path: Path,
    form: str,
    spoil: Callable[[Path], object],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = copy(exercise_lives, tmp_path, form)
    spoil(folder)
    assert verify(folder, form) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.fullmatch(f"cannot .*{words}.*", line)
    assert not (folder / "verification.json").exists()


def test_evidence_is_never_replaced(
    exercise_lives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy(exercise_lives, tmp_path, "pt")
    assert verify(folder, "pt") == 0
    before = (folder / "verification.json").read_bytes()
    assert commands.main(["verify", str(folder), "--format", "pt"]) == 2
    train = ["train", "--steps", "5", "--output"]
    assert commands.main([*train, str(folder / "pt/cut")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch("cannot write .*verification.json: it is there already, .*", first)
    assert re.fullmatch("cannot write to .*pt/cut: it is there already; give a .*", second)
    assert (folder / "verification.json").read_bytes() == before


def test_single_steps_are_checked_before_anything_is_made(
    exercise_lives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", "--steps", "5", "--output", str(tmp_path / "new")]
    assert commands.main([*train, "--omit-rng-restore"]) == 2
    assert commands.main([*train, "--resume", str(tmp_path / "checkpoint.pt")]) == 2
    other = exercise_lives / "bin/cut/step_000005.bin"
    assert commands.main([*train, "--resume", str(other)]) == 2  # of float32, and this is not
    assert commands.main([*train, "--resume", str(exercise_lives / "pt/cut/summary.json")]) == 2
    lines = capsys.readouterr().err.splitlines()
    words = ["goes with --resume", "it is not there", "", "expected one named"]
    for line, word in zip(lines, words, strict=True):
        assert line.startswith("cannot ")
        assert word in line
    assert not (tmp_path / "new").exists()


def test_what_was_saved_in_one_format_goes_on_in_another(
    exercise_lives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = exercise_lives / "pt/cut/checkpoint.pt"
    given = ["train", "--steps", "5", "--resume", str(cut), "--format", "sharded"]
    assert commands.main([*given, "--output", str(tmp_path / "moved/resumed")]) == 0
    assert '"next_lr": 0.00375' in capsys.readouterr().out


def test_the_single_steps_on_the_page_prove_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "trainer/README.md").read_text()
    [block] = re.findall(r"```sh\n(python -m trainer\.proof .*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    for line in block.splitlines():
        _, _, module, *words = shlex.split(line)
        assert module == "trainer.proof"
        assert commands.main(words) == 0
    assert '"all_checks_passed": true' in capsys.readouterr().out.splitlines()[-1]


def test_without_torch_it_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch is here')\n")
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "trainer.proof", "verify", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},  # noqa: TID251 - a user's, without torch
    )
    assert (done.returncode, done.stderr) == (2, "cannot begin: no torch is here\n")
