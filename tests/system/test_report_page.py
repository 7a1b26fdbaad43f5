"""A report in a real browser: it draws, fits, complains of nothing and asks the network nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, find
from tests.support.command import command
from tests.support.made_run import make
from tests.support.runs import Run

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

INSTALL_SECONDS = 300.0
ROWS = "[...document.querySelectorAll('{} tbody tr')].map(row => row.innerText)"
# Of the first element that a selector finds: its box, and the highest and lowest point drawn.
DRAWN = """(() => {{ const path = document.querySelector('{}'), box = path.getBBox();
return [box.width, box.height, getComputedStyle(path).stroke] }})()"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("made") / "run")


@pytest.fixture(scope="module")
def page(made: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("page") / "report.html"
    assert command("report", made.path, "-o", target).code == 0
    return target


@pytest.fixture(scope="session")
def chromium() -> str:
    program, why = find(INSTALL_SECONDS)
    if not program:
        pytest.skip(f"CANNOT LOOK AT THE PAGE: {why}")
    return program


@pytest.fixture(scope="module")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(chromium, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("width", "scheme"), [(1200, "light"), (1200, "dark"), (360, "light"), (360, "dark")]
)
def test_a_page_draws_itself_fits_and_asks_nobody(
    browser: Browser, page: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    browser.open(page, width, scheme=scheme)
    assert browser.value("document.title") == "demo \N{EN DASH} Stepkeeper report"
    assert browser.value("document.documentElement.scrollWidth") == width
    browser.value("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert browser.value("document.documentElement.scrollWidth") == width
    for selector in (".all path.raw", ".all path.ema", "#mix path.drawn", "#samples path.good"):
        wide, high, _ = browser.value(DRAWN.format(selector))
        assert wide > 900, selector
        assert high > 10, selector
    stroke = browser.value(DRAWN.format(".all path.ema"))[2]
    assert stroke == ("rgb(36, 80, 178)" if scheme == "light" else "rgb(147, 180, 255)")
    picture = browser.picture(tmp_path / f"{scheme}-{width}.png")
    wide, high = struct.unpack(">II", picture[16:24])
    assert (wide, high > 2000) == (width, True)
    assert len(picture) > 50_000  # an empty page of that size takes a tenth of it
    assert (browser.complaints, browser.requests) == ([], [])


def test_tables_hold_what_the_run_does(browser: Browser, page: Path, made: Run) -> None:
    browser.open(page, 1200)
    told = command("report", made.path, "--json").facts()
    claims = [row.split("\t") for row in browser.value(ROWS.format("#claims"))]
    assert [(row[0], row[2], row[4]) for row in claims] == [
        (f"{c['step']:,}", c["loss"], f"{c['line']:,}") for c in told["claims"]
    ]
    assert len(browser.value(ROWS.format("#attempts"))) == len(made.attempts())
    assert len(browser.value(ROWS.format("#checkpoints"))) == len(told["checkpoints"]["rows"])


def test_the_values_are_read_out_by_keys_alone(browser: Browser, page: Path) -> None:
    browser.open(page, 360)
    browser.value("document.querySelector('[data-chart=all]').focus()")
    browser.press("End")
    said = browser.value("document.querySelector('.readout').innerText")
    assert said.startswith("Step 2,400: loss ")
    browser.press("ArrowLeft")
    again = browser.value("document.querySelector('.readout').innerText")
    assert again.startswith("Step 2,39")
    browser.value("document.querySelector('.mark.pivot').focus()")
    style = "getComputedStyle(document.querySelector('.mark.pivot .tip')).display"
    assert browser.value(style) == "block"
    assert browser.value("document.documentElement.scrollWidth") == 360
    assert browser.complaints == []


def test_the_policy_of_the_page_stops_what_would_ask_the_network(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    text = page.read_text("utf-8").replace(
        "<body>", "<body><img src='http://127.0.0.1:9/x'><script>document.title='mine'</script>"
    )
    spoiled = tmp_path / "spoiled.html"
    spoiled.write_text(text, "utf-8")
    browser.open(spoiled, 1200)
    assert browser.value("document.title") == "demo \N{EN DASH} Stepkeeper report"
    refused = [said for said in browser.complaints if "Content Security Policy" in said]
    assert len(refused) == 2
    assert any("http://127.0.0.1:9/x" in said for said in refused)
