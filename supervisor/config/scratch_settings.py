"""Settings under which copies of a run are trained to prove it: its own, but for when to save."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from supervisor.config.toml_text import dump, relocated

OMIT = "STEPKEEPER_OMIT"
_KEEP = 10_000
# What a proof must not do or be held up by; each table is replaced whole.
_REPLACED: dict[str, dict[str, Any]] = {
    "restart": {"first": 0.01, "most": 0.01, "fall_back_after": 1, "give_up_after": 0.0},
    "limits": {"max_hours": 24.0},  # a proof that was killed leaves a life, which ends then
    "proof": {},
    "hooks": {},  # nobody is to be woken by a copy
    "guards": {
        "quarantine_steps": 0,
        **{name: {"action": "record"} for name in ("nonfinite", "spike", "divergence", "plateau")},
    },
}


def scratch_settings(run: Path, name: str, text: str, every: int, omit: str = "") -> str:
    """``run.toml`` for a copy elsewhere that saves each ``every`` steps.

    Its sidecars are called ``name``. Learning rate, data and model stay what they are; samples fall
    on the steps of its checkpoints. ``omit`` names the state that a trainer is asked not to
    restore. Raises SettingsError for text that is no TOML.
    """
    data = tomllib.loads(relocated(text, run))
    data["name"] = name
    checkpoint = dict(data.get("checkpoint", {}))
    checkpoint.pop("every_seconds", None)
    # A fast trainer makes many before it is ended, and the first ones are what is compared.
    checkpoint |= {"every_steps": every, "keep_last": _KEEP}
    data["checkpoint"] = checkpoint | {"sigusr1": "now"}
    if data.get("samples", {}).get("every"):
        data["samples"] = {**data["samples"], "every": every}
    data |= _REPLACED
    data["disk"] = {**data.get("disk", {}), "reserve": 0.0}
    trainer = dict(data.get("trainer", {}))
    if "command" in trainer:
        trainer["command"] = [_here(run, word) for word in trainer["command"]]
    if omit:
        trainer["env"] = {**trainer.get("env", {}), OMIT: omit}
    data["trainer"] = trainer
    return dump({key: value for key, value in data.items() if value != {}})


def _here(run: Path, word: str) -> str:
    """A file of the run that its command names is used where it stands."""
    if word.startswith(("/", "-", "{")) or not ("/" in word or "." in word):
        return word
    return str(run / word) if (run / word).is_file() else word
