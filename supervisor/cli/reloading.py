"""The command ``reload``: put edited settings, or another version of the program, in force."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import asking, printing, standing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.config import Change, Reach, compare
from supervisor.control.asking import request
from supervisor.errors import StepkeeperError, UnknownError
from supervisor.sidecars import kept_settings

ANSWER_SECONDS = 20.0


def reload(
    run: Run,
    *,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Let the trainer save and end, and begin a new attempt."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Put run.toml in force in the running supervisor, which becomes the program installed now.

    The trainer does not notice. Exits 1 where the settings do not hold or the new program cannot
    check them: then nothing changes.
    """
    path = existing(run)
    before = kept_settings.newest(path)
    number = _attempt(path)
    stands = f"the request stands; see stepkeeper status {shlex.quote(str(path))}"
    with asking.interruptible(stands):
        answer = asking.ask(path, "reload", {"restart": restart})
        if answer is None:
            raise StepkeeperError(
                f"cannot reload {path}: no supervisor keeps it; its next start takes run.toml"
            )
        life = asking.wait(_Successor(path, answer).look)
        changes = compare(path, before, kept_settings.newest(path))
        began = asking.wait(_NextAttempt(path, number).look) if restart else None
    _tell(path, changes, (answer["supervisor"]["version"], life["version"]), began, as_json)
    return 0


def _attempt(run: Path) -> int:
    return int((standing.last_attempt(run) or {"attempt": 0})["attempt"])


class _Successor:
    """Waits for another life of the supervisor to answer, or for the word that none will."""

    def __init__(self, run: Path, answer: dict[str, Any]) -> None:
        self._run = run
        self._serial = int(answer["serial"])
        self._life = answer["supervisor"]["life"]
        self._absence = asking.Absence(run)

    def look(self) -> dict[str, Any] | None:
        """What the new life says of itself. Raises StepkeeperError or UnknownError."""
        try:
            found: dict[str, Any] = request(self._run, "status", {}, ANSWER_SECONDS)["supervisor"]
        except (UnknownError, KeyError):
            if self._absence.too_long():
                raise UnknownError(
                    f"cannot tell whether {self._run} was reloaded: its supervisor is gone; see "
                    f"stepkeeper logs {shlex.quote(str(self._run))} --supervisor"
                ) from None
            return None
        if found["life"] != self._life:
            return found
        if found["stayed"]["serial"] >= self._serial:
            raise StepkeeperError(
                f"cannot reload {self._run}: {found['stayed']['why']}; version {found['version']} "
                "stays, with the settings in force"
            )
        return None


class _NextAttempt:
    """Waits for an attempt after the one of that number to have a trainer."""

    def __init__(self, run: Path, number: int) -> None:
        self._run = run
        self._number = number
        self._absence = asking.Absence(run)

    def look(self) -> int | None:
        """Its number. Raises UnknownError where nobody is left to start it."""
        record = standing.last_attempt(self._run) or {}
        if record.get("attempt", 0) > self._number and record.get("identity"):
            return int(record["attempt"])
        if self._absence.too_long():
            raise UnknownError(
                f"cannot tell what became of the restart of {self._run}: its supervisor is gone; "
                f"see stepkeeper status {shlex.quote(str(self._run))}"
            )
        return None


def _tell(
    run: Path,
    changes: tuple[Change, ...],
    versions: tuple[str, str],
    began: int | None,
    as_json: bool,  # noqa: FBT001 - as the command has it
) -> None:
    old, new = versions
    facts = [change.facts() for change in changes]
    if as_json:
        told = {"reloaded": True, "version": new, "before": old, "changes": facts}
        printing.emit({**told, "attempt": began})
        return
    for change in facts:
        printing.say(printing.change(change))
    waiting = sum(change.reach is Reach.NEXT for change in changes)
    text = f"reloaded: version {new} keeps the run" + (f", before it {old}" * (old != new))
    if began is not None:
        text += f"; attempt {began} began with these settings"
    elif waiting:
        text += (
            f"; {waiting} of these settings wait{'s' * (waiting == 1)} for the next attempt, which "
            f"stepkeeper reload {shlex.quote(str(run))} --restart begins now"
        )
    elif not changes:
        text += "; no setting changed"
    printing.say(text)
