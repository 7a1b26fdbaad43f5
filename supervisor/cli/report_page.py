"""The page of a report: its head, its sections in order, and the one file that holds all of it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from supervisor.cli import printing
from supervisor.cli.report_history import attempts, audit, claims, events, policies
from supervisor.cli.report_html import DASH, Html, count, data, plural, tag
from supervisor.cli.report_kept import checkpoints, samples
from supervisor.cli.report_training import loss, mix

_HERE = Path(__file__)
_SOUND = {True: "good", False: "bad", None: "warn"}
_VERDICTS = {
    True: "Audit clean",
    False: "Audit found faults",
    None: "Audit could not be made",
}
_AT_ONCE = (
    "The journal was read first, then the ledger up to one line; what names a later line is left"
    " out."
)
_WELL = ("finished", "stopped", "supervised", "running", "released", "held")


def page(facts: dict[str, Any]) -> bytes:
    """The whole file."""
    style = _HERE.with_name("report.css").read_text("utf-8")
    script = _HERE.with_name("report.js").read_text("utf-8")
    digest = base64.b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    # Nothing is fetched, and no script runs but the one whose digest stands here.
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"{facts['name']} {DASH} Stepkeeper report"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the loss", href="#loss", class_="skip"),
        _header(facts),
        tag("main", *_sections(facts)),
        _footer(facts),
        data("chart-data", _chart_data(facts)),
        tag("script", Html(script)),
    )
    text = f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"
    return text.encode("utf-8")


def _sections(facts: dict[str, Any]) -> list[Html]:
    parts = (
        ("loss", "Loss", loss),
        ("mix", "Data mix", mix),
        ("samples", "Coherence", samples),
        ("checkpoints", "Checkpoints", checkpoints),
        ("attempts", "Attempts and goodput", attempts),
        ("policies", "Policies", policies),
        ("claims", "Claims", claims),
        ("audit", "Audit", audit),
        ("events", "Events", events),
    )
    return [
        tag(
            "section",
            tag("h2", title, id=f"{name}-title"),
            _problems(facts["problems"].get(name, ())),
            *draw(facts),
            id=name,
            class_="card",
            aria_labelledby=f"{name}-title",
        )
        for name, title, draw in parts
    ]


def _problems(texts: Sequence[str]) -> Html | None:
    """What could not be read, in its place."""
    if not texts:
        return None
    items = [tag("li", text) for text in texts[:20]]
    if len(texts) > len(items):
        items.append(tag("li", f"and {len(texts) - len(items):,} more"))
    lead = tag("p", "Not all of this could be read; what is below is the rest.")
    return tag("div", lead, tag("ul", *items), class_="problem", role="note")


def _header(facts: dict[str, Any]) -> Html:
    state, clean = facts["state"]["state"], facts["audit"]["clean"]
    well = any(state.startswith(word) for word in _WELL)
    pills = [
        tag("span", _VERDICTS[clean], class_=f"pill {_SOUND[clean]}"),
        tag("span", state, class_=f"pill {'plain' if well else 'warn'}"),
    ]
    alarms = [tag("li", alarm) for alarm in facts["state"]["alarms"]]
    return tag(
        "header",
        tag("p", "Stepkeeper report", class_="eyebrow"),
        tag("h1", facts["name"]),
        tag("p", *pills, class_="pills"),
        tag("p", _sentence(facts), class_="lead"),
        tag("ul", *alarms, class_="problem") if alarms else None,
        _problems(facts["problems"].get("state", ())),
        tag("div", *_cards(facts), class_="cards"),
        _contents(),
        class_="top",
    )


def _contents() -> Html:
    names = ("loss", "mix", "samples", "checkpoints", "attempts", "policies", "claims", "audit")
    titles = {"mix": "Data mix", "samples": "Coherence"}
    links = [tag("a", titles.get(n, n.capitalize()), href=f"#{n}") for n in (*names, "events")]
    return tag("nav", *links, aria_label="Sections")


def _sentence(facts: dict[str, Any]) -> str:
    """What run this is, where it stands, and whether it is sound."""
    series, audited = facts["loss"] or {}, facts["audit"]
    last = series.get("last_step")
    where = "holds no step yet" if last is None else f"stands at step {last:,}"
    if last is not None and facts["target"]:
        where += f" of {facts['target']:,}"
    held = facts["policies"][-1]["policy"] if facts["policies"] else None
    under = f" under policy {held}" if held else ""
    if audited["clean"] is None:
        sound = "Whether its history holds could not be determined."
    elif not audited["clean"]:
        sound = f"Its history does not hold: {plural(len(audited['faults']), 'fault')}."
    elif audited["head"]:
        sound = f"All of its history holds, up to the seal of step {audited['head_step']:,}."
    else:
        sound = "All of its history holds; nothing is sealed yet."
    return f"The run {where}{under}. {sound}"


def _cards(facts: dict[str, Any]) -> list[Html]:
    series = facts["loss"] or {}
    average = series.get("last_average")
    tried = facts["attempts"] or {"attempts": [], "summary": {}}
    share = tried["summary"].get("goodput")
    ended = [mark for mark in facts["marks"] if mark["kind"] == "crash"]
    return [
        _card("Last step", count(series.get("last_step")), _progress(facts)),
        _card(
            "Loss (EMA)",
            count(average, 4),
            f"raw {count(series.get('last_loss'), 4)}, alpha {series.get('alpha', 0):g}",
        ),
        _card("Goodput", DASH if share is None else f"{share:.1%}", _lost(tried["summary"])),
        _card("Attempts", count(len(tried["attempts"])), plural(len(ended), "unwanted end")),
        _checkpoint_card(facts),
        _sample_card(facts),
    ]


def _card(title: str, value: str, below: str, kind: str = "") -> Html:
    return tag(
        "div",
        tag("span", title, class_="name"),
        tag("strong", value, class_=kind or None),
        tag("span", below, class_="below"),
        class_="fact",
    )


def _progress(facts: dict[str, Any]) -> str:
    series, target = facts["loss"] or {}, facts["target"]
    if target and series.get("last_step"):
        return f"{series['last_step'] / target:.1%} of {target:,}"
    return plural(series.get("voided", 0), "voided line")


def _lost(summary: dict[str, Any]) -> str:
    return f"{printing.duration(summary['lost'])} lost" if "lost" in summary else "unknown"


def _checkpoint_card(facts: dict[str, Any]) -> Html:
    rows = facts["checkpoints"]["rows"]
    sealed = [row for row in rows if row["state"] == "sealed"]
    doubtful = [r for r in rows if r["state"] in ("rejected", "refused", "quarantined")]
    newest = f"{sealed[0]['step']:,}" if sealed else "none"
    below = f"{len(sealed):,} sealed"
    return _card(
        "Newest seal", newest, below + (f", {len(doubtful)} set aside" if doubtful else "")
    )


def _sample_card(facts: dict[str, Any]) -> Html:
    judged = [sample for sample in facts["samples"] if sample["verdict"]]
    if not judged:
        return _card("Last verdict", DASH, plural(len(facts["samples"]), "sample"))
    last = judged[-1]
    return _card("Last verdict", last["verdict"], f"sample of step {last['step']:,}")


def _footer(facts: dict[str, Any]) -> Html:
    audited = facts["audit"]
    words = [
        f"Written {facts['written']} from {facts['run']}.",
        _AT_ONCE,
    ]
    rows = []
    if audited["ledger"]:
        rows.append(tag("div", tag("dt", "Ledger"), tag("dd", tag("code", audited["ledger"]))))
    if audited["head"]:
        rows.append(tag("div", tag("dt", "Head"), tag("dd", tag("code", audited["head"]))))
    return tag("footer", *(tag("p", text) for text in words), tag("dl", *rows))


def _chart_data(facts: dict[str, Any]) -> dict[str, Any]:
    """What the script needs to read a chart out: steps, averages and lines."""
    series = facts["loss"] or {}
    return {
        "all": series.get("averages", []),
        "newest": series.get("newest_averages", []),
    }
