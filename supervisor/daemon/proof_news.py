"""Say, or refuse to start, where no proof holds that this run resumes as it is trained now."""

from __future__ import annotations

import shlex
from pathlib import Path

from supervisor.config import Config
from supervisor.core.combination import NONE, VALID, standing
from supervisor.core.state import State
from supervisor.errors import RefusedError
from supervisor.perform import say
from supervisor.process.fingerprint import fingerprint
from supervisor.sidecars import resume_proof
from supervisor.sidecars.checkpoints import scan
from trainer.contract.checkpoint_format import (
    CheckpointFormatError,
    companion_of,
    read_companion,
)


class ProofNews:
    """Tells once, when a checkpoint is there to resume from, that its resume is not proved.

    It tells again after an attempt's first seal, which says what that trains by, where that makes
    a difference.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._looked_at: int | None = None
        self._told = ""

    def look(self, state: State) -> None:
        """Look, where an attempt has begun to seal since the last time."""
        attempt = state.attempt
        number = attempt.number if attempt is not None and attempt.sealed else 0
        if not state.seals or number == self._looked_at:
            return
        self._looked_at = number
        lack = lacking(self._config)
        if lack and lack != self._told:
            self._told = lack
            say(f"{lack}; {_advice(self._config.run)}")


def lacking(config: Config) -> str:
    """What is wrong with the proof of this run, in words; empty where it holds."""
    try:
        proof = resume_proof.read(config.run)
        now = fingerprint(config.run, config.text) if proof is not None else {}
        trained = _trained(config.run, proof.time) if proof is not None else None
    except (RefusedError, OSError, ValueError) as error:
        return f"cannot tell whether its resume is proved: {error}"
    word, why = standing(proof.model_dump() if proof is not None else None, now, trained)
    if word == VALID:
        return ""
    text = "this combination of code, settings, libraries and device has no proof of resume"
    return text if word == NONE else f"{text}: the newest is {word}, {why}"


def refuse_unproved(config: Config) -> None:
    """Raise RefusedError where a proof is required and none holds."""
    if not config.file.proof.require_proof:
        return
    if lack := lacking(config):
        raise RefusedError(
            f"cannot keep {config.run}: proof.require_proof = true, and {lack}; "
            f"{_advice(config.run)}"
        )


def _advice(run: Path) -> str:
    return f"run stepkeeper prove {shlex.quote(str(run))}"


def _trained(run: Path, since: str) -> dict[str, object] | None:
    """The identities in the newest checkpoint that was sealed after that moment, or None."""
    for seal in scan(run / "checkpoints").newest(1):
        if seal.companion and seal.time > since:
            path = run / "checkpoints" / companion_of(seal.step)
            try:
                return read_companion(path.read_bytes(), str(path)).identities
            except (FileNotFoundError, CheckpointFormatError):  # moved away; the seal's concern
                return None
    return None
