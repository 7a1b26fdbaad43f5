"""Each kind of line in the journal, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from supervisor.cli import printing

_WORDS: Final[dict[str, str]] = {
    "run-created": "the run {run} begins",
    "attempt-started": "attempt {attempt} starts after step {resumed} under policy {policy}",
    "attempt-ended": "attempt {attempt} ended at step {last_step}: {cause}",
    "sealed": "step {step} is sealed ({reason}), head {head}",
    "replay": "steps {first} to {last} ran again in attempt {attempt}: {proved} proved equal",
    "replay-differed": "replayed step {step} of attempt {attempt} is not equal: {difference}",
    "checkpoint-refused": "the checkpoint of step {step} is refused: {problem}",
    "checkpoint-rejected": "the checkpoint of step {step} is rejected: {problem}",
    "checkpoint-deleted": "the checkpoint of step {step} is deleted: {rule}",
    "losses-differ": "the checkpoint of step {checkpoint} holds loss {payload} of step {step}, the"
    " ledger {ledger}; {steps} steps differ; the ledger stands",
    "seal-failed": "a seal could not be written: {problem}",
    "contract-broken": "attempt {attempt} broke the contract: {problem}",
    "hang": "attempt {attempt} is hung: no report for {quiet} s after step {step}, doing {doing};"
    " its budget is {budget} s ({why})",
    "gave-up": "gave up: {why}",
    "guard": "{guard} at step {step}: {action}",
    "quarantined": "the checkpoint of step {step} is quarantined: {why}",
    "quarantine-lifted": "the checkpoint of step {step} is trusted again: {why}",
    "rolled-back": "attempt {attempt} is rolled back from step {last_step} to step {to} by the"
    " guard {guard} of step {step}, past the data of {skip} steps",
    "skip-ignored": "attempt {attempt} does not skip the data of {skip} steps, as it was to",
    "guard-quiet": "{guard} is quiet again at step {step}",
    "stop-asked": "a stop is asked for by {by} at step {step}",
    "deadline": "limits.{limit} is {left} s away, and a stop may need {needed} s",
    "clock-stepped": "the clock was set by {seconds} s, or the machine slept",
    "arm-retired": "arm {arm} is retired: {why}, after {served} pulls; its share was {share}",
    "arm-joined": "arm {arm} begins with no numbers: its source is there",
    "arm-changed": "the content of arm {arm} changed after step {step}: {before} to {after}",
    "arm-unknown": "the trainer draws from {arm}, which policy {policy} does not have",
    "policy-unservable": "policy {policy} cannot be served: {problem}; pulls of {missing} fail",
    "evaluation": "evaluated after step {step}: {losses}",
    "forked": "forked from step {step} of run {parent} by {by}",
    "imported": "taken over from {path}, checkpoints of steps {steps}, by {by}",
    "moved": "the run was moved: {why}",
    "rewound": "rewound to step {to} by {by}",
    "settings-changed": "settings {settings} are in force",
    "disk-trouble": "training is held: {trouble}",
    "disk-well": "training goes on; it was held: {trouble}",
    "pivot-requested": "a pivot to policy {policy} is asked for at step {step}",
    "pivot-cancelled": "the pivot to policy {policy} is cancelled {why}",
    "pivot-stopped": "the pivot to policy {policy} has its pin: step {pin}",
    "pivot-installed": "policy {policy} is installed",
    "pivot-done": "the pivot to policy {policy} is done",
    "hook-failing": "hook {hook} fails: {problem}",
    "hook-well": "hook {hook} is called again: {failed} lines failed, {dropped} were dropped",
    "hook-left": "hook {hook} was not told of {left} lines, up to entry {entry}",
    "pivot-by-hand": "policy {policy} begins: its state was moved away by hand",
}

# What a guard found, by one of the facts that only such a line has.
_FOUND: Final[dict[str, str]] = {
    "rules": "the samples have collapsed since step {since} ({rules} failed, score {score})",
    "missing": "no sample at step {missing}, where one is due each {every} steps",
    "blind": "the last {blind} samples are too short to be judged",
    "median": "loss {loss} of arm {arm} is {score} deviations above {median}",
    "lowest": "the smoothed loss stays above that of step {lowest}, by a share of {above}",
    "steps": "the smoothed loss came down too little in {steps} steps",
    "loss": "the loss of arm {arm} is {loss}",
}

KINDS: Final = frozenset(_WORDS)


def in_words(event: str, facts: Mapping[str, Any]) -> str:
    """What a line of the journal says; of an unknown kind, its facts as they are."""
    words = _WORDS.get(event)
    if words is None:
        told = ", ".join(f"{name} {value}" for name, value in facts.items())
        return printing.plain(f"{event}: {told}" if told else event)
    if event == "guard":
        facts = {k: f"{v:.5g}" if isinstance(v, float) else v for k, v in facts.items()}
        words += next((f"; {found}" for name, found in _FOUND.items() if name in facts), "")
        words += "; cannot roll back: {instead}" if "instead" in facts else ""
    return printing.plain(words.format_map(_Facts(facts)))


class _Facts(dict[str, Any]):
    """Facts by name, of which one that is missing or null reads as unknown."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__({name: value for name, value in facts.items() if value is not None})

    def __missing__(self, name: str) -> str:
        return "unknown"
