"""What ``status`` says of the newest proof that the run resumes exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from supervisor.cli import standing
from supervisor.core import combination
from supervisor.sidecars import kept_settings
from supervisor.sidecars.checkpoints.seals import SealRecord
from trainer.contract.checkpoint_format import companion_of


def proof_of(run: Path, newest: SealRecord | None, *, supervised: bool) -> dict[str, Any]:
    """Its state in a word, why it does not hold, when and over which steps it was made.

    Held against the settings in force where a supervisor is there, else those of the next start.
    Raises UnknownError, and ValueError or KeyError for a file that is damaged.
    """
    proof = standing.record(run / "proof.json")
    if proof is None:
        return {"state": combination.NONE, "why": "", "time": None, "steps": None}
    # Imported here: only a run that was once proved pays for it.
    from supervisor.process.fingerprint import fingerprint  # noqa: PLC0415 - see above

    text = kept_settings.newest(run) if supervised else None
    now = fingerprint(run, text if text is not None else (run / "run.toml").read_bytes())
    trained = None
    if newest is not None and newest.companion and newest.time > proof["time"]:
        trained = _identities(run / "checkpoints" / companion_of(newest.step))
    state, why = combination.standing(proof, now, trained)
    return {"state": state, "why": why, "time": proof["time"], "steps": proof["steps"]}


def line(proof: dict[str, Any]) -> str:
    """The same for people."""
    if proof["steps"] is None:
        return "proof     none that it resumes exactly; see stepkeeper prove"
    cut, last = proof["steps"]["cut"], proof["steps"]["last"]
    text = (
        f"proof     {proof['state']}: resumed at step {cut} and compared at {last}, {proof['time']}"
    )
    return f"{text}; {proof['why']}" if proof["why"] else text


def _identities(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())["identities"]
    except FileNotFoundError:  # moved away meanwhile
        return None
    return dict(found)
