"""``prove RUN``: a run's own trainer on copies, and what its verdict is good for."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.audited import faults
from tests.support.command import Told, command, program
from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run, copy_of, make_run, scripted
from tests.support.waiting import wait_until
from tests.trainer import tiny

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]
STEPS = 200
SETTINGS = f"[train]\nsteps = {STEPS}\n"
LACK = "has no proof of resume"


def finished(folder: Path, **options: object) -> Run:
    """A run of 200 steps with a seal at each 20th."""
    trainer = scripted(steps=STEPS, rate=400, every=20, **options)
    run = make_run(folder, trainer, every=20, keep_last=20, settings=SETTINGS, algorithm="ucb1")
    policy = (run.path / "policy.toml").read_text()
    (run.path / "policy.toml").write_text(policy.replace("[", "phase_max = 12\n[", 1))
    keep(run)
    return run


def keep(run: Run) -> tuple[int, str]:
    daemon = Daemon(run)
    try:
        code = daemon.start().wait()
    finally:
        daemon.finish()
    return code, daemon.output()


def content(run: Run) -> dict[str, bytes]:
    files = [path for path in run.path.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(run.path)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Told]:
    """A run, and what its proof said; the run is otherwise as it was."""
    run = finished(tmp_path_factory.mktemp("proved") / "run")
    before = content(run)
    told = command("prove", run.path, "--steps", 40, "--at", 170, "--json")
    after = content(run)
    assert after.pop("proof.json")
    assert after == before
    assert [path.name for path in run.path.parent.iterdir() if path.name.startswith(".")] == []
    assert faults(run) == []
    return run, told


@pytest.fixture
def proved(proof: tuple[Run, Told], tmp_path: Path) -> Run:
    return copy_of(proof[0], tmp_path / "copy")


@pytest.mark.timeout(180)
def test_a_resume_is_proved_and_each_state_has_its_control(proof: tuple[Run, Told]) -> None:
    _, told = proof
    facts = told.facts()
    assert (told.code, told.err, facts["proved"]) == (0, "", True)
    assert facts["steps"] == {"start": 160, "cut": 180, "last": 200}
    compared = {one["what"]: one["equal"] for one in facts["resumed"]}
    assert all(compared.values())
    expected = {"steps behind the cut", "phases", "weights", "m", "v", "rng", "schedule", "phase"}
    assert expected <= set(compared)
    [phases] = [one["detail"] for one in facts["resumed"] if one["what"] == "phases"]
    assert int(phases.split()[0]) >= 1  # a border is crossed between cut and end
    controls = {one["without"]: one["result"] for one in facts["controls"]}
    assert controls == {
        "rng": "diverged",
        "scheduler": "no difference",  # this trainer resumes without looking at it
        "cursor": "not kept",
        "m": "refused",
        "v": "refused",
        "phase": "diverged",
    }


def test_its_status_says_valid_until_something_changes(proved: Run) -> None:
    facts = command("status", proved.path, "--json").facts()["proof"]
    assert (facts["state"], facts["why"]) == ("valid", "")
    assert "proof     valid: resumed at step 180" in command("status", proved.path).out
    edit(proved, f"steps = {STEPS}", f"steps = {STEPS + 1}")
    facts = command("status", proved.path, "--json").facts()["proof"]
    assert facts["state"] == "of another combination"
    assert facts["why"] == "settings.train.steps was 200 and is 201"


def test_a_gate_lets_in_what_is_proved_and_nothing_else(proved: Run) -> None:
    edit(proved, "[train]", "[proof]\nrequire_proof = true\n[train]")
    code, said = keep(proved)
    assert (code, LACK in said) == (0, False)
    edit(proved, '"--rate", "400"', '"--rate", "500"')
    code, said = keep(proved)
    assert code == 11
    assert "cannot keep" in said
    assert f"{LACK}: the newest is of another combination, command was" in said
    assert f"run stepkeeper prove {proved.path}" in said
    (proved.path / "proof.json").unlink()
    code, said = keep(proved)
    assert code == 11
    assert "proof.require_proof = true, and this combination" in said


def test_a_start_warns_once_where_no_proof_holds(proved: Run) -> None:
    _, said = keep(proved)
    assert LACK not in said
    edit(proved, '"--rate", "400"', '"--rate", "500"')
    _, said = keep(proved)
    assert said.count(LACK) == 1
    assert f"run stepkeeper prove {proved.path}" in said


def test_a_run_without_a_checkpoint_is_told_at_its_first_seal(supervise: Supervise) -> None:
    daemon = supervise(scripted(rate=100, every=150), every=150).start()
    daemon.until_step(100)
    assert LACK not in daemon.output()
    daemon.until(lambda: LACK in daemon.output(), "the warning")
    assert daemon.run.seals()
    daemon.until_seal(300)
    assert daemon.stop() == 0
    assert daemon.output().count(LACK) == 1


@pytest.mark.timeout(180)
def test_a_trainer_that_forgets_a_generator_is_found_out(tmp_path: Path) -> None:
    """A proof that was killed leaves a life running, which the next one ends and removes."""
    run = finished(tmp_path / "run", forget_draws=True)
    place = tmp_path / ".run.proof"
    killed = subprocess.Popen(program("prove", run.path, "--steps", 40), cwd=ROOT)
    left = Run(place / "cut")
    try:
        wait_until(left.pids, "a trainer of the proof")
        assert len(supervisors(place)) == 1
        killed.kill()
        killed.wait()
        told = command("prove", run.path, "--steps", 40)
        assert (told.code, told.err) == (1, "")
        assert "not proved: the resumed life is not the uninterrupted one: " in told.out
        assert "steps behind the cut: step 181: arm" in told.out
        assert left.pids() == supervisors(place) == []
        assert not place.exists()
        proof = run.read("proof.json")
        assert proof is not None
        assert proof["verdict"] == "failed"
        assert {c["result"] for c in proof["controls"]} == {"not run"}
        assert command("status", run.path, "--json").facts()["proof"]["state"] == "failed"
    finally:
        killed.kill()
        end(place)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_proof_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    trainer = scripted(rate=20, every=100)
    run = make_run(tmp_path / "run", trainer, every=100)
    place = tmp_path / ".run.proof"
    before = content(run)
    proving = subprocess.Popen(
        program("prove", run.path, "--steps", 40), cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    life = Run(place / "cut")
    try:
        wait_until(lambda: life.last_step() > 0, "a step of the first life")
        told = command("prove", run.path, "--steps", 40)
        assert told.code == 2
        assert "another proof of it is under way" in told.complaint()
        proving.send_signal(number)
        _, said = proving.communicate(timeout=30)
        assert (proving.returncode, said) == (2, "cannot finish prove: interrupted\n")
        assert life.pids() == supervisors(place) == []
        assert not place.exists()
        assert content(run) == before
    finally:
        proving.kill()
        end(place)


@pytest.mark.timeout(120)
def test_what_retention_deletes_meanwhile_is_not_missed(proved: Run) -> None:
    process = subprocess.Popen(
        program("prove", proved.path, "--steps", 40, "--at", 170),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        cut = proved.path.with_name(f".{proved.path.name}.proof") / "cut/attempts"
        wait_until(cut.is_dir, "the first life", 30)
        (proved.path / "checkpoints/step_000160.bin").unlink()
        second = cut.parents[1] / "continuous/attempts/000001"
        wait_until(lambda: second.is_dir() or process.poll() is not None, "the second life", 50)
        begun = process.poll() is None
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate(timeout=10)
    assert begun, said


def test_what_cannot_be_proved_is_told_in_a_line(proved: Run, tmp_path: Path) -> None:
    told = command("prove", proved.path, "--steps", 1000)
    assert told.code == 2
    assert "it ends at step 200, and 1000 steps from nothing are needed" in told.complaint()
    told = command("prove", proved.path, "--output", tmp_path)
    assert (told.code, "it is there already" in told.complaint()) == (2, True)
    told = command("prove", proved.path, "--steps", 40, "--at", 200)
    assert told.code == 2  # the trainer has nothing left to do there
    assert "cut: its trainer has finished at step 200" in told.complaint()


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["bin", "pt", "sharded"])
def test_the_reference_trainer_is_proved(tmp_path: Path, form: str, *, thorough: bool) -> None:
    """From nothing; every state has a life without it that is another one."""
    if not thorough:
        pytest.skip("nine starts of torch take half a minute; --thorough runs them")
    run = tiny_run(tmp_path / "run", form)
    told = command("prove", run, "--steps", 20, "--output", tmp_path / "kept", "--json")
    facts = told.facts()
    assert (told.code, told.err) == (0, "")
    assert {one["result"] for one in facts["controls"]} == {"diverged"}
    compared = {one["what"] for one in facts["resumed"] if one["equal"]}
    assert len(compared) == len(facts["resumed"])
    assert {"weights", "m", "v", "rng", "cursors", "schedule", "phase", "phases"} <= compared
    names = {path.name for path in (tmp_path / "kept").iterdir()}
    assert {"cut", "continuous", "resumed", "without-rng", "proof.json"} <= names
    [checkpoint] = (tmp_path / "kept/resumed/checkpoints").glob(f"step_000020.{form}")
    assert checkpoint.exists()


def tiny_run(run: Path, form: str) -> Path:
    for arm in ("a", "b"):
        source = run / "sources" / arm
        source.mkdir(parents=True)
        for number in range(5):
            (source / f"{number}.txt").write_text(f"{arm} {number} {tiny.TEXT} " * 20)
    sections = {
        "model": tiny.MODEL,
        "train": tiny.TRAIN,
        "checkpoint": {"every_steps": 20, "format": form},
        "sources": {arm: {"path": f"sources/{arm}"} for arm in ("a", "b")},
        "disk": {"reserve": 0.0},
    }
    (run / "run.toml").write_text(f'schema = "stepkeeper.run/1"\n{tiny.toml(sections)}')
    arms = "".join(f"[arms.{arm}]\n" for arm in ("a", "b"))
    head = 'schema = "stepkeeper.policy/2"\nphase_min = 3\nphase_max = 7\n'
    (run / "policy.toml").write_text(head + arms)
    return run


def supervisors(place: Path) -> list[int]:
    """Every process whose command names a run in that folder; a trainer's does not."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.fsencode(place) + b"/" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def end(place: Path) -> None:
    for pid in supervisors(place):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    Daemon(Run(place / "cut")).finish()


def edit(run: Run, before: str, after: str) -> None:
    path = run.path / "run.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
