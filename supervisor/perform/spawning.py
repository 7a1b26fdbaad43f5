"""Start an attempt: clear what is left, make its resume point durable, spawn, prove who it is."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path

from supervisor import clock
from supervisor.core.messages import (
    Cause,
    CloseAttempt,
    Event,
    SignalTrainer,
    Spawn,
    Spawned,
    SpawnFailed,
)
from supervisor.errors import StepkeeperError
from supervisor.perform.backlog import NO_ROOM
from supervisor.perform.output import say
from supervisor.perform.parts import Parts
from supervisor.process.child import spawn
from supervisor.process.leftovers import end_leftovers
from supervisor.process.locks import take
from supervisor.process.orphans import strays, take_notice
from supervisor.sidecars import attempts, kept_settings
from supervisor.sidecars.attempts import AttemptModel, EndModel, IdentityModel, ResumeModel
from supervisor.sidecars.checkpoints import (
    SealError,
)
from supervisor.sidecars.checkpoints.holdings import DELETED
from supervisor.sidecars.checkpoints.seals import read as read_seal
from supervisor.sidecars.checkpoints.shards_elsewhere import remove_unfinished
from supervisor.sidecars.checkpoints.superseding import supersede
from trainer.contract.checkpoint_format import seal_of
from trainer.contract.durable import remove_temporaries, replace_file
from trainer.contract.wire import format_orders

_OOM_SCORE = 300  # above the supervisor's, so that the kernel takes the trainer where memory ends
_UNSTARTED = (Cause.NOT_STARTED, Cause.NO_ROOM)
_UNEXPLAINED = (Cause.FAILED, Cause.NEVER_READY)
_WORDS_BYTES = 4096
_WORDS_SHOWN = 300


def start(parts: Parts, effect: Spawn) -> Event:
    """Carry out Spawn. Every failure becomes SpawnFailed: the core decides what follows.

    Raises OSError where the disk takes nothing: then it is tried again.
    """
    try:
        return _start(parts, effect)
    except (OSError, StepkeeperError, SealError, TimeoutError) as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise
        command = " ".join(parts.config.command)
        return SpawnFailed(effect.attempt, f"cannot start the trainer ({command}): {error}")


def _start(parts: Parts, effect: Spawn) -> Event:
    run, resume = parts.run, effect.resume
    _clear(parts)
    lock = take(run / "trainer.lock")
    try:
        remove_unfinished(parts.checkpoints, parts.config.shard_roots)
        # What was deleted while a root was away goes when that is there again.
        remove_temporaries(parts.checkpoints, DELETED)
        supersede(parts.checkpoints, effect.attempt, resume.step if resume else -1)
        parts.newest_seal = resume.seal if resume else ""
        record = AttemptModel(
            attempt=effect.attempt,
            policy=effect.policy,
            token=secrets.token_hex(16),
            command=parts.config.command,
            settings=parts.config.digest,
            resume=ResumeModel(**resume._asdict()) if resume else None,
            ledger_step=parts.ledger.last_step,
            started=clock.wall(),
        )
        # Before the record, after which no later life would begin this attempt again.
        step = resume.step if resume else 0
        facts = {"attempt": effect.attempt, "policy": effect.policy, "resumed": step}
        if effect.skip:
            facts["skip"] = effect.skip
        parts.events.append("attempt-started", facts, clock.wall(), once=True)
        attempts.write(run, record)
        replace_file(run / "orders.json", format_orders(effect.orders))
        parts.ledger.begin(effect.attempt, step, resume.sha256 if resume else "")
        executable = shutil.which(parts.config.command[0], path=parts.config.env.get("PATH"))
        if executable is None:
            raise FileNotFoundError(f"{parts.config.command[0]} is not a program")
        parts.child = spawn(
            (executable, *parts.config.command[1:]),
            run,
            _environment(parts, effect, record.token),
            attempts.folder(run, effect.attempt) / "output.log",
            lock,
            record.token,
        )
    finally:
        os.close(lock)
    _offer_to_the_oom_killer(parts.child.pid)
    parts.trainers = (*parts.trainers[-1:], parts.child.identity)
    identity = IdentityModel(**parts.child.identity._asdict())
    try:
        attempts.write(run, record.model_copy(update={"identity": identity}), durably=False)
    except OSError as error:  # the trainer runs: whoever comes next finds it by its token
        say(f"cannot record who attempt {effect.attempt} is: {error}", alarm=True)
    return Spawned(effect.attempt, parts.child.pid, record.ledger_step)


def end_left(parts: Parts) -> None:
    """With no trainer alive: end what earlier ones left behind, and say what outlives even that."""
    try:
        _clear(parts)
    except TimeoutError as error:
        say(str(error), alarm=True)


def _clear(parts: Parts) -> None:
    ended = end_leftovers(parts.run, parts.trainers, strays=strays, tell=say)
    if ended:
        take_notice(ended)
        names = ", ".join(map(str, ended))
        say(f"ended {len(ended)} left over of an earlier trainer: pid {names}")


def _offer_to_the_oom_killer(pid: int) -> None:
    """Raise its score, which needs no rights; whoever set it higher still keeps that."""
    path = Path(f"/proc/{pid}/oom_score_adj")
    with contextlib.suppress(OSError, ValueError):  # gone already, or no such file here
        if int(path.read_text("ascii")) < _OOM_SCORE:
            path.write_text(str(_OOM_SCORE), "ascii")


def _environment(parts: Parts, effect: Spawn, token: str) -> dict[str, str]:
    folder = attempts.folder(parts.run, effect.attempt)
    resume, companion = _resume(parts, effect)
    return {
        **parts.config.env,
        "STEPKEEPER_RUN": str(parts.run),
        "STEPKEEPER_ATTEMPT": str(effect.attempt),
        "STEPKEEPER_REPORTS": str(folder / "reports.jsonl"),
        "STEPKEEPER_ORDERS": str(parts.run / "orders.json"),
        "STEPKEEPER_RESUME": resume,
        "STEPKEEPER_SKIP": str(effect.skip or ""),
        "STEPKEEPER_SETTINGS": str(kept_settings.find(parts.run, parts.config.digest) or ""),
        "STEPKEEPER_COMPANION": companion,
        "STEPKEEPER_TOKEN": token,
    }


def _resume(parts: Parts, effect: Spawn) -> tuple[str, str]:
    """The file or folder to resume, and ``none`` where its seal says that it has no companion."""
    if effect.resume is None:
        return "", ""
    seal = read_seal(parts.checkpoints / seal_of(effect.resume.step))
    return str(parts.checkpoints / seal.bin.name), "" if seal.companion else "none"


def signal_trainer(parts: Parts, effect: SignalTrainer) -> None:
    """Send a signal to the proven trainer; one that is gone already needs none."""
    if parts.child is not None:
        parts.child.send(effect.name)


def last_words(run: Path, attempt: int) -> str:
    """The last line that the trainer printed, which is data: shortened, unprintables replaced."""
    try:
        with (attempts.folder(run, attempt) / "output.log").open("rb") as file:
            file.seek(-min(_WORDS_BYTES, file.seek(0, os.SEEK_END)), os.SEEK_END)
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return "".join(c if c.isprintable() else "?" for c in last)[:_WORDS_SHOWN]


def close_attempt(parts: Parts, effect: CloseAttempt) -> None:
    """Write the end into the attempt's record and let go of the process."""
    facts = effect.facts
    child, parts.child = parts.child, None
    if child is not None:
        child.close()
    if facts["cause"] in _UNSTARTED and effect.attempt not in attempts.numbers(parts.run):
        return  # there was no room even for its record
    record = attempts.read(parts.run, effect.attempt)
    end = EndModel(
        time=clock.wall(),
        **{key: facts[key] for key in EndModel.model_fields if key != "time"},
    )
    # An end that a power cut takes is found again by reading the reports once more.
    attempts.write(parts.run, record.model_copy(update={"ended": end}), durably=False)
    if facts["cause"] in _UNEXPLAINED and (words := last_words(parts.run, effect.attempt)):
        say(f"attempt {effect.attempt} printed last: {words}")


def reports_path(run: Path, attempt: int) -> Path:
    """Where the attempt's reports are."""
    return attempts.folder(run, attempt) / "reports.jsonl"
