"""What lived on after the newest seal: a trainer to adopt, reports to read, a pivot under way."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from supervisor import clock
from supervisor.config import Config, read_policy
from supervisor.core.beginning import Found
from supervisor.core.messages import ReportsPosition, ResumePoint
from supervisor.core.state import NO_ORDERS, Attempt, Pivot, PivotStage
from supervisor.errors import RefusedError
from supervisor.perform import Parts, say
from supervisor.process.child import adopt, find_by_token, take_over
from supervisor.process.identity import Identity
from supervisor.sidecars import archive, attempts
from supervisor.sidecars.attempts import AttemptModel
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.checkpoints.presence import parameters
from trainer.contract.wire import Orders, WireError, read_orders

_STAGES = {
    "requested": PivotStage.REQUESTED,
    "stopped": PivotStage.STOPPED,
    "installed": PivotStage.INSTALLED,
}


def find(
    parts: Parts,
    newest: SealRecord | None,
    last: AttemptModel | None,
    journal: archive.PivotModel | None,
    *,
    progress: bool,
    pidfd: int = -1,
) -> Found:
    """Look for an attempt whose end is not recorded and a pivot that is not done.

    ``progress``: the attempt has sealed a step higher than those that ended. ``pidfd`` is the
    trainer's, where an earlier life in this process handed it over. Raises RefusedError where
    the trainer that lives does not belong to the newest seal.
    """
    attempt = None
    if last is not None:
        identity = Identity(**last.identity.model_dump()) if last.identity else None
        parts.trainers = (identity,) if identity else ()
        if last.ended is None:
            parts.child = take_over(identity, pidfd) if identity else None
            attempt = _unfinished(parts, newest, last, identity)
            if attempt is not None:
                attempt = replace(attempt, sealed=attempt.sealed and progress)
    pivot = _pivot(parts.config, journal) if journal else None
    return Found(attempt, pivot, stop_unfinished=False)


def _unfinished(
    parts: Parts,
    newest: SealRecord | None,
    last: AttemptModel,
    identity: Identity | None,
) -> Attempt | None:
    """An attempt whose end is not recorded: its trainer lives, or its reports are to be read.

    None where no trainer lives and the checkpoint that it resumed from is not there any more.
    """
    if identity is None:
        identity = find_by_token(last.token)
    if identity is not None:
        parts.child = parts.child or adopt(identity)
        parts.trainers = (identity,)
    if parts.child is not None and last.identity is None and identity is not None:
        model = attempts.IdentityModel(**identity._asdict())
        with contextlib.suppress(OSError):  # it will be found by its token again
            attempts.write(parts.run, last.model_copy(update={"identity": model}))
    resume = ResumePoint(**last.resume.model_dump()) if last.resume else None
    own = newest if newest is not None and newest.attempt == last.attempt else None
    step = own.step if own else (resume.step if resume else 0)
    if newest is not None and own is None and (resume is None or resume.step != newest.step):
        found = f"attempt {last.attempt}: it resumed from step {step}, but the newest seal is of"
        if parts.child is not None:
            raise RefusedError(
                f"cannot adopt {found} step {newest.step}; end pid {parts.child.pid}, start again"
            )
        say(f"cannot fold {found} step {newest.step}: going on from there", alarm=True)
        attempts.end_unknown(parts.run, last, clock.wall())
        return None
    parts.ledger.begin(last.attempt, step, resume.sha256 if resume else "")
    position = ReportsPosition(last.attempt, 0, 0)
    if own is not None:
        position = ReportsPosition(**own.reports._asdict())
    return Attempt(
        number=last.attempt,
        policy=last.policy,
        resume=resume,
        position=position,
        last_step=step,
        started=clock.monotonic(),
        replay_until=last.ledger_step,
        began=step,
        pid=identity.pid if identity else None,
        ready=own is not None,
        # What it said when it was ready lies before the fold: its seal shows it.
        companion=own is None or bool(own.companion),
        n_params=parameters(parts.checkpoints, own) if own else 0,
        doing="train" if own else "import",
        proved=own.replay.proved if own else 0,
        consistent=own.replay.consistent if own else 0,
        sealed=own is not None,
        replay_told=own is not None and own.step >= last.ledger_step,
    )


def _pivot(config: Config, journal: archive.PivotModel) -> Pivot:
    text = journal.text.encode("utf-8")
    policy = read_policy(text, journal.policy, "pivot.json", config, going_on=True)
    pin = ResumePoint(**journal.pin.model_dump()) if journal.pin else None
    save = orders_left(config.run).save
    return Pivot(
        stage=_STAGES[journal.stage],
        policy=policy,
        asked_step=journal.asked_step,
        when=journal.when,
        by=journal.by,
        serial=save.serial if save and save.then == "exit" else 0,
        honoured=journal.honoured,
        pin=pin,
    )


def orders_left(run: Path) -> Orders:
    """The orders as an earlier supervisor left them: serials go on from there."""
    try:
        return read_orders((run / "orders.json").read_bytes())
    except (OSError, WireError):
        return NO_ORDERS
