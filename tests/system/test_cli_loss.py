"""``loss``: evidence for a step, summary, CSV and plot, all of the canonical view."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.rewriting import chained
from tests.support.runs import Run, make_run, scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def ema(values: list[float], alpha: float) -> float:
    smooth = values[0]
    for value in values[1:]:
        smooth += alpha * (value - smooth)
    return smooth


def test_the_loss_of_a_step_comes_with_its_evidence(rich: Run) -> None:
    view = rich.canonical()
    values = [view[step]["loss"] for step in range(1, 402)]
    told = command("loss", rich.path, "--step", 401, "--ema", 0.1, "--smma", 20, "--json")
    facts = told.facts()
    assert told.code == 0
    assert {name: facts[name] for name in view[401]} == view[401]
    assert (facts["policy"], facts["attempt"], facts["mark"][:5]) == (2, 6, "from:")
    lines = (rich.path / "demo.loss.json").read_text().splitlines()
    assert (facts["holds"], facts["voided_lines"]) == (True, [])
    assert lines[facts["line"] - 1] == facts["text"]
    assert facts["ema"]["value"] == ema(values, 0.1)
    assert {**facts["ema"], "value": 0} == {"value": 0, "alpha": 0.1, "from_step": 1, "losses": 401}
    assert facts["smma"]["value"] == pytest.approx(
        ema([sum(values[:20]) / 20, *values[20:]], 1 / 20)
    )
    text = command("loss", rich.path, "--step", 401, "--ema", 0.1).out
    for word in (view[401]["chain"], f"{facts['line']} of ", "alpha 0.1", "from:", "follows"):
        assert word in text
    assert re.search(rf"^loss +{view[401]['loss']}$", text, re.MULTILINE)


def test_the_evidence_names_lines_that_were_voided(simple: Run) -> None:
    path = simple.path / "demo.loss.json"
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    again = [line | {"attempt": 2, "loss": 0.5} for line in lines[199:]]
    path.write_bytes(chained([*lines, *again])[0])
    facts = command("loss", simple.path, "--step", 250, "--json").facts()
    assert (facts["loss"], facts["line"]) == (0.5, 351)
    assert (facts["holds"], facts["voided_lines"]) == (True, [250])
    first = command("loss", simple.path, "--step", 1, "--json").facts()
    assert (first["holds"], first["line"]) == (True, 1)


def test_the_evidence_does_not_stand_on_a_line_that_was_changed(simple: Run) -> None:
    path = simple.path / "demo.loss.json"
    lines = path.read_bytes().split(b"\n")
    lines[99] = lines[99].replace(b'"loss":', b'"loss":1')
    path.write_bytes(b"\n".join(lines))
    told = command("loss", simple.path, "--step", 100)
    assert told.code == 1
    assert "does NOT follow" in told.out
    assert "cannot vouch for line 100 of demo.loss.json" in told.complaint()
    assert command("loss", simple.path, "--step", 99).code == 0


def test_a_torn_piece_before_a_line_belongs_to_its_chain(simple: Run) -> None:
    path = simple.path / "demo.loss.json"
    lines = path.read_bytes().splitlines()
    last = json.loads(lines[-1])
    torn = b'{"step":301,"lo\n' + lines[4] + b"\n"
    body = json.dumps({**last, "step": 301}, separators=(",", ":")).encode().split(b',"chain"')[0]
    chain = sha256(last["chain"].encode() + torn + body).hexdigest()[:32].encode()
    path.write_bytes(path.read_bytes() + torn + body + b',"chain":"' + chain + b'"}\n')
    facts = command("loss", simple.path, "--step", 301, "--json").facts()
    assert (facts["holds"], facts["line"]) == (True, 303)


def test_a_step_that_is_not_there_is_no(rich: Run, tmp_path: Path) -> None:
    told = command("loss", rich.path, "--step", 5000)
    assert told.code == 1
    assert f"its last line is of step {rich.last_step()}" in told.complaint()
    fresh = make_run(tmp_path / "fresh", scripted())
    told = command("loss", fresh.path, "--step", 1)
    assert (told.code, "holds no step yet" in told.complaint()) == (2, True)


def test_csv_holds_every_canonical_step_exactly(rich: Run) -> None:
    told = command("loss", rich.path, "--csv", "--ema", "0.25", "--smma", "3")
    assert (told.code, told.err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(told.out)))
    view = rich.canonical()
    assert [int(row["step"]) for row in rows] == list(view)
    values: list[float] = []
    for row, line in zip(rows, view.values(), strict=True):
        assert float(row["loss"]) == line["loss"]
        assert (row["arm"], int(row["policy"])) == (line["arm"], line["policy"])
        values.append(line["loss"])
    assert float(rows[-1]["ema_0.25"]) == ema(values, 0.25)
    assert [row["smma_3"] for row in rows[:2]] == ["", ""]
    assert float(rows[2]["smma_3"]) == pytest.approx(sum(values[:3]) / 3)


def test_the_plot_marks_crashes_and_pivots(rich: Run) -> None:
    told = command("loss", rich.path, "--plot")
    assert (told.code, told.err) == (0, "")
    assert "T trainer killed (steps 250, 250, 250, 250)" in told.out
    assert "P pivot to policy 2 (step 401)" in told.out
    assert "EMA, alpha 0.05" in told.out
    assert "SMMA over 10" in command("loss", rich.path, "--plot", "--smma", "10").out


def test_the_summary_is_of_the_canonical_view(rich: Run) -> None:
    view = rich.canonical()
    values = [line["loss"] for line in view.values()]
    facts = command("loss", rich.path, "--json").facts()
    assert facts["steps"] == len(view)
    assert (facts["last_step"], facts["loss"]) == (max(view), values[-1])
    assert (facts["lowest"], facts["highest"]) == (min(values), max(values))
    assert view[facts["lowest_step"]]["loss"] == min(values)
    assert facts["mean"] == pytest.approx(sum(values) / len(values))
    assert facts["ema_0.05"] == ema(values, 0.05)
    assert "lowest" in command("loss", rich.path).out


def test_losses_that_are_not_finite_are_counted_and_bad_lines_named(simple: Run) -> None:
    path = simple.path / "demo.loss.json"
    lines = path.read_bytes().splitlines()
    nan = (
        lines[9]
        .replace(b'"loss":', b'"loss":null,"was":')
        .replace(b'"nonfinite":""', b'"nonfinite":"nan"')
    )
    text = lines[19].replace(b'"loss":', b'"loss":"x","was":')
    lines[9], lines[19] = nan, text
    path.write_bytes(b"\n".join([*lines[:29], *[b"\0torn"] * 12, *lines[29:]]) + b"\n")
    told = command("loss", simple.path, "--json")
    facts = told.facts()
    assert (told.code, facts["steps"], facts["not_finite"]) == (0, 299, 1)
    named = told.err.splitlines()
    assert "cannot read line 30 of demo.loss.json: torn or no ledger line" in named[0]
    assert named[-1] == "cannot read 3 more lines of demo.loss.json"
    assert len(named) == 11
    assert "1 losses are not finite" in command("loss", simple.path, "--plot").out


@pytest.mark.parametrize(
    "words",
    [
        ("--step", "1", "--csv"),
        ("--csv", "--plot"),
        ("--csv", "--json"),
        ("--plot", "--ema", "0.1", "--smma", "5"),
        ("--ema", "0"),
        ("--ema", "nan"),
        ("--smma", "0"),
        ("--step", "-1"),
    ],
    ids=" ".join,
)
def test_wrong_use_is_refused_in_one_line(plain: Run, words: tuple[str, ...]) -> None:
    told = command("loss", plain.path, *words)
    assert (told.code, told.out) == (2, "")
    assert told.complaint()


def test_every_reader_works_while_the_run_goes_on(supervise: Supervise) -> None:
    daemon = supervise(scripted(rate=500), every=50).start()
    daemon.until_step(60)
    for words in (
        ["tail"],
        ["loss"],
        ["loss", "--step", "50"],
        ["loss", "--plot"],
        ["loss", "--csv"],
    ):
        told = command(words[0], daemon.run.path, *words[1:])
        assert (told.code, told.err) == (0, ""), words
    assert daemon.stop() == 0
