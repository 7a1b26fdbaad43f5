"""``export --bundle``: all that a resume elsewhere needs, verified and loaded where it lies."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.errors import StepkeeperError
from supervisor.perform import exporting, exporting_bundle
from supervisor.sidecars import bundle
from supervisor.sidecars.checkpoints import scan
from tests.support.audited import faults, head_of
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, copy_of, scripted

Supervise = Callable[..., Daemon]
FACTS = ("step", "loss", "arm", "lr", "data", "policy")


def facts_of(line: dict[str, object]) -> list[object]:
    return [line[key] for key in FACTS]


def go_on(run: Run) -> None:
    daemon = Daemon(run)
    try:
        assert daemon.start().wait(60) == 0, daemon.output()
    finally:
        daemon.finish()


def test_a_run_goes_on_from_its_bundle_alone_as_it_did_before(simple: Run, tmp_path: Path) -> None:
    """The run is gone, its sources lie elsewhere: the bundle is all there is."""
    old = simple.canonical()
    head = head_of(simple, 100)
    told = command("export", simple.path, tmp_path / "out", "--bundle", "--step", 100, "--json")
    assert (told.code, told.err) == (0, "")
    assert (told.facts()["loaded"], told.facts()["restored"]["step"]) == (True, 100)
    shutil.move(simple.path / "sources", tmp_path / "elsewhere")
    shutil.rmtree(simple.path)
    told = command("fork", tmp_path / "out", tmp_path / "new")
    assert told.code == 2  # its sources are nowhere
    told = command(
        "fork", tmp_path / "out", tmp_path / "new", "--sources", tmp_path / "elsewhere", "--json"
    )
    assert (told.facts()["step"], told.facts()["head"]) == (100, head)
    new = Run(tmp_path / "new")
    assert faults(new) == []
    go_on(new)
    assert [facts_of(line) for line in new.ledger()] == [
        facts_of(old[step]) for step in range(101, 301)
    ]
    assert faults(new) == []


def test_the_evidence_says_what_was_run_restored_and_checked(simple: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert command("export", simple.path, out, "--bundle", "--step", 200).code == 0
    manifest, evidence = bundle.read_manifest(out), bundle.read_evidence(out)
    assert evidence.commands.export == (
        "stepkeeper", "export", str(simple.path), str(out), "--step", "200", "--bundle"
    )  # fmt: skip
    assert "scripted_trainer.py" in " ".join(evidence.commands.trainer)
    restored = evidence.restored
    assert (restored.step, restored.n_params, restored.companion) == (200, 64, True)
    assert evidence.resumed.name == "checkpoints/step_000200.bin"
    assert [check.check for check in evidence.checks] == [
        "sizes", "digests", "seal", "ledger", "journal", "ready", "unchanged"
    ]  # fmt: skip
    done = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=out, capture_output=True, check=False
    )
    assert done.returncode == 0
    summed = {line.split("  ")[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
    there = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert there == summed | {"SHA256SUMS", "RESUME-EVIDENCE.json"}
    assert {file.name for file in manifest.files} == summed - {"MANIFEST.json"}
    assert manifest.head == head_of(simple, 200)


def test_the_history_ends_exactly_at_the_seal(simple: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert command("export", simple.path, out, "--bundle", "--step", 100, "--no-load").code == 0
    seal = json.loads((out / "checkpoints/step_000100.seal.json").read_bytes())
    ledger = (simple.path / "demo.loss.json").read_bytes()
    assert (out / "demo.loss.json").read_bytes() == ledger[: seal["ledger"]["bytes"]]
    journal = (simple.path / "events.jsonl").read_bytes()
    assert (out / "events.jsonl").read_bytes() == journal[: seal["events"]["bytes"]]
    rows = (out / "metrics.csv").read_text().splitlines()
    assert rows[0].startswith("step,loss,")
    assert [int(row.split(",")[0]) for row in rows[1:]] == [*range(1, 101)]
    data = json.loads((out / "data.json").read_bytes())
    assert data["arms"]["a"]["path"] == str(simple.path / "sources/a")
    assert data["identities"] == {"code": "scripted"}


def test_a_bundle_without_a_load_says_so_and_claims_nothing(simple: Run, tmp_path: Path) -> None:
    told = command("export", simple.path, tmp_path / "out", "--bundle", "--no-load")
    assert told.code == 0
    assert "not loaded, so there is no RESUME-EVIDENCE.json" in told.out
    assert not (tmp_path / "out/RESUME-EVIDENCE.json").exists()
    told = command("export", simple.path, tmp_path / "more", "--no-load")
    assert (told.code, "without --bundle" in told.complaint()) == (2, True)


def test_a_bundle_is_never_kept_as_a_run(simple: Run, tmp_path: Path) -> None:
    out = Run(tmp_path / "out")
    assert command("export", simple.path, out.path, "--bundle", "--no-load").code == 0
    daemon = Daemon(out)
    try:
        assert daemon.start().wait() == 11
    finally:
        daemon.finish()
    assert f"cannot keep {out.path}: it is a bundle" in daemon.output()
    assert "stepkeeper fork" in daemon.output()


@pytest.mark.system
def test_a_living_run_does_not_notice(supervise: Supervise, tmp_path: Path) -> None:
    daemon = supervise(scripted(rate=100, every=50), every=50).start()
    daemon.until_seal(50)
    run = daemon.run
    told = command("export", run.path, tmp_path / "out", "--bundle", "--json")
    assert (told.code, told.err) == (0, "")
    assert bundle.read_evidence(tmp_path / "out").step == told.facts()["step"]
    last = run.last_step()
    daemon.until_step(last + 10)
    assert daemon.stop() == 0
    assert len(run.attempts()) == 1
    assert faults(run) == []
    assert Run(tmp_path / "out/loading").pids() == []


@pytest.mark.torch
@pytest.mark.system
def test_our_own_trainer_goes_on_from_a_bundle(trained: Run, tmp_path: Path) -> None:
    told = command("export", trained.path, tmp_path / "out", "--bundle", "--step", 2)
    assert (told.code, told.err) == (0, "")
    evidence = bundle.read_evidence(tmp_path / "out")
    assert evidence.restored.step == 2
    assert "checkpoint's torch" in evidence.versions
    assert command("fork", tmp_path / "out", tmp_path / "new").code == 0
    go_on(Run(tmp_path / "new"))
    old = trained.canonical()
    assert [facts_of(line) for line in Run(tmp_path / "new").ledger()] == [
        facts_of(old[step]) for step in (3, 4)
    ]


# ---------------------------------------------------------------- the copy


def test_what_is_deleted_meanwhile_is_copied_whole(simple: Run, tmp_path: Path) -> None:
    seal = scan(simple.path / "checkpoints").newest()[0]
    with exporting.origin(simple.path, seal) as source:
        for path in (simple.path / "checkpoints").glob("step_000300*"):
            path.unlink()
        made = exporting_bundle.fill(source, tmp_path, lambda *_: None)
        assert exporting_bundle.verify(seal, tmp_path, made, lambda *_: None)


FILES = (
    "checkpoints/step_000200.bin",
    "checkpoints/step_000200.json",
    "checkpoints/step_000200.seal.json",
    "demo.loss.json",
    "events.jsonl",
    "run.toml",
    "MANIFEST.json",
    "README.md",
    "data.json",
)


@pytest.mark.parametrize("name", FILES)
def test_a_byte_that_changes_at_the_destination_is_found(
    simple: Run, tmp_path: Path, name: str
) -> None:
    """Between the copy and its verification, as a failing disk would do it."""
    seal = next(s for s in scan(simple.path / "checkpoints").sealed if s.step == 200)
    with exporting.origin(simple.path, seal) as source:
        made = exporting_bundle.fill(source, tmp_path, lambda *_: None)
    assert exporting_bundle.verify(seal, tmp_path, made, lambda *_: None)
    path = tmp_path / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StepkeeperError, match=f"cannot vouch for the copy of .*{path.name}"):
        exporting_bundle.verify(seal, tmp_path, made, lambda *_: None)


@pytest.mark.parametrize("file", ["demo.loss.json", "events.jsonl"])
def test_a_history_that_is_not_the_seals_is_never_taken_along(
    simple: Run, tmp_path: Path, file: str
) -> None:
    """A faithful copy of a changed original: only the chain can tell."""
    path = simple.path / file
    data = bytearray(path.read_bytes())
    data[len(data) // 20] ^= 1
    path.write_bytes(data)
    told = command("export", simple.path, tmp_path / "out", "--bundle", "--no-load")
    assert (told.code, f"the copy of {file}" in told.complaint()) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_history_that_is_too_short_is_named(simple: Run, tmp_path: Path) -> None:
    ledger = simple.path / "demo.loss.json"
    ledger.write_bytes(ledger.read_bytes()[:1000])
    told = command("export", simple.path, tmp_path / "out", "--bundle", "--no-load")
    assert told.code != 0
    assert "demo.loss.json" in told.complaint()
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_run_without_a_name_keeps_its_ledgers_name_in_the_bundle(
    plain: Run, tmp_path: Path
) -> None:
    run = copy_of(plain, tmp_path / "demo")
    for path in (run.path / "run.toml", run.path / "settings/0001.toml"):
        path.write_text(path.read_text().replace('name = "demo"\n', ""))
    assert command("export", run.path, tmp_path / "out", "--bundle").code == 0
    assert command("fork", tmp_path / "out", tmp_path / "new").code == 0
    assert (tmp_path / "new/demo.loss.json").is_file()
    assert faults(Run(tmp_path / "new")) == []
