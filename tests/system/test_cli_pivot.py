"""``pivot`` as a command: planned, waited for, withdrawn, and left for the next start."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.policy_text import emit, override
from supervisor.config import ArmBounds, PolicyFile, parse_policy
from supervisor.errors import UsageError
from tests.support.command import command, program
from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run, policy_text, scripted

Supervise = Callable[..., Daemon]


def policies(run: Run) -> list[str]:
    return sorted(path.name for path in (run.path / "policies").glob("*.toml"))


# ---------------------------------------------------------------- the policy's text

SHARES = st.floats(0, 1, allow_subnormal=True)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,10}", fullmatch=True)
FILES = st.builds(
    PolicyFile,
    schema=st.just("stepkeeper.policy/2"),
    algorithm=st.sampled_from(["static", "ucb1", "exp3s", "ducb", "thompson"]),
    unit=st.sampled_from(["share", "weight"]),
    phase_min=st.integers(1, 10**6),
    exploration=st.none() | st.floats(0, 1e300),
    curriculum_warmup_sources=st.sampled_from([(), ("a", "b.c")]),
    arms=st.dictionaries(
        NAMES,
        st.builds(ArmBounds, floor=SHARES, cap=SHARES, weight=st.floats(0, 1e9, exclude_min=True)),
        min_size=1,
        max_size=4,
    ),
)


@given(file=FILES)
def test_a_policy_reads_back_as_it_was_written(file: PolicyFile) -> None:
    assert parse_policy(emit(file).encode(), "here") == file


def test_an_override_changes_its_bound_and_nothing_else() -> None:
    text = policy_text(("a", "b.c"), "ucb1", "share").replace("ucb1", "static") + "weight = 3.0\n"
    before = parse_policy(text.encode(), "here")
    after = parse_policy(override(text, ["b.c=0.25"], ["a=0.5", "b.c=0.75"]).encode(), "here")
    assert after.arms["a"] == before.arms["a"].model_copy(update={"cap": 0.5})
    assert after.arms["b.c"] == ArmBounds(floor=0.25, cap=0.75, weight=3.0)
    assert after.model_copy(update={"arms": before.arms}) == before


@pytest.mark.parametrize("word", ["a", "a=", "a=x", "a=-1", "a=nan", "a=inf", "z=0.5", "=0.5"])
def test_an_override_that_makes_no_sense_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"^cannot "):
        override(policy_text(("a", "b"), "ucb1", "share"), [], [word])


# ---------------------------------------------------------------- with a supervisor


@pytest.mark.system
def test_a_plan_shows_bounds_boundary_and_problems_and_changes_nothing(
    supervise: Supervise, tmp_path: Path
) -> None:
    daemon = supervise(scripted(every=1000, rate=50), every=1000, arms=("a", "b", "c")).start()
    daemon.until_step(30)
    run = daemon.run
    new = tmp_path / "new.toml"
    new.write_text(policy_text({"a": {"cap": 0.5}, "c": {}}, "ucb1", "share"))
    told = command("pivot", run.path, "--policy", new, "--plan", "--json")
    facts = told.facts()
    assert (told.code, facts["problems"], facts["before"], facts["after"]) == (0, [], 1, 2)
    changes = {row["arm"]: row["change"] for row in facts["arms"]}
    assert changes == {"a": "changes", "c": "stays", "b": "leaves"}
    bounds = next(row for row in facts["arms"] if row["arm"] == "a")
    assert (bounds["before"]["cap"], bounds["after"]["cap"]) == (1.0, 0.5)
    assert facts["settings"] == {"algorithm": ["static", "ucb1"]}
    where = facts["boundary"]
    assert where["step"] == 1000
    assert 0 < where["steps"] < 1000
    assert where["seconds"] == pytest.approx(where["steps"] / 50, rel=0.5)
    text = command("pivot", run.path, "--policy", new, "--plan")
    assert text.code == 0
    assert "at the checkpoint of step 1000" in text.out
    assert text.out.endswith("nothing was changed\n")
    bad = command("pivot", run.path, "--cap", "a=0.1", "--cap", "b=0.1", "--cap", "c=0.1", "--plan")
    assert bad.code == 1
    assert "refused: the new policy: arms: the caps sum to 0.3" in bad.out
    worse = tmp_path / "worse.toml"
    worse.write_text(policy_text({"a": {"cap": -1}, "zz": {"floor": "2"}}, "ucb9", "share"))
    problems = command("pivot", run.path, "--policy", worse, "--plan", "--json").facts()["problems"]
    assert len(problems) == 2
    assert command("pivot", run.path, "--reset", "--plan").code == 0
    refused = command("pivot", run.path, "--policy", worse)
    assert refused.code == 2
    complaint = refused.complaint()
    assert complaint.count("the new policy") == 1
    assert all(problem.removeprefix("the new policy: ") in complaint for problem in problems)
    assert policies(run) == ["0001.toml"]
    assert run.read("pivot.json") is None
    assert daemon.stop() == 0


@pytest.mark.system
def test_a_pivot_is_waited_for_until_its_first_step_is_durable(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=200), every=100).start()
    daemon.until_step(30)
    run = daemon.run
    told = command("pivot", run.path, "--cap", "a=0.8", "--floor", "b=0.1")
    assert (told.code, told.err) == (0, "")
    stages = [line.split()[0] for line in told.out.splitlines()]
    assert stages[0] == "requested"
    assert [line for line in told.out.splitlines() if line.startswith("done: step ")]
    pin = run.events("pivot-done")[0]["pin"]
    assert pin % 100 == 0
    assert run.canonical()[pin + 1]["policy"] == 2
    kept = parse_policy((run.path / "policies/0002.toml").read_bytes(), "0002")
    assert (kept.arms["a"].cap, kept.arms["b"].floor) == (0.8, 0.1)
    again = command("pivot", run.path, "--policy", run.path / "policy.toml")
    assert again.code == 1
    assert "the same as policy 2 in force" in again.complaint()
    facts = command("pivot", run.path, "--reset", "--when", "now", "--json").facts()
    assert (facts["policy"], facts["stage"], facts["first_step"]) == (3, "done", facts["pin"] + 1)
    assert json.loads(Path(facts["certificate"]).read_text())["policy_after"] == 3
    assert daemon.stop() == 0


@pytest.mark.system
def test_a_pivot_can_be_left_alone_and_withdrawn(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=10_000, rate=200), every=10_000).start()
    daemon.until_step(30)
    run = daemon.run
    assert command("pivot", run.path, "--cancel").code == 1
    asked = command("pivot", run.path, "--cap", "a=0.7", "--no-wait", "--json").facts()
    assert (asked["policy"], asked["stage"]) == (2, "requested")
    status = command("status", run.path)
    assert "pivot to 2 requested, asked at step" in status.out
    refused = command("save", run.path)
    assert refused.code == 1
    assert "a pivot is under way" in refused.complaint()
    assert command("pivot", run.path, "--cancel", "--json").facts() == {"cancelled": 2}
    assert run.read("pivot.json") is None
    last = run.last_step()
    daemon.until_step(last + 20)
    assert daemon.stop() == 0
    assert policies(run) == ["0001.toml"]


@pytest.mark.system
def test_whoever_waits_is_told_of_a_cancel_and_of_an_interrupt(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=10_000, rate=200), every=10_000).start()
    daemon.until_step(30)
    run = daemon.run
    for end in ("cancel", "interrupt"):
        process = subprocess.Popen(
            program("pivot", run.path, "--cap", "a=0.7"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("requested at step")
            if end == "cancel":
                assert command("pivot", run.path, "--cancel").code == 0
            else:
                process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
            process.wait(10)
        assert process.returncode == (1 if end == "cancel" else 2)
        said = "was cancelled" if end == "cancel" else "interrupted; the request stands"
        assert said in err
    assert run.read("pivot.json") is not None
    assert daemon.stop() == 0


# ---------------------------------------------------------------- without one


@pytest.mark.system
def test_a_pivot_of_a_run_at_rest_happens_before_the_next_step(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=200), every=100).start()
    daemon.until_seal(100)
    assert daemon.stop() == 0
    run, last = daemon.run, daemon.run.last_step()
    told = command("pivot", run.path, "--cap", "a=0.7")
    assert (told.code, told.err) == (0, "")
    assert "takes effect at its next start" in told.out
    assert command("pivot", run.path, "--reset").code == 1
    assert command("pivot", run.path, "--cancel", "--json").facts() == {"cancelled": 2}
    assert command("pivot", run.path, "--cap", "a=0.6", "--json").facts()["asked_step"] == last
    daemon.start()
    daemon.until(lambda: run.events("pivot-done"), "the pivot's end")
    assert daemon.stop() == 0
    policy_of = {step: line["policy"] for step, line in run.canonical().items()}
    assert (policy_of[last], policy_of[last + 1]) == (1, 2)
    assert [event["pin"] for event in run.events("pivot-done")] == [last]
    assert len(run.events("pivot-cancelled")) == 1


@pytest.mark.system
def test_a_pivot_of_a_trainer_alone_is_done_by_the_next_supervisor(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=200), every=100).start()
    daemon.until_step(30)
    daemon.kill()
    run = daemon.run
    asked = command("pivot", run.path, "--cap", "a=0.7", "--json").facts()["asked_step"]
    assert asked >= 30
    daemon.start()
    daemon.until(lambda: run.events("pivot-done"), "the pivot's end")
    assert daemon.stop() == 0
    pin = run.events("pivot-done")[0]["pin"]
    assert pin >= asked
    assert pin % 100 == 0
    steps = [line["step"] for line in run.ledger()]
    assert steps == list(range(1, steps[-1] + 1))


def test_a_run_that_never_started_has_no_policy_to_leave(supervise: Supervise) -> None:
    run = supervise(scripted()).run
    told = command("pivot", run.path, "--reset")
    assert told.code == 1
    assert "it has never started" in told.complaint()
    assert run.read("pivot.json") is None
