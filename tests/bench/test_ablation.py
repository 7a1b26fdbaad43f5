"""The ablation reads recorded lives rightly and its table says what they say; nothing trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.config import load, read_policy
from supervisor.core.bandit import finish_phase, fresh
from tests.bench.ablation_life import STATIC, Life, Terms, read
from tests.bench.ablation_replay import decides_alike
from tests.bench.ablation_table import against_static, results, tabulated, verdict
from tests.bench.corpora import plain
from tests.support.runs import ROOT, Run
from trainer.contract.wire import ArmResult, Phase, format_report

ARMS = {
    arm: {"packages": {"some-text": "1.0"}, "files": 1, "bytes": size, "sha256": "ab" * 32}
    for arm, size in {"large": 4_000_000, "small": 60_000}.items()
}
TERMS = Terms(60, 4, {"large": 4_000_000, "small": 60_000}, "ab")


def life(large: float, small: float) -> dict[str, Any]:
    mean = (large + small) / 2
    return {
        "commit": "abcdef0123",
        "losses": {"large": large, "small": small},
        "means": [[30, mean + 1.0], [60, mean]],
        "served": {"large": 150, "small": 90},
        "epochs": {"large": 0.1, "small": 6.5},
        "attempts": 1,
    }


LIVES = [
    (STATIC, 1, life(2.0, 3.0)),
    (STATIC, 2, life(2.5, 3.5)),
    ("ucb1", 1, life(2.1, 3.2)),
    ("ucb1", 2, life(2.4, 3.9)),
    ("ducb", 1, life(1.9, 2.9)),
    ("ducb", 3, life(9.0, 9.0)),
]
MISSING = ["ducb, seed 2", "static, seed 3"]


def strict(text: str) -> dict[str, Any]:
    """Refuses NaN and Infinity, which are no JSON."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    record: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return record


def test_differences_are_paired_by_seed() -> None:
    against = results(LIVES, MISSING, TERMS, ARMS)["against_static"]
    assert list(against) == ["ucb1", "ducb"]
    assert against["ucb1"]["seeds"] == pytest.approx({"1": 0.15, "2": 0.15})
    assert against["ucb1"]["mean"] == pytest.approx(0.15)
    assert against["ucb1"]["arms"] == pytest.approx({"large": 0.0, "small": 0.3})
    assert against["ducb"]["seeds"] == pytest.approx({"1": -0.1})  # seed 3 has no static life
    assert against["ducb"]["over_time"] == pytest.approx({"30": -0.1, "60": -0.1})


def test_a_table_names_the_lives_that_are_missing() -> None:
    text = tabulated(results(LIVES, MISSING, TERMS, ARMS))
    assert [line for line in text.splitlines() if line.startswith("missing: ")] == [
        "missing: ducb, seed 2",
        "missing: static, seed 3",
    ]
    assert "ucb1: worse than static in all 2 seeds, by +0.1500 (+0.1500 to +0.1500)" in text


def test_an_evaluation_that_one_life_lacks_is_left_out_of_the_pair() -> None:
    cut = {**life(2.1, 3.2), "means": [[60, 2.65]]}
    lives = [(STATIC, 1, life(2.0, 3.0)), ("ucb1", 1, cut), ("ducb", 1, life(1.9, 2.9))]
    found = results(lives, [], TERMS, ARMS)
    assert found["against_static"]["ucb1"]["over_time"] == pytest.approx({"60": 0.15})
    block = tabulated(found).partition("by step\n")[2].splitlines()
    assert [row.split() for row in block[:3]] == [
        ["policy", "30", "60"],
        ["ucb1", "-", "+0.1500"],
        ["ducb", "-0.1000", "-0.1000"],
    ]


def test_a_policy_without_a_pair_is_in_the_table_and_not_compared() -> None:
    lives = [(STATIC, 1, life(2.0, 3.0)), ("ucb1", 2, life(2.0, 3.0))]
    found = results(lives, [], TERMS, ARMS)
    assert found["against_static"]["ucb1"]["mean"] is None
    assert "ucb1: cannot be compared" in tabulated(found)


def test_a_result_is_strict_json() -> None:
    found = results(LIVES, MISSING, TERMS, ARMS)
    assert strict(json.dumps(found, allow_nan=False))["lives"][0]["mean"] == 2.5


@pytest.mark.parametrize(
    ("seeds", "begins"),
    [
        ({"1": -0.2, "2": -0.1}, "better than static in all 2 seeds, by -0.1500 (-0.2000 to"),
        ({"1": 0.2, "2": 0.1}, "worse than static in all 2 seeds, by +0.1500 (+0.1000 to"),
        ({"1": 0.2, "2": -0.1}, "no difference that all 2 seeds agree on: +0.0500 (-0.1000 to"),
        ({"1": 0.2, "2": 0.0}, "no difference"),
        ({"1": -0.2}, "-0.2000 in its one seed, which shows nothing"),
    ],
)
def test_better_and_worse_are_said_only_where_every_seed_says_so(
    seeds: dict[str, float], begins: str
) -> None:
    assert verdict(seeds).startswith(begins)


def recorded(folder: Path, losses: dict[str, float | None]) -> Run:
    """A run directory that holds what is read of a finished life of 60 steps."""
    run = Run(folder)
    (folder / "checkpoints").mkdir()
    events = [
        {"event": "evaluation", "facts": {"step": 30, "losses": {"large": 4.0, "small": 5.0}}},
        {"event": "evaluation", "facts": {"step": 60, "losses": losses}},
    ]
    lines = [{"step": step, "arm": "large=3 small=1"} for step in range(1, 61)]
    for name, records in {"events.jsonl": events, "demo.loss.json": lines}.items():
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    cursors = {
        "large": {"epoch": 0, "position": 10, "documents": 100},
        "small": {"epoch": 6, "position": 1, "documents": 2},
    }
    (folder / "checkpoints/step_000060.json").write_text(json.dumps({"cursors": cursors}))
    return run


