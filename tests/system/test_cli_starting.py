"""``init``, ``check`` and ``run``: what is made, what is named, and every exit code."""

from __future__ import annotations

import signal
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.config import load, read_policy
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import make_run, scripted

Supervise = Callable[..., Daemon]
IMPATIENT = "[restart]\nfirst = 0.01\nmost = 0.02\n"


def folders(place: Path, *names: str) -> Path:
    for name in names:
        (place / name).mkdir(parents=True)
        (place / name / "text.txt").write_text("words\n" * 10)
    return place


def test_init_makes_settings_that_hold_with_an_arm_for_each_folder(tmp_path: Path) -> None:
    sources = folders(tmp_path / "texts", "chat", "code-2", ".hidden")
    (sources / "notes.txt").write_text("not an arm")
    run = tmp_path / "My run"
    told = command("init", run, "--sources", sources)
    assert (told.code, told.err) == (0, "")
    assert "chat, code-2" in told.out
    assert f"then stepkeeper run '{run}'\n" in told.out  # as a shell takes it
    config = load(run)
    assert config.name == "My-run"
    assert config.settings.cadence == 100
    assert config.command[1:] == ("-m", "trainer")
    assert config.sources == {arm: sources / arm for arm in ("chat", "code-2")}
    text = (run / "policy.toml").read_bytes()
    policy = read_policy(text, 1, "policy.toml", config, present=True)
    assert {(arm.name, arm.floor, arm.cap) for arm in policy.arms} == {
        ("chat", 0.0, 1.0),
        ("code-2", 0.0, 1.0),
    }
    assert tomllib.loads((run / "run.toml").read_text())["model"]["preset"] == "demo"
    checked = command("check", run)
    assert (checked.code, checked.out) == (0, f"the settings of {run} hold\n")


def test_init_names_its_own_sources_relative_to_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    folders(run / "sources", "a", "b")
    assert command("init", run, "--json").facts() == {"run": str(run), "arms": ["a", "b"]}
    paths = tomllib.loads((run / "run.toml").read_text())["sources"]
    assert paths == {"a": {"path": "sources/a"}, "b": {"path": "sources/b"}}


def test_init_without_sources_names_an_example_and_what_to_do(tmp_path: Path) -> None:
    run = tmp_path / "run"
    told = command("init", run)
    assert told.code == 0
    assert str(run / "sources/example") in told.out
    checked = command("check", run)
    assert checked.code == 1
    assert "sources.example.path: 'sources/example' does not exist" in checked.out


@pytest.mark.parametrize("case", ["a run", "no folder", "no such folder", "a bad name"])
def test_init_refuses_and_leaves_everything_as_it_is(tmp_path: Path, case: str) -> None:
    run, sources = tmp_path / "run", tmp_path / "texts"
    if case == "a run":
        folders(sources, "a")
        run.mkdir()
        (run / "policy.toml").write_text("mine")
    elif case == "no folder":
        sources.mkdir()
    elif case == "a bad name":
        folders(sources, "two words")
    told = command("init", run, "--sources", sources)
    assert told.code == 2
    assert told.complaint()
    assert not (run / "run.toml").exists()
    if case == "a run":
        assert (run / "policy.toml").read_text() == "mine"


def test_check_names_every_problem_of_both_files_at_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripted(), settings='[train]\nsteps = "many"\nlrr = 1.0\n')
    text = (run.path / "policy.toml").read_text()
    (run.path / "policy.toml").write_text(text.replace("cap = 1.0", "cap = -1.0") + "flor = 0.1\n")
    told = command("check", run.path, "--json")
    facts = told.facts()
    assert (told.code, told.err, facts["ok"]) == (1, "", False)
    problems = "\n".join(facts["problems"])
    assert f"{run.path}/run.toml: train.steps: 'many':" in problems
    assert f"{run.path}/run.toml: train.lrr: unknown key" in problems
    assert f"{run.path}/policy.toml: arms.a.cap: -1.0: " in problems
    assert f"{run.path}/policy.toml: arms.b.flor: unknown key" in problems
    assert "greater than or equal to 0" in problems
    text_form = command("check", run.path)
    assert text_form.code == 1
    assert f"{len(facts['problems'])} problems in" in text_form.out


