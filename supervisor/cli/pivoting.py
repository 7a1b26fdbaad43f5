"""The command ``pivot``: change the data policy in mid-run, plan that, or withdraw it."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import asking, planning, printing, standing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.cli.policy_text import override
from supervisor.config import Config, load, read_text
from supervisor.errors import StepkeeperError, UnknownError, UsageError
from supervisor.perform import unattended
from supervisor.sidecars import archive


class When(StrEnum):
    """At which checkpoint the policies change places."""

    BOUNDARY = "boundary"
    NOW = "now"


def pivot(  # noqa: PLR0913 - a command's options are its parameters
    run: Run,
    *,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The new policy.toml.")
    ] = None,
    floor: Annotated[
        list[str] | None, typer.Option(metavar="ARM=X", help="Another floor; may be repeated.")
    ] = None,
    cap: Annotated[
        list[str] | None, typer.Option(metavar="ARM=Y", help="Another cap; may be repeated.")
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="The policy in force anew, with an empty bandit.")
    ] = False,
    when: Annotated[When, typer.Option(help="At the cadence, or at this step's end.")] = (
        When.BOUNDARY
    ),
    plan: Annotated[bool, typer.Option("--plan", help="Print it and change nothing.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return once it is durable.")] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Withdraw it, until the trainer is stopped.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Put another data policy in force: weights, moments and ledger stay, the bandit is new.

    Waits until the first step under the new policy is durable. Without a supervisor it is left
    for the next start, which does it before training on.
    """
    path = existing(run)
    bounds = [*(floor or ()), *(cap or ())]
    if [policy is not None, bool(bounds), reset, cancel].count(True) != 1:
        raise UsageError(
            "cannot pivot: give one of --policy FILE, --floor and --cap, --reset, --cancel"
        )
    if cancel:
        return _cancel(path, as_json=as_json)
    config = load(path)
    text = _text(config, policy, floor or [], cap or [])
    if plan:
        return planning.plan(config, text, when.value, reset=reset, as_json=as_json)
    unattended.next_policy(config, text)  # a bad policy is named before anybody is asked
    typed = shlex.quote(str(path))
    stands = (
        "the request stands and is carried out without you; watch it with stepkeeper status "
        f"{typed}, withdraw it with stepkeeper pivot {typed} --cancel"
    )
    with asking.interruptible(stands):
        fields = {"policy": text, "when": when.value, "reset": reset}
        answer = asking.ask(path, "pivot", fields)
        if answer is None:
            return _leave(config, text, when, reset=reset, as_json=as_json)
        if no_wait:
            return _tell_asked(path, answer, as_json=as_json)
        return _follow(path, answer, as_json=as_json)


def _text(config: Config, policy: Path | None, floors: list[str], caps: list[str]) -> str:
    """The new policy's text. Raises StepkeeperError."""
    if policy is not None:
        try:
            return read_text(policy).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"cannot read {policy}: {error}") from None
    text, _ = unattended.in_force(config)
    return override(text, floors, caps) if floors or caps else text


def _cancel(run: Path, *, as_json: bool) -> int:
    answer = asking.ask(run, "cancel-pivot", {})
    if answer is None:
        unattended.refuse_a_stranger(run, "pivot")
        answer = {"cancelled": unattended.cancel_pivot(run)}
    if as_json:
        printing.emit(answer)
    else:
        printing.say(f"the pivot to policy {answer['cancelled']} is cancelled; nothing changed")
    return 0


def _leave(config: Config, text: str, when: When, *, reset: bool, as_json: bool) -> int:
    """Leave the pivot for the next start; only a living trainer can go on to a boundary."""
    run = config.run
    unattended.refuse_a_stranger(run, "pivot")
    alive = standing.trained(run)
    seals = standing.seals(run)
    step = planning.last_step(run) if alive else seals[0].step if seals else 0
    number = unattended.request_pivot(
        config, text, when=when.value if alive else "now", step=step, reset=reset
    )
    if as_json:
        printing.emit({"policy": number, "asked_step": step, "stage": "requested", "at": "start"})
    else:
        place = "its next checkpoint" if alive else f"step {step}"
        printing.say(
            f"nobody supervises {run}: policy {number} takes effect at its next start, from "
            f"{place}; start it with stepkeeper run {shlex.quote(str(run))}"
        )
    return 0


def _tell_asked(run: Path, answer: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        printing.emit({**answer, "stage": "requested"})
    else:
        printing.say(
            f"the pivot to policy {answer['policy']} was asked at step {answer['asked_step']}; "
            f"see stepkeeper status {shlex.quote(str(run))}"
        )
    return 0


def _follow(run: Path, answer: dict[str, Any], *, as_json: bool) -> int:
    """Wait for the first step under the new policy, and say how far it is."""
    number = int(answer["policy"])
    absence = asking.Absence(run)
    told: set[str] = set()
    pins: list[int] = []

    def look() -> bool | None:
        record = archive.read_pivot(run)
        if record is None or record.policy != number:
            return number in archive.policies(run)
        if record.pin is not None:
            pins[:] = [record.pin.step]
        if record.stage not in told:
            told.add(record.stage)
            if not as_json:
                printing.say(_progress(run, record))
        if absence.too_long():
            raise UnknownError(
                f"cannot tell how the pivot ends: the supervisor of {run} is gone; it is "
                f"{record.stage}, and the next stepkeeper run completes it"
            )
        return None

    if not asking.wait(look):
        raise StepkeeperError(f"cannot pivot: the pivot to policy {number} was cancelled")
    return _tell_done(run, number, pins, as_json=as_json)


def _progress(run: Path, record: archive.PivotModel) -> str:
    match record.stage:
        case "requested":
            where = planning.boundary(run, record.asked_step, record.when)
            return f"requested at step {record.asked_step}: {where['text']}"
        case "stopped":
            pin = record.pin.step if record.pin else 0
            return f"stopped: the checkpoint of step {pin} is sealed and pinned"
        case "installed":
            return f"installed: policy {record.policy} is in force, the trainer resumes"


def _tell_done(run: Path, number: int, pins: list[int], *, as_json: bool) -> int:
    folders = sorted((run / "archive").glob(f"pivot-{number:04d}-step-*"))
    certificate = archive.read_certificate(folders[-1]) if folders else None
    pin = certificate.pin.step if certificate else (pins or [0])[0]
    if as_json:
        proof = str(folders[-1] / "certificate.json") if folders else None
        facts = {"policy": number, "pin": pin, "first_step": pin + 1, "certificate": proof}
        printing.emit({**facts, "stage": "done"})
    else:
        printing.say(f"done: step {pin + 1} is the first one under policy {number}")
        if folders:
            printing.say(f"put away with the certificate: {folders[-1]}")
    return 0
