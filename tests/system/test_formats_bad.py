"""Damage to a checkpoint of torch's formats is found and named by each reader that we have."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.sidecars.checkpoints.verify_child import verify
from supervisor.sidecars.checkpoints.verify_companion import Expected
from tests.support.audited import faults
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, copy_of, make_run, scripted
from trainer.contract.checkpoint_format import FORMATS, name_of

pytestmark = pytest.mark.system
SHARD = "model.shard-001.pt"


@pytest.fixture(scope="module", params=FORMATS[1:])
def sealed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Run]]:
    """A finished run with seals at 50, 100 and 150, and its format."""
    words = scripted(rate=1000, every=50, steps=150, format=request.param)
    daemon = Daemon(make_run(tmp_path_factory.mktemp(request.param) / "run", words, every=50))
    try:
        assert daemon.start().wait() == 0
        yield request.param, daemon.run
    finally:
        daemon.finish()


def spoil(run: Run, form: str, step: int) -> str:
    """Change a bit of the numbers of that step's checkpoint; the name of the file."""
    path = run.path / "checkpoints" / name_of(step, form)
    file = path / SHARD if form == "sharded" else path
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return f"{path.name}/{SHARD}" if form == "sharded" else path.name


def test_it_is_named_by_the_listing_and_the_audit(sealed: tuple[str, Run], tmp_path: Path) -> None:
    form, source = sealed
    run = copy_of(source, tmp_path / "run")
    name = spoil(run, form, 100)
    for words in (["--verify"], ["--full"]):
        told = command("checkpoints", run.path, *words, "--json")
        assert told.code == 1
        rows = {row["step"]: row for row in json.loads(told.out)["checkpoints"]}
        assert {step: row["verified"] for step, row in rows.items()} == {
            50: True,
            100: False,
            150: True,
        }
        assert f"{name}: " in rows[100]["note"]
    [fault] = faults(run, "--digests")
    assert fault.startswith(f"checkpoints/{name}: its digest is ")


DAMAGES = {
    "cut": lambda file: os.truncate(file, 20),
    "missing": lambda file: file.unlink(),
    "extra": lambda file: file.with_name("model.shard-099.pt").write_bytes(b"more"),
}


def test_what_changes_the_size_of_a_checkpoint_is_named_by_its_file(
    sealed: tuple[str, Run], tmp_path: Path
) -> None:
    form, source = sealed
    for damage, spoil_size in DAMAGES.items() if form == "sharded" else [("cut", DAMAGES["cut"])]:
        run = copy_of(source, tmp_path / damage)
        path = run.path / "checkpoints" / name_of(100, form)
        file = path / SHARD if form == "sharded" else path
        spoil_size(file)
        named = file.with_name("model.shard-099.pt") if damage == "extra" else file
        name = str(named.relative_to(path.parent))
        told = command("checkpoints", run.path, "--verify", "--json")
        [row] = [row for row in told.facts()["checkpoints"] if row["step"] == 100]
        assert (told.code, row["state"], row["verified"]) == (1, "BAD", False)
        assert name.rpartition("/")[2] in row["note"]
        [fault] = faults(run)
        assert fault.startswith(f"checkpoints/{name}: ")


def test_a_link_in_the_place_of_a_checkpoint_is_a_fault(
    sealed: tuple[str, Run], tmp_path: Path
) -> None:
    form, source = sealed
    run = copy_of(source, tmp_path / "run")
    path = run.path / "checkpoints" / name_of(100, form)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    kind = "a folder" if form == "sharded" else "a regular file"
    assert faults(run) == [f"checkpoints/{path.name}: it is not {kind}"]


def test_it_is_found_before_it_is_used_and_in_the_background(
    sealed: tuple[str, Run], tmp_path: Path
) -> None:
    form, source = sealed
    run = copy_of(source, tmp_path / "run")
    settings = run.path / "run.toml"
    settings.write_text(settings.read_text().replace('"150"', '"200"'))
    names = {step: spoil(run, form, step) for step in (50, 150)}
    daemon = Daemon(run)
    try:
        daemon.start()
        daemon.until(lambda: len(run.events("checkpoint-rejected")) == 2, "both are rejected")
    finally:
        daemon.stop()
        daemon.finish()
    assert run.attempts()[-1]["resume"]["step"] == 100
    told = {event["facts"]["step"]: event["facts"] for event in run.events("checkpoint-rejected")}
    assert {step: names[step] in facts["problem"] for step, facts in told.items()} == {
        50: True,
        150: True,
    }


@pytest.mark.torch
@pytest.mark.parametrize("form", ["pt", "sharded"])
def test_what_the_reference_trainer_writes_is_good(tmp_path: Path, form: str) -> None:
    # Imported here: the other tests need no torch.
    from tests.trainer.test_formats import set_format  # noqa: PLC0415 - see above
    from tests.trainer.tiny import live  # noqa: PLC0415 - likewise
    from tests.trainer.tiny import make_run as tiny_run  # noqa: PLC0415 - likewise

    (disk := tmp_path / "disk").mkdir()
    more = {"shard_roots": {"fast": str(disk)}} if form == "sharded" else {}
    life = live(set_format(tiny_run(tmp_path / "run"), form, **more), stop_after=7)
    roots = (("fast", str(disk)),)
    found = verify(life.newest(), Expected(n_params=0, companion=True, roots=roots))
    assert found["problem"] == ""
    losses = list(life.run.state.losses.whole())
    assert found["losses"] == [[1, losses]]
    assert len(losses) == 7
