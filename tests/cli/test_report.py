"""``report``: one page of all a run's files say, whatever state they are in."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import report_page
from supervisor.core.smoothing import ema
from tests.support.command import command
from tests.support.made_run import make
from tests.support.rewriting import rewrite
from tests.support.runs import Run

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m&amp;"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("made") / "run")


@pytest.fixture
def run(made: Run, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(made.path, tmp_path / "run")))


class Page(HTMLParser):
    """What a browser would make of a page: its elements, its text, its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        self.close()
        assert self._inside == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def facts(run: Run, *words: object) -> dict[str, Any]:
    told = command("report", run.path, "--json", *words)
    assert (told.code, told.err) == (0, "")
    return told.facts()


def page(run: Run, target: Path, *words: object) -> Page:
    told = command("report", run.path, "-o", target, *words)
    assert (told.code, told.err) == (0, ""), told.err
    return Page(target.read_text("utf-8"))


def both(run: Run, target: Path, *words: object) -> tuple[Page, dict[str, Any]]:
    found = facts(run, "-o", target, *words)
    return Page(target.read_text("utf-8")), found


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
        "24 samples in 3 files, archived ones included: 22 good, 2 bad.",
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


def test_whatever_stands_in_the_files_is_text(run: Run, tmp_path: Path) -> None:
    path = run.path / "demo.samples.json"
    record = json.loads(path.read_text())
    for key in ("prompt", "text", "verdict"):
        record["samples"][-1][key] = HOSTILE
    record["samples"][-1]["scores"] = {HOSTILE: 1.0}
    path.write_text(json.dumps(record))

    def hostile(line: dict[str, Any]) -> None:
        if line.get("event") == "checkpoint-rejected":
            line["facts"]["problem"] = HOSTILE
        if line.get("step") == 2390:
            line["arm"] = HOSTILE

    rewrite(run.path / "events.jsonl", hostile)
    rewrite(run.path / "demo.loss.json", hostile)
    pins = run.path / "checkpoints/pins.json"
    pins.write_text(pins.read_text().replace("before the pivot", HOSTILE.replace("\x1b", "")))
    shown = page(run, tmp_path / "report.html", "--claim", 2390)
    assert [tag for tag, _ in shown.tags].count("script") == 2
    assert "img" not in [tag for tag, _ in shown.tags]
    assert shown.text.count("<script>alert(1)</script>") >= 5
    raw = (tmp_path / "report.html").read_text()
    assert "\u202e" not in raw
    assert "\x1b" not in raw


def _no_ledger(run: Path) -> None:
    (run / "demo.loss.json").unlink()


def _changed_line(run: Path) -> None:
    path = run / "demo.loss.json"
    lines = path.read_bytes().split(b"\n")
    lines[99] = lines[99].replace(b'"loss":', b'"loss":1')
    lines[199] = b"\0\0torn"
    path.write_bytes(b"\n".join(lines))


def _no_journal(run: Path) -> None:
    (run / "events.jsonl").unlink()


def _torn_samples(run: Path) -> None:
    path = run / "demo.samples.json"
    path.write_bytes(path.read_bytes()[:-300])


def _odd_samples(run: Path) -> None:
    path = run / "archive/samples-evicted.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step":"x"}\n[]\n{"st')


def _bad_attempt(run: Path) -> None:
    (run / "attempts/000002/attempt.json").write_text("{}")


def _bad_policy(run: Path) -> None:
    (run / "policies/0001.toml").write_text("= nothing")


def _bad_pins(run: Path) -> None:
    (run / "checkpoints/pins.json").write_text("[]")


def _bad_rejections(run: Path) -> None:
    (run / "checkpoints/rejected.json").write_text("[]")


def _bad_reports(run: Path) -> None:
    (run / "attempts/000001/reports.jsonl").write_bytes(b'{"report":"phase"}\n\xff\n' * 3)


def _no_settings(run: Path) -> None:
    (run / "run.toml").write_text("= nothing")


@pytest.mark.parametrize(
    ("spoil", "part", "words"),
    [
        (_no_ledger, "loss", "No such file"),
        (_changed_line, "", "demo.loss.json line 100"),
        (_no_journal, "events", "events.jsonl: No such file"),
        (_torn_samples, "samples", "demo.samples.json: "),
        (_odd_samples, "samples", "3 of 6 records are no samples"),
        (_bad_attempt, "attempts", "cannot read"),
        (_bad_policy, "policies", "policies/0001.toml: "),
        (_bad_pins, "checkpoints", "pins.json"),
        (_bad_rejections, "checkpoints", "rejected.json"),
        (_bad_reports, "", ""),
        (_no_settings, "audit", "cannot read"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_damaged_file_is_told_in_its_place_and_the_rest_goes_on(
    run: Run, tmp_path: Path, spoil: Callable[[Path], None], part: str, words: str
) -> None:
    spoil(run.path)
    shown, found = both(run, tmp_path / "report.html")
    assert words in shown.text
    assert (part in found["problems"]) is bool(part)
    assert not part or any(words in text for text in found["problems"][part])
    ids = [attributes.get("id") for tag, attributes in shown.tags if tag == "section"]
    assert len(ids) == 9
    assert found["policies"]
    assert found["checkpoints"]["rows"] or part == "checkpoints"
    assert found["samples"]


def test_what_names_a_line_behind_the_head_is_left_out(run: Run) -> None:
    path = run.path / "demo.loss.json"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:2213]) + b"\n")  # the ledger as it was at step 2200
    found = facts(run)
    assert found["loss"]["last_step"] == 2200
    assert max(sample["step"] for sample in found["samples"]) == 2200
    assert max(row["step"] for row in found["checkpoints"]["rows"]) == 2200
    assert found["audit"]["head_step"] == 2200


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


def test_a_run_without_any_history_has_a_page_too(run: Run, tmp_path: Path) -> None:
    for name in ("demo.loss.json", "events.jsonl", "demo.samples.json"):
        (run.path / name).unlink()
    for name in ("checkpoints", "attempts", "archive", "policies"):
        shutil.rmtree(run.path / name)
    shown = page(run, tmp_path / "report.html")
    assert "The run holds no step yet" in shown.text
    assert "Whether its history holds could not be determined." in shown.text


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
    assert not math.isnan(_contrast("#000000", "#ffffff"))
