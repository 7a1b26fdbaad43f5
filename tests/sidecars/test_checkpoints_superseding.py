"""Checkpoints above the resume point go out of the way: seals first, nothing replaced or lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.sidecars.checkpoints import (
    scan,
)
from supervisor.sidecars.checkpoints.superseding import supersede
from tests.sidecars.sealing import checkpoint, lineage
from tests.support.runs import ROOT
from trainer.contract import durable
from trainer.contract.checkpoint_format import companion_of, name_of, seal_of


def files(folder: Path) -> set[str]:
    """Every regular file by its path below ``folder``."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def make(folder: Path) -> None:
    """Sealed up to 300, an unsealed 400, companions beside all, and files of other names."""
    lineage(folder, 100, 200, 300)
    for step in (100, 200, 300, 400):
        checkpoint(folder, step, beside=True)
    for name in ("pins.json", "notes.txt", "step_200.bin", ".step_000500.bin.0123.tmp"):
        (folder / name).write_text("left alone")


STAYS = {
    *(naming(100) for naming in (name_of, seal_of, companion_of)),
    "pins.json",
    "notes.txt",
    "step_200.bin",
    ".step_000500.bin.0123.tmp",
}
AWAY = "superseded/attempt-000007/"
GOES = {
    *(AWAY + naming(step) for naming in (name_of, companion_of) for step in (200, 300, 400)),
    *(AWAY + seal_of(step) for step in (200, 300)),
}


def test_everything_above_the_resume_point_goes_and_nothing_else(tmp_path: Path) -> None:
    make(tmp_path)
    before = (tmp_path / name_of(300)).read_bytes()
    assert supersede(tmp_path, 7, 100) == (400, 300, 200)
    assert files(tmp_path) == STAYS | GOES
    assert (tmp_path / AWAY / name_of(300)).read_bytes() == before
    assert [seal.step for seal in scan(tmp_path).sealed] == [100]
    assert scan(tmp_path).unsealed == ()


def test_where_there_is_nothing_above_nothing_is_made(tmp_path: Path) -> None:
    lineage(tmp_path, 100)
    assert supersede(tmp_path, 7, 100) == ()
    assert not (tmp_path / "superseded").exists()


def test_a_run_that_begins_anew_keeps_even_the_checkpoint_of_step_0_out(tmp_path: Path) -> None:
    checkpoint(tmp_path, 0)
    assert supersede(tmp_path, 2, -1) == (0,)


def test_a_pipe_and_a_link_among_checkpoints_are_moved_and_not_opened(tmp_path: Path) -> None:
    pipe, link = name_of(300, "pt"), name_of(400, "pt")
    os.mkfifo(tmp_path / pipe)  # opening it would wait for a writer, for ever
    (tmp_path / link).symlink_to(tmp_path / "not there")
    assert supersede(tmp_path, 7, 100) == (400, 300)
    assert (tmp_path / AWAY / pipe).is_fifo()
    assert (tmp_path / AWAY / link).is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"superseded"}


def test_nothing_that_was_superseded_before_is_replaced(tmp_path: Path) -> None:
    make(tmp_path)
    supersede(tmp_path, 7, 200)
    first = (tmp_path / AWAY / name_of(300)).read_bytes()
    (tmp_path / name_of(300)).write_bytes(b"another life's")
    (tmp_path / seal_of(300)).write_bytes(b"its seal")
    supersede(tmp_path, 7, 200)
    assert (tmp_path / AWAY / name_of(300)).read_bytes() == first
    assert (tmp_path / AWAY / f"{name_of(300)}.2").read_bytes() == b"another life's"
    assert (tmp_path / AWAY / f"{seal_of(300)}.2").read_bytes() == b"its seal"


def test_seals_go_before_any_bin_and_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path)
    moved: list[str] = []
    move = durable.move

    def watch(source: Path, target: Path) -> None:
        moved.append(source.name)
        move(source, target)

    monkeypatch.setattr("trainer.contract.durable.move", watch)
    supersede(tmp_path, 7, 100)
    assert moved == [
        *(seal_of(step) for step in (300, 200)),
        *(name_of(step) for step in (400, 300, 200)),
        *(companion_of(step) for step in (400, 300, 200)),
    ]


# Superseding in a process of its own that dies at the n-th call that changes a folder.
DYING = """
import os, signal, sys
from pathlib import Path
left = int(sys.argv[2])
def audit(event, arguments):
    global left
    if event in ("os.link", "os.remove", "os.mkdir"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
from supervisor.sidecars.checkpoints.superseding import supersede
sys.addaudithook(audit)
supersede(Path(sys.argv[1]), 7, 100)
"""


def test_killed_between_any_two_changes_it_is_completed_by_the_next(tmp_path: Path) -> None:
    for calls in range(100):
        folder = tmp_path / str(calls)
        folder.mkdir()
        make(folder)
        done = subprocess.run(
            [sys.executable, "-c", DYING, folder, str(calls)], cwd=ROOT, check=False, timeout=30
        )
        # Whatever is left is a shorter lineage, without gap or stranger, that still resumes.
        catalogue = scan(folder)
        assert catalogue.gaps == ()
        assert all("name:" in refused.reason for refused in catalogue.refused)
        left = [seal.step for seal in catalogue.sealed]
        assert left == [300, 200, 100][-len(left) :]
        if done.returncode == 0:
            assert calls == 2 + 2 * 8
            break
        assert done.returncode == -signal.SIGKILL
        supersede(folder, 7, 100)
        assert files(folder) == STAYS | GOES
        assert all(os.stat(folder / name).st_nlink == 1 for name in files(folder))  # noqa: PTH116 - short
    else:
        pytest.fail("it never came to its end")
