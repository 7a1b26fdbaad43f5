"""``explain`` and ``pivot --plan`` on a run with a crash and a pivot, and on spoiled copies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.control import request
from tests.support.command import Told, command
from tests.support.daemon import Daemon
from tests.support.runs import Run, copy_of, make_run, policy_text, scripted

pytestmark = pytest.mark.system

BOUNDS: dict[str, dict[str, Any]] = {name: {"floor": 0.1} for name in ("a", "b", "c")}


def explained(run: Run, step: int) -> Told:
    return command("explain", run.path, "--step", step, "--json")


def phase_of(line: str) -> int:
    found = re.search(r'"report":"phase".*?"phase":(\d+)', line)
    return int(found[1]) if found else 0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """400 steps under two policies, with a crash; every step tells its draw. Not to be spoiled."""
    words = scripted(steps=400, every=100, rate=900, kill_at=150, attempts="1", tell_draws=True)
    folder = tmp_path_factory.mktemp("explained") / "run"
    daemon = Daemon(make_run(folder, words, every=100, arms=BOUNDS, algorithm="exp3s"))
    try:
        daemon.start().until_step(170)
        policy = policy_text(BOUNDS, "ucb1", "share")
        request(daemon.run.path, "pivot", {"policy": policy, "when": "boundary"}, 5.0)
        assert daemon.wait(40) == 0
        yield daemon.run
    finally:
        daemon.finish()


def test_every_step_is_explained_to_the_last_bit(run: Run) -> None:
    for step in range(1, 401, 13):
        told = explained(run, step)
        facts = told.facts()
        assert (told.code, facts["recomputed"]["result"]) == (0, "equal"), facts["recomputed"]
        assert facts["draw"]["holds"], step
        assert facts["draw"]["arm"] == facts["line"]["arm"]
        arm = next(arm for arm in facts["arms"] if arm["arm"] == facts["line"]["arm"])
        assert arm["share"] == arm["recorded"] == facts["propensity"]
    assert explained(run, 1).facts()["recomputed"]["from"] == "the beginning of policy 1"
    assert explained(run, 400).facts()["policy"]["algorithm"] == "ucb1"
    text = command("explain", run.path, "--step", 141)
    assert text.code == 0
    assert "recomputed: equal to the last bit, from " in text.out
    missing = command("explain", run.path, "--step", 401)
    assert missing.code == 2
    assert missing.complaint().endswith("the run has not done it; the last one is step 400")


def test_a_fold_that_lost_a_report_differs(run: Run, tmp_path: Path) -> None:
    decided = explained(run, 149).facts()["phase"]["decided_after_phase"]
    lost = copy_of(run, tmp_path / "lost")
    for seal in (lost.path / "checkpoints").glob("step_000100.seal.json"):
        seal.unlink()  # so that the fold begins where the policy did, and needs that report
    for path in lost.path.glob("attempts/*/reports.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if phase_of(line) != decided - 1))
    found = explained(lost, 149)
    assert (found.code, found.facts()["recomputed"]["result"]) == (1, "differs")
    assert f"the report of phase {decided - 1} is missing" in found.facts()["recomputed"]["why"]


def test_what_a_rewind_left_behind_is_not_explained(run: Run, tmp_path: Path) -> None:
    back = copy_of(run, tmp_path / "back")
    step = max(step for step in run.seals() if step < 400)
    rewound = command("rewind", back.path, "--step", step, "--yes")
    assert rewound.code == 0, rewound.err
    assert explained(back, step).code == 0
    told = explained(back, step + 1)
    assert told.code == 2
    assert "is voided: the run went back to an earlier step" in told.complaint()


def test_a_draw_that_was_changed_is_noticed(run: Run, tmp_path: Path) -> None:
    moved = copy_of(run, tmp_path / "moved")
    ledger = moved.path / "demo.loss.json"
    draw = json.loads(ledger.read_text().splitlines()[140])["draw"]
    ledger.write_text(ledger.read_text().replace(f'"draw":{draw!r}', '"draw":1.5'))
    found = explained(moved, 141)
    assert found.code == 1
    assert "the draw 1.5 is no number from 0 to 1" in found.facts()["recomputed"]["why"][0]
    assert not found.facts()["line"]["holds"]


def test_without_phases_nothing_can_be_told(run: Run, tmp_path: Path) -> None:
    foreign = copy_of(run, tmp_path / "foreign")
    for path in foreign.path.glob("attempts/*/reports.jsonl"):
        path.write_text(re.sub(r',"phase":\d+,"draw"', ',"draw"', path.read_text()))
    found = explained(foreign, 120)
    assert found.code == 2
    assert "its trainer reports no phases" in found.facts()["recomputed"]["why"][0]


def test_a_plan_tells_what_it_cannot_know_and_plans_the_rest(run: Run, tmp_path: Path) -> None:
    plan = command("pivot", run.path, "--cap", "a=0.3", "--plan", "--json").facts()
    assert (plan["problems"], plan["unknown"]) == ([], [])
    assert {row["class"] for row in plan["arms"]} == {"live"}
    assert sum(plan["shares"]["settled"].values()) == pytest.approx(1.0)
    assert plan["shares"]["settled"]["a"] <= 0.3 + 1e-12
    assert plan["cost"]["seconds"] > 0
    assert "phases could have pulled" in plan["reward"]["why"]
    broken = copy_of(run, tmp_path / "broken")
    (broken.path / "demo.state.json").write_text("{")
    for seal in (broken.path / "checkpoints").glob("*.seal.json"):
        seal.write_text("no seal")
    told = command("pivot", broken.path, "--cap", "a=0.3", "--plan")
    assert told.code == 0
    assert "cannot tell statistics of the arms: " in told.out
    assert "cannot tell where it would go on from: no checkpoint is sealed yet" in told.out
    assert told.out.endswith("nothing was changed\n")
