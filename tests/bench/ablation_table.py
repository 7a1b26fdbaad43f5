"""The ablation's table: each policy against static shares, paired by seed, whichever way it falls.

A difference is policy minus static in nats per byte, so below zero the policy is better.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from tests.bench.ablation_life import CAP, FLOOR, SMALL, SMALL_CAP, STATIC, Terms

Facts = dict[str, Any]
Lives = Sequence[tuple[str, int, Facts]]


def results(lives: Lives, missing: Sequence[str], terms: Terms, arms: dict[str, Facts]) -> Facts:
    """All that a table says, as values that JSON has."""
    policies = list(dict.fromkeys(policy for policy, _, _ in lives))
    return {
        "settings": {
            "preset": "demo",
            "steps": terms.steps,
            "batch": terms.batch,
            "bounds": {"floor": FLOOR, "cap": CAP, "cap_below_bytes": {str(SMALL): SMALL_CAP}},
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy")},
        },
        "arms": arms,
        "missing": list(missing),
        "lives": [{"policy": p, "seed": s, "mean": mean_of(f), **f} for p, s, f in lives],
        "against_static": {p: against_static(lives, p) for p in policies if p != STATIC},
    }


def mean_of(facts: Facts) -> float:
    """Over arms, each counting the same."""
    return sum(facts["losses"].values()) / len(facts["losses"])


def against_static(lives: Lives, policy: str) -> Facts:
    """Differences of the mean over arms by seed, of each arm, and of the mean at each evaluation.

    Only seeds that have both lives count; without one ``seeds`` is empty and ``mean`` None.
    """
    found = {(p, seed): facts for p, seed, facts in lives}
    pairs = {s: (f, found[STATIC, s]) for p, s, f in lives if p == policy and (STATIC, s) in found}
    seeds = {str(s): mean_of(one) - mean_of(other) for s, (one, other) in pairs.items()}
    arms: dict[str, list[float]] = {}
    over_time: dict[int, list[float]] = {}
    for one, other in pairs.values():
        for arm, loss in one["losses"].items():
            arms.setdefault(arm, []).append(loss - other["losses"][arm])
        plain = dict(other["means"])  # a life that was stopped just then has no evaluation
        for step, mean in one["means"]:
            if step in plain:
                over_time.setdefault(step, []).append(mean - plain[step])
    return {
        "seeds": seeds,
        "mean": _mean(list(seeds.values())) if seeds else None,
        "arms": {arm: _mean(values) for arm, values in arms.items()},
        "over_time": {str(step): _mean(over_time[step]) for step in sorted(over_time)},
    }


def verdict(seeds: dict[str, float]) -> str:
    """In words: better or worse only where every seed says so."""
    if not seeds:
        return "cannot be compared: no seed has both lives"
    values = list(seeds.values())
    span = f"{_signed(_mean(values))} ({_signed(min(values))} to {_signed(max(values))})"
    if len(values) == 1:
        return f"{_signed(values[0])} in its one seed, which shows nothing"
    if max(values) < 0:
        return f"better than static in all {len(values)} seeds, by {span}"
    if min(values) > 0:
        return f"worse than static in all {len(values)} seeds, by {span}"
    return f"no difference that all {len(values)} seeds agree on: {span}"


def tabulated(found: Facts) -> str:
    """The text that is printed and kept."""
    arms = list(found["arms"])
    policies = list(dict.fromkeys(life["policy"] for life in found["lives"]))
    lives = {p: [life for life in found["lives"] if life["policy"] == p] for p in policies}
    blocks = [_head(found)]
    columns = [*arms, "mean"]
    rows = [
        [p, str(len(of)), *(f"{_mean([_loss(life, c) for life in of]):.4f}" for c in columns)]
        for p, of in lives.items()
    ]
    blocks.append(_block("Loss, mean over seeds", ["policy", "seeds", *columns], rows))
    compared = found["against_static"]
    rows = [
        [p, str(len(d["seeds"])), *(_signed(d["arms"][a]) for a in arms), _signed(d["mean"])]
        for p, d in compared.items()
        if d["seeds"]
    ]
    blocks.append(_block("Policy minus static", ["policy", "seeds", *columns], rows))
    plain = {str(life["seed"]): f"{life['mean']:.4f}" for life in lives.get(STATIC, [])}
    rows = [["(static's loss)", *(plain.get(seed, "-") for seed in _seeds(found))]]
    rows += [
        [p, *(_signed(d["seeds"][s]) if s in d["seeds"] else "-" for s in _seeds(found))]
        for p, d in compared.items()
    ]
    names = [f"seed {seed}" for seed in _seeds(found)]
    blocks.append(_block("The same, mean over arms, by seed", ["policy", *names], rows))
    steps = sorted({step for d in compared.values() for step in d["over_time"]}, key=int)
    rows = [
        [p, *(_signed(d["over_time"][s]) if s in d["over_time"] else "-" for s in steps)]
        for p, d in compared.items()
    ]
    blocks.append(_block("The same, mean over seeds, by step", ["policy", *steps], rows))
    blocks.append(_by_arm("Share of sequences served, mean over seeds", arms, lives, _share, ".3f"))
    blocks.append(
        _by_arm(
            "Epochs of an arm's documents, mean over seeds",
            arms,
            lives,
            lambda life, arm: float(life["epochs"][arm]),
            ".2f",
        )
    )
    said = [f"{p}: {verdict(d['seeds'])}" for p, d in compared.items()]
    said += [f"missing: {name}" for name in found["missing"]]
    blocks.append("\n".join(said))
    rows = [
        [arm, str(f["bytes"]), str(f["files"]), f["sha256"][:16], _from(f)]
        for arm, f in found["arms"].items()
    ]
    blocks.append(_block("Text", ["arm", "bytes", "files", "sha256", "packages"], rows, left=True))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _head(found: Facts) -> str:
    settings = found["settings"]
    bounds = settings["bounds"]
    [(small, small_cap)] = bounds["cap_below_bytes"].items()
    versions = " ".join(f"{name} {number}" for name, number in found["versions"].items())
    commits = ", ".join(sorted({life["commit"] for life in found["lives"]}))
    floor, cap = bounds["floor"], bounds["cap"]
    length = f"{settings['steps']} steps of {settings['batch']} sequences of 128 bytes"
    return f"""\
