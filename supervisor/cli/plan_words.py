"""The words of a plan: its facts as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from supervisor.cli.printing import change, duration, plain, table


def lines(facts: dict[str, Any]) -> Iterator[str]:
    """Arms and settings old and new, then what is expected of it, and what it costs."""
    if "arms" in facts:
        yield from _arms(facts)
        yield from _settings(facts)
        yield from _shares(facts)
        yield from _prices(facts)
        yield from _epochs(facts)
        yield from _reward(facts)
    yield f"when: {facts['boundary']['text']}"
    yield from _cost(facts)
    yield "reset: bandit state, phases, samples; kept: weights, moments, ledger"
    for one in facts["not_in_force"]:
        yield f"run.toml is edited and not in force (stepkeeper reload): {change(one)}"
    yield from (f"cannot tell {plain(what)}" for what in facts["unknown"])
    yield from (f"refused: {problem}" for problem in facts["problems"])
    yield "nothing was changed"


def _arms(facts: dict[str, Any]) -> Iterator[str]:
    shares = facts.get("shares") or {"first": {}, "settled": {}}
    head = ["arm", "", "is", f"policy {facts['before']}", f"policy {facts['after']}"]
    head += ["first", "settles"]
    rows = [
        [
            plain(row["arm"]),
            row["change"],
            row["class"] or "-",
            _bounds(row["before"]),
            _bounds(row["after"]),
            _share(shares["first"].get(row["arm"])),
            _share(shares["settled"].get(row["arm"])),
        ]
        for row in facts["arms"]
    ]
    yield table(head, rows)


def _bounds(bounds: dict[str, float] | None) -> str:
    return "-" if bounds is None else f"{bounds['floor']:g} to {bounds['cap']:g}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _settings(facts: dict[str, Any]) -> Iterator[str]:
    for key, (old, new) in facts["settings"].items():
        yield f"{key}: {_value(old)} -> {_value(new)}"
    for row in facts["arms"]:
        before, after = row["before"] or {}, row["after"] or {}
        for key in ("weight", "target"):
            if before and after and before[key] != after[key]:
                yield f"{plain(row['arm'])}.{key}: {before[key]} -> {after[key]}"


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _shares(facts: dict[str, Any]) -> Iterator[str]:
    shares = facts["shares"]
    if shares is None:
        return
    yield (
        "first: what it orders from an empty bandit; settles: where that comes to if every arm "
        "goes on earning what it has earned"
    )
    if shares["assumed"]:
        names = ", ".join(map(plain, shares["assumed"]))
        yield f"no reward is known of {names}: taken to be in the middle, 0.5"


def _prices(facts: dict[str, Any]) -> Iterator[str]:
    bounds = facts["bounds"]
    if bounds is None:
        if facts["shares"] is not None:
            yield "bounds of weights have no price of their own"
        return
    for name, held in bounds["binding"].items():
        price = held["price"]
        words = "its price is not known" if price is None else _price(held["bound"], price)
        yield f"binds: the {held['bound']} of {plain(name)}: {words}"
    yield (
        f"floors cost {bounds['floor_tax']:.4f} and caps {bounds['cap_tax']:.4f} of reward per "
        "step, at the least"
    )


def _price(bound: str, price: float) -> str:
    way = "lower" if bound == "floor" else "higher"
    return f"0.01 {way} would change the reward per step by {0.01 * price:+.5f}"


def _epochs(facts: dict[str, Any]) -> Iterator[str]:
    epochs = facts["epochs"]
    if epochs is None:
        yield "epochs: not known; the trainer has reported none yet"
        return
    for reading in epochs["sources"]:
        name, end = plain(reading["arm"]), reading["at_end"]
        if end is None:
            yield f"epochs of {name}: {reading['so_far']:.2f} so far, not known to the end"
            continue
        much = f", more than {epochs['limit']:g}" if end > epochs["limit"] else ""
        yield (
            f"epochs of {name}: {reading['so_far']:.2f} so far, {end:.2f} by step "
            f"{epochs['end']}{much}"
        )


def _reward(facts: dict[str, Any]) -> Iterator[str]:
    reward = facts["reward"]
    if reward is None:
        return
    if reward["estimate"] is None:
        yield f"reward of the settled mix: cannot be estimated: {plain(reward['why'])}"
        return
    yield (
        f"reward of the settled mix ({reward['kind']}, 0 to 1, self-normalised): "
        f"{reward['estimate']:.4f}, 95 % from {reward['low']:.4f} to {reward['high']:.4f}; so far "
        f"{reward['now']:.4f}"
    )
    yield (
        f"from {reward['phases']} of {reward['phases_known']} phases, whose {reward['pulls']} "
        f"pulls are worth {reward['effective']:.0f} of that mix"
    )


def _cost(facts: dict[str, Any]) -> Iterator[str]:
    cost = facts.get("cost")
    if cost is None:
        return
    if cost["seconds"] is None:
        yield "cost: not known; no save and no start was measured yet"
        return
    parts = [
        f"{word} {duration(cost[key])}"
        for key, word in (("save", "its save"), ("start", "start to first step"))
        if cost[key] is not None
    ]
    yield f"cost: about {duration(cost['seconds'])} without a step ({', '.join(parts)})"
