"""``report``: one page of all that a run's files say, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from supervisor.cli import report_page
from supervisor.core.smoothing import ema
from tests.support.command import command
from tests.support.reported import facts, page
from tests.support.runs import Run


def test_a_page_says_what_run_it_is_where_it_stands_and_whether_it_is_sound(
    made: Run, tmp_path: Path
) -> None:
    shown = page(made, tmp_path / "report.html")
    for words in (
        "The run stands at step 2,400 under policy 2.",
        "All of its history holds, up to the seal of step 2,400.",
        "Audit clean",
        "13 voided lines stand apart",
        "pivot: policy 2 from step 1401 on",
        "attempt 4 ended at step 1930: hung",
        "repo-docs",
        "Pinned and set aside (2)",
        "three attempts without progress",
        "24 samples in 3 files, archived ones included: 22 pass, 2 fail.",
    ):
        assert words in shown.text, words


def test_nothing_on_a_page_can_be_fetched_and_no_script_but_its_own_can_run(
    made: Run, tmp_path: Path
) -> None:
    shown = page(made, tmp_path / "report.html")
    [policy] = [a["content"] for t, a in shown.tags if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    for tag, attributes in shown.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "srcset", "action"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import", (tmp_path / "report.html").read_text())


def test_the_head_is_the_one_that_the_newest_seal_says(made: Run) -> None:
    head = made.events("sealed")[-1]["head"]
    audited = facts(made)["audit"]
    assert audited["head"] == head
    assert command("audit", made.path, "--head", head).code == 0
    assert audited["words"] == command("audit", made.path).out.splitlines()


def test_goodput_is_what_attempts_prints(made: Run) -> None:
    told = command("attempts", made.path, "--json").facts()
    found = facts(made)["attempts"]
    assert found == {key: told[key] for key in found}


def test_claims_are_what_loss_says_with_their_lines(made: Run) -> None:
    asked = facts(made, "--claim", 1210, "--claim", 7, "--claim", 9999, "--ema", 0.2)["claims"]
    assert [claim["step"] for claim in asked] == [7, 1210, 9999]
    assert asked[2]["line"] is None
    for claim in asked[:2]:
        told = command("loss", made.path, "--step", claim["step"], "--ema", 0.2, "--json").facts()
        assert claim["line"] == told["line"]
        assert float(claim["loss"]) == told["loss"]
        assert claim["average"] == told["ema"]["value"]
        assert (claim["chain"], claim["verified"]) == (told["chain"], told["holds"])


def test_without_asking_claims_are_of_pivots_the_lowest_average_and_the_end(made: Run) -> None:
    losses = [line["loss"] for line in made.canonical().values()]
    averages = [x for x in ema(losses, 0.05) if x is not None]
    lowest = averages.index(min(averages)) + 1
    found = facts(made)["claims"]
    assert {claim["step"] for claim in found} == {1400, 1401, lowest, 2400}
    assert all(claim["verified"] for claim in found)


def test_the_series_holds_the_extremes_and_both_ends_of_the_canonical_view(made: Run) -> None:
    view = made.canonical()
    known = {step: line["loss"] for step, line in view.items() if line["loss"] is not None}
    series = facts(made)["loss"]
    points = {int(step): value for step, value in series["points"]}
    assert {step: known[step] for step in points} == points
    assert min(points.values()) == min(known.values())
    assert max(points.values()) == max(known.values())
    assert (min(points), max(points)) == (1, 2400)
    [piece] = series["voided_drawn"]
    assert [step for step, _ in piece["points"]] == list(range(1203, 1216))
    assert series["nonfinite"]["newest"] == [{"step": 333, "line": 333, "word": "nan"}]


def test_drawn_and_ordered_shares_keep_to_the_bounds_of_their_policy(made: Run) -> None:
    found = facts(made)
    mix, policies = found["mix"], {p["policy"]: p["arms"] for p in found["policies"]}
    assert [p["steps"] for p in found["policies"]] == [[[1, 1400]], [[1401, 2400]]]
    for nth, window in enumerate(mix["windows"]):
        steps = window["last"] - window["first"] + 1
        for arm in mix["arms"]:
            bounds, ordered = policies[window["policy"]][arm], mix["ordered"][arm][nth]
            assert bounds["floor"] - 1e-9 <= ordered <= bounds["cap"] + 1e-9
            assert abs(mix["drawn"][arm][nth] - ordered) < 6 / steps
        assert sum(mix["drawn"][arm][nth] for arm in mix["arms"]) == pytest.approx(1)


def test_a_file_that_is_there_is_replaced_only_by_force(made: Run, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("mine")
    told = command("report", made.path, "-o", target)
    assert told.code == 2
    assert "it is there already; use --force" in told.complaint()
    assert target.read_text() == "mine"
    assert command("report", made.path, "-o", target, "--force").code == 0
    assert target.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_page_goes_beside_the_caller_under_the_runs_name(
    made: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = command("report", made.path)
    assert (told.code, told.out.split(":")[0]) == (0, str(tmp_path / "demo-report.html"))
    assert facts(made)["name"] == "demo"
    assert [path.name for path in tmp_path.iterdir()] == ["demo-report.html"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--ema", "0"), "alpha 0.0"),
        (("--ema", "nan"), "alpha nan"),
        (("--claim", "-1"), "claim"),
        (("-o", "/nowhere/at/all.html"), "there is no directory"),
        (("-o", "/"), "it is a directory"),
    ],
)
def test_wrong_use_is_refused_in_one_line(made: Run, words: tuple[str, ...], why: str) -> None:
    told = command("report", made.path, *words)
    assert (told.code, told.out) == (2, "")
    assert why in told.complaint()


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_has_enough_contrast_by_day_and_by_night() -> None:
    style = Path(report_page.__file__).with_name("report.css").read_text()
    light, dark, *_ = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    for block in (light, dark):
        colors = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        assert len(colors) > 14
        for ink in ("ink", "muted", "accent", "good", "warn", "bad", "violet"):
            for ground in ("page", "card", "sunken"):
                assert _contrast(colors[ink], colors[ground]) >= 4.5, (ink, ground)
        for ink in ("good", "warn", "bad", "accent"):
            assert _contrast(colors[ink], colors[f"{ink}-tint"]) >= 4.5, ink
        assert _contrast(colors["card"], colors["ink"]) >= 4.5
        for line in ("raw", "ema") if "ema" in colors else ("raw",):
            assert _contrast(colors[line], colors["card"]) >= 1.8
