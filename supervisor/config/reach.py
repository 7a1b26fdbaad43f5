"""When a changed setting takes effect: one table for every key of ``run.toml``."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, NamedTuple

from supervisor.config.run_file import RunFile


class Reach(StrEnum):
    """``live``: at a reload; ``next attempt``: when a trainer is started; ``never``: refused."""

    LIVE = "live"
    NEXT = "next attempt"
    NEVER = "never"


class Change(NamedTuple):
    """One setting that differs, with its values as TOML would have them; None: not set."""

    setting: str
    old: Any
    new: Any
    reach: Reach

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self._asdict(), "reach": str(self.reach)}


_HIDDEN: Final = "(hidden)"  # the environment may hold keys, and the journal is for auditors
_BY_NAME: Final = ("sources", "hooks")  # tables whose own keys are the operator's

# Settings of a model decide what its checkpoints hold, and those of a name which files they are.
REACH: Final[dict[str, Reach]] = {
    "schema": Reach.NEVER,
    "name": Reach.NEVER,
    "trainer.command": Reach.NEXT,
    "trainer.env": Reach.NEXT,
    "model.preset": Reach.NEVER,
    "model.vocabulary": Reach.NEVER,
    "model.width": Reach.NEVER,
    "model.heads": Reach.NEVER,
    "model.layers": Reach.NEVER,
    "model.context": Reach.NEVER,
    "train.steps": Reach.NEXT,
    "train.batch": Reach.NEXT,
    "train.accumulate": Reach.NEXT,
    "train.lr": Reach.NEXT,
    "train.warmup_steps": Reach.NEXT,
    "train.final_lr_share": Reach.NEXT,
    "train.weight_decay": Reach.NEXT,
    "train.clip": Reach.NEXT,
    "train.seed": Reach.NEXT,
    "train.device": Reach.NEXT,
    "train.precision": Reach.NEXT,
    "train.compile": Reach.NEXT,
    "train.deterministic": Reach.NEXT,
    "train.threads": Reach.NEXT,
    "train.strict": Reach.NEXT,
    "train.device_change": Reach.NEXT,
    "data.mix": Reach.NEXT,
    "sources.NAME.path": Reach.NEXT,
    "sources.NAME.kind": Reach.NEXT,
    "sources.NAME.field": Reach.NEXT,
    "checkpoint.every_steps": Reach.NEXT,
    "checkpoint.every_seconds": Reach.NEXT,
    "checkpoint.format": Reach.NEXT,
    "checkpoint.shards": Reach.NEXT,
    "checkpoint.split": Reach.NEXT,
    "checkpoint.shard_roots": Reach.NEXT,
    "checkpoint.sigusr1": Reach.NEXT,
    "checkpoint.background": Reach.NEXT,
    "checkpoint.keep_last": Reach.LIVE,
    "checkpoint.keep_every": Reach.LIVE,
    "checkpoint.keep_audit": Reach.LIVE,
    "checkpoint.verify_at_start": Reach.LIVE,
    "samples.every": Reach.NEXT,
    "samples.prompts": Reach.NEXT,
    "samples.temperature": Reach.NEXT,
    "samples.length": Reach.NEXT,
    "samples.seed": Reach.NEXT,
    "evaluate.every": Reach.NEXT,
    "evaluate.sequences": Reach.NEXT,
    "evaluate.holdout": Reach.NEXT,
    "restart.first": Reach.LIVE,
    "restart.most": Reach.LIVE,
    "restart.fall_back_after": Reach.LIVE,
    "restart.give_up_after": Reach.LIVE,
    "stop.grace": Reach.LIVE,
    "lock.trust": Reach.LIVE,
    "limits.stop_at": Reach.LIVE,
    "limits.max_hours": Reach.LIVE,
    "limits.margin": Reach.LIVE,
    "limits.assumed_save": Reach.LIVE,
    "disk.reserve": Reach.LIVE,
    "disk.hold_below": Reach.LIVE,
    "disk.output_log": Reach.LIVE,
    "proof.require_proof": Reach.NEXT,
    "hooks.NAME.events": Reach.LIVE,
    "hooks.NAME.command": Reach.LIVE,
    "hooks.NAME.url": Reach.LIVE,
    "hooks.NAME.secret_file": Reach.LIVE,
    "hooks.NAME.timeout": Reach.LIVE,
    "hooks.NAME.tries": Reach.LIVE,
    "hooks.NAME.env": Reach.LIVE,
    "hooks.NAME.pass_env": Reach.LIVE,
    "guards.nonfinite.action": Reach.LIVE,
    "guards.spike.action": Reach.LIVE,
    "guards.spike.threshold": Reach.LIVE,
    "guards.spike.window": Reach.LIVE,
    "guards.spike.least": Reach.LIVE,
    "guards.spike.floor": Reach.LIVE,
    "guards.divergence.action": Reach.LIVE,
    "guards.divergence.margin": Reach.LIVE,
    "guards.divergence.steps": Reach.LIVE,
    "guards.divergence.window": Reach.LIVE,
    "guards.plateau.action": Reach.LIVE,
    "guards.plateau.margin": Reach.LIVE,
    "guards.plateau.steps": Reach.LIVE,
    "guards.quarantine_steps": Reach.LIVE,
    "guards.rollback_most": Reach.LIVE,
    "gate.every": Reach.NEXT,  # as samples.every, which it follows
    "gate.after": Reach.LIVE,
    "gate.min_tokens": Reach.LIVE,
    "gate.fail_below": Reach.LIVE,
    "gate.words": Reach.LIVE,
    "gate.in_a_row": Reach.LIVE,
    "gate.failing": Reach.LIVE,
    "gate.window": Reach.LIVE,
    "gate.cusum": Reach.LIVE,
    "gate.healthy": Reach.LIVE,
    "gate.collapsed": Reach.LIVE,
    "gate.action": Reach.LIVE,
    "hang.enabled": Reach.LIVE,
    "hang.factor": Reach.LIVE,
    "hang.least": Reach.LIVE,
    "hang.first_step": Reach.LIVE,
    "hang.import": Reach.LIVE,
    "hang.load": Reach.LIVE,
    "hang.compile": Reach.LIVE,
    "hang.save": Reach.LIVE,
    "hang.eval": Reach.LIVE,
    "hang.sample": Reach.LIVE,
    "hang.wait": Reach.LIVE,
    "hang.exit": Reach.LIVE,
}


def changes(old: RunFile, new: RunFile, name: str) -> tuple[Change, ...]:
    """What differs in effect; ``name`` is that of a run whose settings give none."""
    before, after = _flat(old, name), _flat(new, name)
    if old.model.shape == new.model.shape:  # said in other words, the structure is the same
        before, after = ({k: v for k, v in f.items() if k[0] != "model"} for f in (before, after))
    found = []
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        if was != now:
            hidden = key[:2] == ("trainer", "env") or (key[0], key[2:3]) == ("hooks", ("env",))
            shown = [_HIDDEN if hidden and value is not None else value for value in (was, now)]
            found.append(Change(".".join(key), shown[0], shown[1], reach_of(key)))
    return tuple(found)


def reach_of(key: tuple[str, ...]) -> Reach:
    """The reach of one key, its parts from the table inwards."""
    if key[0] in _BY_NAME:
        return REACH[".".join((key[0], "NAME", *key[2:3]))]
    # What is below the second part and not in the table is a table of the operator's names.
    return REACH.get(".".join(key)) or REACH[".".join(key[:2])]


def _flat(file: RunFile, name: str) -> dict[tuple[str, ...], Any]:
    tree = file.model_dump(mode="json", by_alias=True)
    tree["name"] = file.name or name
    flat: dict[tuple[str, ...], Any] = {}
    _flatten(tree, (), flat)
    return flat


def _flatten(
    tree: dict[str, Any], above: tuple[str, ...], into: dict[tuple[str, ...], Any]
) -> None:
    for key, value in tree.items():
        if isinstance(value, dict):
            _flatten(value, (*above, key), into)
        else:
            into[(*above, key)] = value