def test_a_policy_that_is_gone_is_not_to_be_made_where_init_would_refuse(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripted())
    (run.path / "policy.toml").unlink()
    [problem] = command("check", run.path, "--json").facts()["problems"]
    assert problem == f"cannot read {run.path}/policy.toml: No such file or directory"
    told = command("pivot", run.path, "--policy", tmp_path / "none.toml")
    assert told.complaint() == f"cannot read {tmp_path}/none.toml: No such file or directory"


def test_check_holds_the_policy_against_the_sources(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripted())
    text = (run.path / "policy.toml").read_text().replace('[arms."b"]', '[arms."c"]')
    (run.path / "policy.toml").write_text(text)
    [problem] = command("check", run.path, "--json").facts()["problems"]
    assert "arms.c: no source of that name in run.toml (a, b)" in problem


def test_check_warns_of_what_holds_and_will_surprise(supervise: Supervise) -> None:
    daemon = supervise(scripted(steps=10)).start()
    assert daemon.wait() == 0
    run = daemon.run
    assert command("check", run.path, "--json").facts()["warnings"] == []
    policy = run.path / "policy.toml"
    policy.write_text(policy.read_text().replace("cap = 1.0", "cap = 0.9"))
    for path in (run.path / "sources/a", run.path / "sources/b"):
        (path / "text.txt").unlink()
    (run.path / "sources/a").rmdir()
    told = command("check", run.path, "--json")
    warnings = "\n".join(told.facts()["warnings"])
    assert "policy.toml differs from policy 1 in force" in warnings
    assert f"sources.a.path: {run.path}/sources/a is not there" in warnings
    assert f"sources.b.path: {run.path}/sources/b holds no file yet" in warnings


def test_check_warns_of_files_that_are_no_text_and_of_a_trainer_that_is_no_program(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", scripted())
    (run.path / "sources/a/part-0.txt.gz").write_bytes(b"\x1f\x8b")
    settings = run.path / "run.toml"
    python = tomllib.loads(settings.read_text())["trainer"]["command"][0]
    settings.write_text(settings.read_text().replace(f'"{python}"', '"pythn"', 1))
    told = command("check", run.path, "--json")
    [odd, program] = told.facts()["warnings"]
    assert told.code == 0
    assert f"sources.a.path: {run.path}/sources/a holds part-0.txt.gz, which is no text" in odd
    assert "trainer.command: pythn is not a program" in program


@pytest.mark.system
def test_run_with_wrong_settings_exits_2_with_one_line(supervise: Supervise) -> None:
    daemon = supervise(scripted(), settings="[train]\nstep = 1\nlr = 0\n")
    done = daemon.cli("run", "{run}")
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("cannot use ")
    assert "train.step: unknown key" in line
    assert "train.lr: 0" in line
    assert line.count("run.toml") == 1


@pytest.mark.system
def test_run_gives_up_with_exit_10_and_says_why(supervise: Supervise) -> None:
    daemon = supervise(scripted(exit_at=5), every=100, settings=IMPATIENT).start()
    assert daemon.wait() == 10
    assert "cannot go on: 3 attempts without progress" in daemon.output()
    told = command("status", daemon.run.path)
    assert told.code == 1
    assert "nothing runs, and nobody stopped it: gave up, 3 attempts without progress" in told.out
    assert f"stepkeeper logs {daemon.run.path}, mend the cause" in told.out


@pytest.mark.system
def test_run_refuses_with_exit_11_what_would_harm_the_run(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=200), every=100).start()
    daemon.until_seal(100)
    second = daemon.cli("run", "{run}")
    assert second.returncode == 11
    [line] = second.stderr.splitlines()
    assert line.startswith("cannot take ")
    assert f"pid {daemon.pid}" in line
    assert daemon.stop() == 0
    (daemon.run.path / "demo.loss.json").rename(daemon.run.path / "away")
    third = daemon.cli("run", "{run}")
    assert (third.returncode, third.stdout) == (11, "")
    [line] = third.stderr.splitlines()
    assert line.startswith("cannot open the ledger ")


@pytest.mark.system
def test_an_interrupt_stops_a_run_with_a_checkpoint_and_says_so(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=300, slow_save=0.5), every=1000).start()
    daemon.until_step(20)
    daemon.signal(signal.SIGINT)
    daemon.until(lambda: "stopping" in daemon.output(), "what the interrupt does")
    daemon.signal(signal.SIGINT)
    assert daemon.wait() == 0
    assert max(daemon.run.seals()) == daemon.run.last_step()
    assert "stopping, asked by SIGINT: the trainer saves" in daemon.output()
    assert "Traceback" not in daemon.output()
