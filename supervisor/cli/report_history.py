"""The sections of a report on what happened: attempts, policies, claims, audit, events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from supervisor.cli import printing
from supervisor.cli.report_html import DASH, Html, count, folded, plural, table, tag

_ROWS = 200
_EVENTS = 60
_SECONDS = (
    ("in_steps", "in steps that count"),
    ("starting", "starting, replaying, ending"),
    ("between", "between attempts"),
    ("waiting", "waiting"),
    ("voided", "steps taken back"),
)


def attempts(facts: dict[str, Any]) -> list[Html]:
    """Where the time went, and every life of the trainer."""
    found = facts["attempts"]
    if found is None or not found["attempts"]:
        return [tag("p", "No attempt has begun.", class_="empty")]
    summary = found["summary"]
    head = (
        *("attempt", "policy", "started", "ended", "cause"),
        *("steps", "proved equal", "in steps", "lost"),
    )
    rows = [_attempt(row) for row in found["attempts"][: -_ROWS - 1 : -1]]
    shown = table(head, rows, "Attempts", "nn---nnnn")
    left = len(found["attempts"]) - len(rows)
    note = tag("p", f"{left:,} older attempts are not listed.", class_="note") if left else None
    return [*_goodput(summary), shown, *([note] if note else [])]


def _goodput(summary: dict[str, Any]) -> list[Html]:
    share, wall = summary["goodput"], summary["wall"]
    if share is None:
        return [tag("p", "Goodput is unknown: no time has passed.", class_="empty")]
    seconds = summary["seconds"]
    parts = [
        tag("i", style=f"width:{100 * seconds[key] / wall:.3f}%", class_=f"part {key}")
        for key, _ in _SECONDS
        if seconds[key] > 0
    ]
    items = [
        tag(
            "li",
            tag("i", class_=f"key part {key}", aria_hidden="true"),
            f"{text}: {printing.duration(seconds[key])} ({seconds[key] / wall:.1%})",
        )
        for key, text in _SECONDS
    ]
    text = (
        f"Goodput {share:.1%}: {printing.duration(seconds['in_steps'])} in "
        f"{summary['canonical_steps']:,} canonical steps, of {printing.duration(wall)}."
    )
    if seconds["paused"] >= 1:
        text += f" Paused {printing.duration(seconds['paused'])}, which count as no loss."
    return [
        tag("p", text),
        tag("div", *parts, class_="stack", role="img", aria_label=text),
        tag("ul", *items, class_="legend"),
    ]


def _attempt(row: dict[str, Any]) -> tuple[object, ...]:
    steps = f"{row['resumed'] + 1:,}{DASH}{row['last']:,}" if row["last"] > row["resumed"] else DASH
    proved = f"{row['proved']:,} of {row['replayed']:,}" if row["replayed"] else DASH
    if row["consistent"]:
        proved += f", {row['consistent']:,} consistent"
    if row["differed"] is not None:
        proved += f", differed at {row['differed']:,}"
    return (
        row["attempt"],
        row["policy"],
        _moment(row["started"]),
        _moment(row["ended"]) if row["ended"] else "goes on",
        row["cause"] or DASH,
        steps,
        proved,
        printing.duration(row["seconds"]["in_steps"]),
        printing.duration(row["lost"]),
    )


def _moment(time: str) -> str:
    return f"{time[:10]} {time[11:19]}Z"


def policies(facts: dict[str, Any]) -> list[Html]:
    """Which policy was in force when, with its bounds."""
    if not facts["policies"]:
        return [tag("p", "No policy was in force yet.", class_="empty")]
    rows = []
    for policy in facts["policies"]:
        spans = [f"{first:,}{DASH}{last:,}" for first, last in policy["steps"]]
        rows.append(
            (
                policy["policy"],
                ", ".join(spans[:5]) + (" …" if spans[5:] else "") or "none that counts",
                policy["algorithm"] or DASH,
                policy["unit"],
                len(policy["arms"]),
                _moment(policy["since"]) if policy["since"] else DASH,
            )
        )
    head = ("policy", "steps that count", "algorithm", "unit", "arms", "first step recorded")
    newest = facts["policies"][-1]
    parts = [table(head, rows, "Policies", "n---n")]
    for policy in reversed(facts["policies"][-20:]):
        bounds = [
            (name, *(f"{arm[key]:g}" if key in arm else DASH for key in ("floor", "cap", "weight")))
            for name, arm in policy["arms"].items()
        ]
        settings = ", ".join(f"{key} = {value}" for key, value in policy["settings"].items())
        title = f"Policy {policy['policy']}: {plural(len(bounds), 'arm')} with their bounds"
        shown = table(("arm", "floor", "cap", "weight"), bounds, title, "-nnn")
        note = tag("p", settings, class_="note") if settings else None
        parts.append(folded(title, shown, note, open_=policy is newest))
    return parts


def claims(facts: dict[str, Any]) -> list[Html]:
    """Loss and average at asked steps, each with the line of the ledger that says so."""
    rows = facts["claims"]
    if not rows:
        return [tag("p", "No step is recorded to claim anything of.", class_="empty")]
    alpha = (facts["loss"] or {}).get("alpha", 0.0)
    head = (
        *("step", "why", "loss", f"EMA ({alpha:g})", "line", "verified"),
        *("policy", "attempt", "arm", "recorded", "chain"),
    )
    shown = table(head, [_claim(row) for row in rows], "Claims", "n-nnn-nn")
    text = (
        f"A loss stands as its line has it. The EMA is s ← s + {alpha:g} · (loss - s), over every"
        " line that counts, begun with the first loss; losses that are not finite leave it as it"
        " is. To check one: "
    )
    step = next((row["step"] for row in rows if row["line"] is not None), 1)
    command = f"stepkeeper loss RUN --step {step} --ema {alpha:g}"
    return [shown, tag("p", text, tag("code", command), class_="note")]


def _claim(row: dict[str, Any]) -> tuple[object, ...]:
    if row["line"] is None:
        return (f"{row['step']:,}", row["why"], "no line", *(DASH,) * 8)
    loss = f"{row['loss']} {row['nonfinite']}".strip()
    sure = tag("span", "yes" if row["verified"] else "no")
    kind = "good" if row["verified"] else "bad"
    return (
        f"{row['step']:,}",
        row["why"],
        loss,
        DASH if row["average"] is None else repr(row["average"]),
        f"{row['line']:,}",
        tag("span", sure, class_=f"pill {kind}"),
        row["policy"],
        row["attempt"],
        row["arm"],
        _moment(row["time"]),
        tag("code", row["chain"]),
    )


def audit(facts: dict[str, Any]) -> list[Html]:
    """What the audit says, as its command prints it, and the head that it holds for."""
    found = facts["audit"]
    if found["clean"] is None:
        text = "The audit could not be made, so nothing on this page is vouched for."
        return [tag("p", text, class_="empty")]
    parts = []
    if not found["clean"]:
        faults = [tag("li", fault) for fault in found["faults"][:50]]
        more = len(found["faults"]) - len(faults)
        faults += [tag("li", f"and {more:,} more")] if more else []
        parts.append(
            tag("div", tag("p", "What does not hold:"), tag("ul", *faults), class_="fault")
        )
    lines = (line.partition("  ") for line in found["words"] if not line.startswith("FAULT"))
    rows = [tag("div", tag("dt", name), tag("dd", text.strip())) for name, _, text in lines]
    parts.append(tag("dl", *rows, class_="words"))
    if found["head"]:
        where = f"the seal of step {found['head_step']:,}"
        command = f"stepkeeper audit RUN --head {found['head']}"
        lead = (
            f"It holds up to {where}. Keep this head where the run cannot reach; with it anybody"
            " can ask later whether the same history is still there: "
        )
        parts.append(tag("p", lead, tag("code", command), class_="note"))
    text = (
        "A digest says that something is unchanged, not who wrote it; and this page is only as"
        " good as who made it: whoever doubts it runs stepkeeper report again."
    )
    parts.append(tag("p", text, class_="note"))
    return parts


def events(facts: dict[str, Any]) -> list[Html]:
    """What happened in words: every alarm, and the newest of the rest."""
    found = facts["events"]
    if not found:
        return [tag("p", "No event is recorded.", class_="empty")]
    alarms = [event for event in found if event["alarm"]]
    parts = []
    if alarms:
        title = f"Alarms ({len(alarms):,})"
        parts.append(folded(title, _events(alarms, title), open_=len(alarms) <= 12))  # noqa: PLR2004 - a screenful
    title = f"The newest of {plural(len(found), 'event')}"
    parts.append(folded(title, _events(found[-_EVENTS:], title)))
    return parts


def _events(found: Sequence[dict[str, Any]], label: str) -> Html:
    rows = [
        (event["time"], count(event["step"]), "!" if event["alarm"] else "", event["words"])
        for event in found[: -_ROWS - 1 : -1]
    ]
    return table(("time", "step", "", "what happened"), rows, label, "-n")
