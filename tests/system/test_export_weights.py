"""``export``: weights for inference, equal to the checkpoint's bit for bit, whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from tests.support.command import command, program
from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run, make_run, scripted
from tests.support.scripted_checkpoint import content
from tests.support.volumes import tmpfs
from tests.support.waiting import wait_until


def listing(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file: its bytes and when it was last written."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def regions(path: Path) -> tuple[int, np.ndarray]:
    """Number of parameters and the weights of a ``.bin``, read with nothing of ours."""
    data = path.read_bytes()
    _, count = struct.unpack_from("<ii", data)
    return count, np.frombuffer(data, "<f4", count, 8)


@pytest.mark.torch
def test_weights_are_the_checkpoints_bit_for_bit_by_name(trained: Run, tmp_path: Path) -> None:
    before = listing(trained.path)
    told = command("export", trained.path, tmp_path / "out", "--step", 2, "--json")
    assert (told.code, told.err) == (0, "")
    count, weights = regions(trained.path / "checkpoints/step_000002.bin")
    companion = json.loads((trained.path / "checkpoints/step_000002.json").read_bytes())
    tensors = load_file(tmp_path / "out/model.safetensors")
    assert {name: list(tensors[name].shape) for name in tensors} == dict(companion["parameters"])
    flat = [tensors[name].reshape(-1) for name, _ in companion["parameters"]]
    assert np.concatenate(flat).tobytes() == weights.tobytes()
    assert (told.facts()["numbers"], told.facts()["step"]) == (count, 2)
    assert listing(trained.path) == before


@pytest.mark.torch
def test_the_readmes_loading_lines_work_as_they_stand(trained: Run, tmp_path: Path) -> None:
    assert command("export", trained.path, tmp_path / "out").code == 0
    text = (tmp_path / "out/README.md").read_text()
    assert "training cannot be resumed from it" in text
    first, second = text.split("```python\n")[1:]
    tokens = "import torch; print(model.logits(torch.zeros(1, 3, dtype=torch.int64)).shape)\n"
    for block, check in ((first, tokens), (second, "print(len(weights))\n")):
        done = subprocess.run(
            [sys.executable, "-c", block.split("```")[0] + check],
            cwd=tmp_path / "out",
            env={**os.environ, "PYTHONPATH": str(ROOT)},  # noqa: TID251 - a reader's own shell
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.torch
def test_the_metadata_and_config_name_where_the_weights_are_from(
    trained: Run, tmp_path: Path
) -> None:
    assert command("export", trained.path, tmp_path / "out").code == 0
    run = trained.events("run-created")[0]["run"]
    seal = (trained.path / "checkpoints/step_000004.seal.json").read_bytes()
    digest = json.loads(seal)["bin"]["sha256"]
    with safe_open(tmp_path / "out/model.safetensors", framework="np") as file:
        metadata = file.metadata()
    expected = {"run": run, "name": "demo", "step": "4", "checkpoint": digest}
    assert metadata == {**expected, "seal": sha256(seal).hexdigest(), "format": "pt"}
    config = json.loads((tmp_path / "out/config.json").read_bytes())
    assert (config["schema"], config["run"], config["step"]) == ("stepkeeper.weights/1", run, 4)
    shape = {"vocabulary": 256, "width": 16, "heads": 2, "layers": 1, "context": 12}
    assert config["model"] == shape
    assert config["settings"]["train"]["steps"] == 4
    assert set(config["identities"]) >= {"code", "data", "versions"}
    done = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "out", capture_output=True, check=False
    )
    assert done.returncode == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["README.md", "SHA256SUMS", "config.json", "model.safetensors"]


def test_another_trainers_model_is_exported_without_a_shape(simple: Run, tmp_path: Path) -> None:
    assert command("export", simple.path, tmp_path / "out", "--step", 200).code == 0
    tensors = load_file(tmp_path / "out/model.safetensors")
    assert tensors["all"].tobytes() == content(200, 64, 7)[8 : 8 + 4 * 64]
    assert json.loads((tmp_path / "out/config.json").read_bytes())["model"] is None
    assert "Transformer" not in (tmp_path / "out/README.md").read_text()


@pytest.mark.system
def test_a_checkpoint_without_companion_gives_one_tensor(tmp_path: Path) -> None:
    trainer = scripted(steps=100, rate=2000, no_companion=True)
    daemon = Daemon(make_run(tmp_path / "run", trainer))
    try:
        assert daemon.start().wait() == 0
    finally:
        daemon.finish()
    told = command("export", daemon.run.path, tmp_path / "out", "--json")
    assert (told.facts()["tensors"], told.facts()["numbers"]) == (1, 64)
    tensors = load_file(tmp_path / "out/model.safetensors")
    assert list(tensors) == ["weights"]
    assert "one tensor named `weights`" in (tmp_path / "out/README.md").read_text()


# ---------------------------------------------------------------- refusals


def test_a_step_without_a_seal_is_refused_and_the_nearest_are_named(
    simple: Run, tmp_path: Path
) -> None:
    told = command("export", simple.path, tmp_path / "out", "--step", 120)
    assert (told.code, "of step 100 and of step 200" in told.complaint()) == (1, True)
    (simple.path / "checkpoints/step_000100.bin").unlink()
    told = command("export", simple.path, tmp_path / "out", "--step", 100)
    assert told.code == 1
    assert "cannot export step 100" in told.complaint()
    assert "was deleted; the nearest one is of step 200" in told.complaint()
    assert not (tmp_path / "out").exists()


def test_a_place_that_is_taken_or_of_a_run_is_refused(simple: Run, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for dest, why in (
        (tmp_path / "there", "is there already"),
        (tmp_path / "no/where", "is not a folder"),
        (simple.path / "checkpoints/out", "lies in the run"),
        (simple.path / "out", "lies in the run"),
    ):
        told = command("export", simple.path, dest)
        assert (told.code, why in told.complaint()) == (2, True), told
    (tmp_path / "link").symlink_to(simple.path)
    assert "lies in the run" in command("export", simple.path, tmp_path / "link/out").complaint()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "link", "there"]


def test_a_checkpoint_that_is_not_as_it_was_sealed_is_never_exported(
    simple: Run, tmp_path: Path
) -> None:
    spoiled = simple.path / "checkpoints/step_000300.bin"
    data = bytearray(spoiled.read_bytes())
    data[40] ^= 1
    spoiled.write_bytes(data)
    told = command("export", simple.path, tmp_path / "out")
    assert (told.code, "sha256 as sealed" in told.complaint()) == (1, True)
    beside = simple.path / "checkpoints/step_000200.json"
    beside.write_bytes(beside.read_bytes().replace(b"scripted", b"scriptex"))
    told = command("export", simple.path, tmp_path / "out", "--step", 200)
    assert (told.code, "is not as it was sealed" in told.complaint()) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_full_disk_leaves_nothing(simple: Run, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", 1 << 20) as volume:
        volume.fill(leave=3 * 4096)
        told = command("export", simple.path, volume.path / "out")
        assert told.code != 0
        assert "cannot" in told.complaint()
        assert [path.name for path in volume.path.iterdir()] == ["filling"]


@pytest.mark.system
def test_an_interrupt_leaves_nothing_and_no_process(tmp_path: Path) -> None:
    """A model large enough that the interrupt falls into its export."""
    trainer = scripted(steps=10, every=10, n_params=1_000_000)
    daemon = Daemon(make_run(tmp_path / "run", trainer, every=10))
    try:
        assert daemon.start().wait() == 0
    finally:
        daemon.finish()
    words = program("export", daemon.run.path, tmp_path / "out")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        try:
            wait_until((tmp_path / ".out.making").is_dir, "the folder that is filled")
            process.send_signal(number)
            assert process.wait(20) == 2
        finally:
            process.kill()
            _, said = process.communicate()
        assert said == "cannot finish export: interrupted\n"
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["run"]