def test_a_finished_life_is_read_from_its_journal_and_ledger(tmp_path: Path) -> None:
    found = read(recorded(tmp_path, {"large": 2.0, "small": 3.0}), TERMS)
    assert found["losses"] == {"large": 2.0, "small": 3.0}
    assert found["means"] == [[30, 4.5], [60, 2.5]]
    assert found["served"] == {"large": 180, "small": 60}
    assert found["epochs"] == pytest.approx({"large": 0.1, "small": 6.5})


@pytest.mark.parametrize("losses", [{}, {"large": 2.0}, {"large": 2.0, "small": None}])
def test_a_life_without_its_last_losses_is_no_result(
    tmp_path: Path, losses: dict[str, float | None]
) -> None:
    with pytest.raises(ValueError, match="no evaluation of every arm"):
        read(recorded(tmp_path, losses), TERMS)


def prepared(folder: Path, policy: str) -> Life:
    """A life with its settings, its sources, and its policy in force, as a supervisor leaves it."""
    terms = TERMS._replace(arms={**TERMS.arms, "other": 3_000_000})
    for arm in terms.arms:
        (folder / "arms" / arm).mkdir(parents=True)
        (folder / "arms" / arm / "00000.txt").write_text(f"text of {arm}\n" * 100)
    life = Life(folder / "lives", policy, 1, terms)
    life.prepare()
    (life.run.path / "policies").mkdir()
    text = (life.run.path / "policy.toml").read_bytes()
    (life.run.path / "policies/0001.toml").write_bytes(text)
    return life


def test_lives_begin_with_settings_that_hold(tmp_path: Path) -> None:
    run = prepared(tmp_path, "ucb1").run.path
    config = load(run)
    path = run / "policy.toml"
    bounds = {
        arm.name: (arm.floor, arm.cap)
        for arm in read_policy(path.read_bytes(), 1, path, config, present=True).arms
    }
    assert bounds == {"large": (0.05, 0.5), "small": (0.05, 0.2), "other": (0.05, 0.5)}
    assert config.steps == 60


def test_a_life_that_the_present_code_would_mix_otherwise_is_no_good(tmp_path: Path) -> None:
    life = prepared(tmp_path, "ucb1")
    run = life.run.path
    policy = read_policy((run / "policy.toml").read_bytes(), 1, run, config := load(run))
    state = fresh(policy, config.live, config.seed + 1)
    lines, last = [], 0
    for number in range(1, 30):
        order = state.phases[0]
        done = tuple(
            ArmResult(arm, 9, 0, 5.0 - number / (10 if arm == "large" else 40))
            for arm, _ in order.weights
        )
        first, last = last + 1, last + order.steps
        phase = Phase(
            number,
            float(number),
            order.phase,
            first,
            last,
            repeated=False,
            weights=order.weights,
            arms=done,
        )
        lines.append(format_report("phase", number, float(number), **as_told(phase)))
        state = finish_phase(state, policy, phase)
    (run / "attempts/000001").mkdir(parents=True)
    reports = run / "attempts/000001/reports.jsonl"
    reports.write_bytes(b"".join(lines))
    assert decides_alike(run)
    assert not life.good()  # it has no record yet
    life.record.write_text("{}")
    assert life.good()
    kept = run / "policies/0001.toml"
    kept.write_text(kept.read_text().replace('"ucb1"', '"ucb1"\nfocus = 1'))
    assert not life.good()


def as_told(phase: Phase) -> dict[str, object]:
    """The fields of a phase as a trainer sends them."""
    arms = [
        {"arm": a.arm, "pulls": a.pulls, "failed": a.failed, "loss": a.loss} for a in phase.arms
    ]
    told = {"phase": phase.phase, "first": phase.first, "last": phase.last, "repeated": False}
    return {**told, "weights": dict(phase.weights), "arms": arms}


def test_the_kept_result_is_what_its_lives_say_and_what_the_page_tells() -> None:
    kept = strict((ROOT / "tests/bench/results/ablation.json").read_text())
    lives = [(one["policy"], one["seed"], one) for one in kept["lives"]]
    assert len({(policy, seed) for policy, seed, _ in lives}) == 15
    assert kept["missing"] == []
    page = (ROOT / "supervisor/README.md").read_text()
    for policy, told in kept["against_static"].items():
        assert json.loads(json.dumps(against_static(lives, policy))) == told
        figures = " | ".join(f"{value:+.4f}" for value in (*told["seeds"].values(), told["mean"]))
        assert f"| `{policy}` | {figures} |" in page
    text = (ROOT / "tests/bench/results/ablation.txt").read_text()
    assert text == f"$ {kept['command']}\n\n{tabulated(kept)}"


def test_groff_goes_and_words_stay() -> None:
    source = (
        '.\\" a comment\n.TH OPEN 2\n.SH NAME\nopen \\- open a file\n.PP\n'
        '.BI "int open(const char *" pathname ", int " flags );\n'
        "The\n.BR open ()\ncall \\fBopens\\fP it\\(em\\(aqnow\\(aq.\n.IP \\(bu 3\nlast\n"
    )
    assert plain(source) == (
        "NAME\nopen - open a file\n\nint open(const char *pathname, int flags);\n"
        "The\nopen()\ncall opens it'now'.\n\n\nlast\n"
    )
