"""What ``status`` says of the coherence gate: the newest sample, each rule, and what fires."""

from __future__ import annotations

from typing import Any

from supervisor.cli import printing

Gate = dict[str, Any] | None


def gate_lines(gate: Gate) -> list[str]:
    """A line on the newest sample and one on the rules; nothing where none was drawn."""
    if gate is None or gate["last"] is None:
        return []
    last = gate["last"]
    score = "no score" if last["score"] is None else f"score {last['score']:.1f}"
    text = f"gate      step {last['step']}, {score}: {printing.plain(last['verdict'])}"
    if not gate["word_list"]:
        text += ", without a word list"
    if not last["counts"]:
        return [f"{text}; up to step {gate['after']} samples count for nothing"]
    rules = [_rule(rule) for rule in gate["rules"]]
    rate = gate["false_alarms_of"]
    told = f"          {'; '.join(rules)}" if rules else "          every rule is off"
    if rules:
        most = sum(rule["false_alarms"] for rule in gate["rules"])
        told += (
            f"; false alarms at most {most:.1g} in {rate['samples']} samples of which "
            f"{rate['failing']:.0%} fail"
        )
    return [text, told]


def gate_alarms(gate: Gate, run: str) -> list[str]:
    """What of the gate needs somebody; ``run`` is as it is typed."""
    if gate is None:
        return []
    found = []
    if gate["firing"]:
        first = gate.get("failing_since")  # not known to a supervisor of an earlier version
        back = f"; they fail since step {first}: stepkeeper rewind {run} to before" if first else ""
        found.append(
            f"the samples have collapsed ({gate['firing']}, since step {gate['since']}): see "
            f"stepkeeper samples {run}{back}"
        )
    if gate["missing"] is not None:
        found.append(
            f"no sample came at step {gate['missing']}, where one is due each {gate['every']} steps"
        )
    if gate["blind"]:
        found.append(f"the gate cannot judge the last {gate['blind']} samples: they are too short")
    return found


def _rule(rule: dict[str, Any]) -> str:
    fires = " FIRES" if rule["fires"] else ""
    return f"{rule['rule']}: {rule['now']:g} of {rule['fires_at']:g}{fires}"
