"""A run that was moved, copied, renamed or put back: who may keep it, and who is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.process import machine
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, scripted

Supervise = Callable[..., Daemon]
FEW = scripted(steps=20, rate=900, every=10)


def kept(supervise: Supervise, **settings: object) -> Run:
    """A run of two lives that is stopped, and whose place is known."""
    daemon = supervise(FEW, every=10, **settings).start()
    assert daemon.wait() == 0
    return daemon.run


def again(run: Run, *words: object) -> tuple[int, str]:
    """Keep it once more in this process; what was said on either stream."""
    told = command("run", run.path, *words)
    return told.code, told.out + told.err


def from_elsewhere(run: Run) -> None:
    """Let it have been kept on another machine."""
    record = run.read("place.json") or {}
    record |= {"machine": "f" * 32, "host": "far", "path": "/there/run"}
    (run.path / "place.json").write_text(json.dumps(record))


@pytest.mark.system
def test_a_run_is_known_by_its_place_and_kept_there_again(supervise: Supervise) -> None:
    run = kept(supervise)
    place = run.read("place.json") or {}
    assert place["schema"] == "stepkeeper.place/1"
    assert (place["path"], place["machine"]) == (str(run.path), machine.machine_id())
    before = (run.path / "place.json").stat()
    assert again(run)[0] == 0
    assert (run.path / "place.json").stat().st_mtime_ns == before.st_mtime_ns
    assert run.events("moved") == []


@pytest.mark.system
@pytest.mark.skipif(not machine.machine_id(), reason="this machine has no identity of its own")
def test_a_run_of_another_machine_is_refused_until_it_is_said_to_be_moved(
    supervise: Supervise,
) -> None:
    run = kept(supervise)
    from_elsewhere(run)
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    code, said = again(run)
    assert code == 11
    assert "another machine (far, as /there/run)" in said
    assert "--moved" in said
    assert "stepkeeper fork" in said
    after = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    assert after == before
    assert again(run, "--moved")[0] == 0
    assert [event["from"]["host"] for event in run.events("moved")] == ["far"]
    assert again(run)[0] == 0
    assert command("audit", run.path).code == 0


@pytest.mark.system
def test_a_copy_beside_its_original_is_refused_whatever_is_said(
    supervise: Supervise, tmp_path: Path
) -> None:
    run = kept(supervise)
    copy = Run(Path(shutil.copytree(run.path, tmp_path / "copy")))
    for words in ((), ("--moved",)):
        code, said = again(copy, *words)
        assert code == 11
        assert f"it is a copy of {run.path}" in said
    assert again(run)[0] == 0  # the original is not hindered by its copy
    shutil.rmtree(run.path)
    assert again(copy)[0] == 0
    assert (copy.read("place.json") or {})["path"] == str(copy.path)


@pytest.mark.system
def test_a_directory_that_was_renamed_or_put_back_is_kept_on_with(
    supervise: Supervise, tmp_path: Path
) -> None:
    run = kept(supervise)
    renamed = Run(run.path.rename(tmp_path / "renamed"))
    run.path.mkdir()  # another directory stands there now, and it is no run
    code, said = again(renamed)
    assert (code, f"moved here from {run.path}" in said) == (0, True)
    backup = Path(shutil.copytree(renamed.path, tmp_path / "backup"))
    shutil.rmtree(renamed.path)
    backup.rename(renamed.path)
    code, said = again(renamed)
    assert code == 0
    assert len(renamed.events("moved")) in (1, 2)  # the file system may give the number again


@pytest.mark.system
def test_the_same_directory_by_another_path_is_no_copy(
    supervise: Supervise, tmp_path: Path
) -> None:
    run = kept(supervise)
    (tmp_path / "link").symlink_to(run.path)
    assert again(Run(tmp_path / "link"))[0] == 0
    assert again(run)[0] == 0


@pytest.mark.system
def test_a_place_that_cannot_be_read_stops_the_start(supervise: Supervise) -> None:
    run = kept(supervise)
    record = run.read("place.json") or {}
    for text in ("{", json.dumps(record | {"schema": "stepkeeper.place/2"})):
        (run.path / "place.json").write_text(text)
        code, said = again(run)
        assert code == 11
        assert said.startswith("cannot read ")


def test_a_machine_is_known_by_a_number_that_does_not_give_its_own_away(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    second.write_text("5f0c1d2e3b4a59687766554433221100\n")
    known = machine.machine_id((first, second))
    assert len(known) == 32
    assert known not in second.read_text()
    first.write_text("uninitialized\n")
    assert machine.machine_id((first, second)) == known
    assert machine.machine_id((first, tmp_path / "none")) == ""
