"""Lives of a proof that say nothing of a resume, and are therefore no verdict on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.cli.proving_lives import Life, LifeEndedError
from tests.support.command import command
from tests.support.runs import Run, copy_of, make_run, scripted
from tests.system.test_prove_run import STEPS, edit, finished, keep

pytestmark = pytest.mark.system

COMMAND = 'command = ["sh", "engine.sh"]'


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose trainer resumes with a generator that it did not restore."""
    return finished(tmp_path_factory.mktemp("forgetful") / "run", forget_draws=True)


@pytest.mark.timeout(180)
def test_a_life_that_was_itself_resumed_is_no_uninterrupted_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripted(steps=200, kill_at=150, attempts=1), every=100)
    keep(run)
    assert {step: seal["attempt"] for step, seal in run.seals().items()} == {100: 1, 200: 2}
    life = Life(run.path, lambda _: None)
    assert life.until_sealed(0).seal.step == 100
    with pytest.raises(LifeEndedError, match=r"its trainer ended \(killed\)") as ended:
        life.until_sealed(100)
    assert not ended.value.chosen


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ('case "$STEPKEEPER_RESUME" in *180*) kill -9 $$;; esac', "its trainer ended (killed)"),
        ('echo "#" >> engine.sh', "it was changed meanwhile: code was"),
    ],
)
def test_what_says_nothing_of_a_resume_is_no_verdict(
    forgetful: Run, tmp_path: Path, script: str, told: str
) -> None:
    """A trainer that another killed as it resumed; one whose code is edited meanwhile."""
    run = copy_of(forgetful, tmp_path / "run")
    words = " ".join(scripted(steps=STEPS, rate=400, every=20, forget_draws=True))
    engine = run.path / "engine.sh"
    engine.write_text(f"{script.replace('engine.sh', str(engine))}\nexec {words}\n")
    edit(run, run.path.joinpath("run.toml").read_text().splitlines()[3], COMMAND)
    found = command("prove", run.path, "--steps", 40)
    assert found.code == 2
    assert told in found.complaint()
    assert not (run.path / "proof.json").exists()