Held-out loss in nats per byte, after {length}.
Demo preset, on a CPU; {versions}; lives of commit {commits or "none"}.
static: equal shares. All others: default parameters, floor {floor}, cap {cap},
and cap {small_cap} for arms of fewer than {small} bytes."""


def _seeds(found: Facts) -> list[str]:
    return sorted({str(life["seed"]) for life in found["lives"]}, key=int)


def _loss(life: Facts, column: str) -> float:
    return float(life["mean"] if column == "mean" else life["losses"][column])


def _share(life: Facts, arm: str) -> float:
    return float(life["served"][arm] / sum(life["served"].values()))


def _by_arm(
    title: str,
    arms: list[str],
    lives: dict[str, list[Facts]],
    value: Callable[[Facts, str], float],
    digits: str,
) -> str:
    rows = [
        [p, *(format(_mean([value(life, arm) for life in of]), digits) for arm in arms)]
        for p, of in lives.items()
    ]
    return _block(title, ["policy", *arms], rows)


def _from(facts: Facts) -> str:
    return ", ".join(f"{name} {number}" for name, number in facts["packages"].items())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _signed(value: float) -> str:
    return f"{value:+.4f}"


def _block(title: str, head: list[str], rows: list[list[str]], *, left: bool = False) -> str:
    """Columns of equal width; the last one's own where it is ``left``."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [title]
    for row in [head, *rows]:
        cells = [f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)]
        cells[0] = f"{row[0]:<{widths[0]}}"
        if left:
            cells[-1] = row[-1]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
