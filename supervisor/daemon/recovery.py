"""Find out where a run stands: the newest seal of the lineage, and what lived on after it.

One rule: start from the newest seal, which holds ledger position, reports position and the bandit
state of its step, then fold the reports from there. Nothing else is believed.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from supervisor import clock
from supervisor.config import Config, read_policy
from supervisor.core import bandit as bandits
from supervisor.core.decide import Found
from supervisor.core.messages import LedgerPosition, ReportsPosition, ResumePoint
from supervisor.core.policy import Policy
from supervisor.core.state import (
    KEPT_SEALS,
    NO_ORDERS,
    Attempt,
    Pivot,
    PivotStage,
    Restarts,
    SealPoint,
    State,
    Want,
)
from supervisor.daemon.in_force import policy_in_force
from supervisor.daemon.named import named_phases
from supervisor.errors import LedgerError, RefusedError
from supervisor.perform import Parts, read_intent, say
from supervisor.process.child import adopt, find_by_token
from supervisor.process.identity import Identity, boot_id
from supervisor.sidecars import archive, attempts, bandit_state
from supervisor.sidecars.attempts import AttemptModel
from supervisor.sidecars.checkpoints import SealRecord, scan
from supervisor.sidecars.events import EventLine, Events, Head, read
from supervisor.sidecars.ledger import Ledger
from supervisor.sidecars.samples import Samples
from trainer.contract.checkpoint_format import n_params_of
from trainer.contract.durable import remove_temporaries
from trainer.contract.wire import Orders, WireError, read_orders

_STAGES = {
    "requested": PivotStage.REQUESTED,
    "stopped": PivotStage.STOPPED,
    "installed": PivotStage.INSTALLED,
}


@dataclass(frozen=True, slots=True)
class Recovered:
    """All that the daemon needs to begin."""

    state: State
    found: Found
    parts: Parts
    hold: bool


def recover(config: Config) -> Recovered:
    """Read the run under its lock. Raises RefusedError where going on would harm it."""
    run = config.run
    journal = archive.read_pivot(run)
    (run / "checkpoints").mkdir(mode=0o750, exist_ok=True)
    _tidy(run)
    found_here = scan(run / "checkpoints")
    for refused in found_here.passed_over(KEPT_SEALS):
        say(f"{refused.name} is not used: {refused.reason}", alarm=True)
    seals = found_here.newest(KEPT_SEALS)
    newest = seals[0] if seals else None
    lost = attempts.mend(run, clock.wall())
    if lost:
        say(f"the record of attempt {lost} is empty, as a power cut leaves it", alarm=True)
    last = attempts.last(run)
    events = Events.open(run / "events.jsonl", Head(*newest.events) if newest else None)
    try:
        run_id = _run_id(events, run, fresh=last is None)
        after = LedgerPosition(**newest.ledger._asdict()) if newest else None
        ledger = Ledger.open(config.ledger, run_id, after, fresh=last is None)
    except BaseException:
        events.close()
        raise
    parts = Parts(
        config=config,
        run_id=run_id,
        ledger=ledger,
        events=events,
        samples=Samples(config.samples, run / "archive"),
        newest_seal=newest.digest if newest else "",
    )
    if newest is not None:
        ledger.mark(f"seal:{newest.digest[:32]}")  # its line may not have come to be
    if ledger.torn is not None:
        text = f"the ledger ended in a torn piece of {ledger.torn.bytes} bytes"
        say(f"{text}: it is completed, or closed off and kept; its steps are recorded", alarm=True)
    policy = policy_in_force(config, parts, journal, fresh=last is None)
    state = _state(config, policy, seals, last)
    found = _found(parts, newest, last, journal)
    state = replace(state, orders=_orders(run), named=named_phases(run, newest, policy.number))
    if found.attempt is not None:
        state = _restored(state, found.attempt, newest)
    state, retired = _reconciled(state, config)
    intent = read_intent(run)
    unfinished = (
        intent.get("want") == "stop"
        and not intent.get("done")
        and intent.get("boot_id") == boot_id()
    )
    found = replace(found, stop_unfinished=unfinished, retired=retired)
    return Recovered(state, found, parts, hold=bool(intent.get("hold")))


def _tidy(run: Path) -> None:
    """Remove temporaries of earlier supervisors; the trainer's own go before the next attempt."""
    newest = sorted((run / "attempts").glob("[0-9]*"))[-2:]
    for folder in (run, run / "policies", *(run / "archive").glob("pivot-*"), *newest):
        remove_temporaries(folder)


def _run_id(events: Events, run: Path, *, fresh: bool) -> str:
    for line in read(run / "events.jsonl"):
        if isinstance(line, EventLine) and line.event == "run-created":
            return str(line.facts["run"])
    if not fresh:
        raise LedgerError(f"cannot use {run / 'events.jsonl'}: it does not name its run any more")
    run_id = secrets.token_hex(8)
    events.append("run-created", {"run": run_id}, clock.wall())
    events.sync()
    return run_id


def _state(
    config: Config, policy: Policy, seals: tuple[SealRecord, ...], last: AttemptModel | None
) -> State:
    points = tuple(_seal_point(seal) for seal in seals)
    newest = points[0].point.step if points else 0
    streak = attempts.streak(config.run, policy.number, newest)
    since = None
    if streak.since is not None and streak.until is not None:
        since = clock.monotonic() - _seconds_between(streak.since, streak.until)
    best = max([streak.best, *(p.point.step for p in points if p.policy == policy.number)])
    seed = config.seed
    before = points[0].bandit if points else None
    bandit = bandits.fresh(policy, config.live, seed + policy.number, before)
    if points and points[0].policy == policy.number and points[0].bandit is not None:
        bandit = points[0].bandit
    return State(
        settings=config.settings,
        policy=policy,
        live=config.live,
        seed=seed,
        bandit=bandit,
        want=Want.RUN,
        last_attempt=last.attempt if last else 0,
        seals=points,
        orders=NO_ORDERS,
        restarts=Restarts(streak.failures, streak.against, since, best),
    )


def _seal_point(seal: SealRecord) -> SealPoint:
    bandit = bandit_state.from_record(seal.bandit, f"the seal of step {seal.step}")
    return SealPoint(ResumePoint(seal.step, seal.bin.sha256, seal.digest), seal.policy, bandit)


def _seconds_between(earlier: str, later: str) -> float:
    """Wall seconds, at least 0: a clock that was set back must not make a run give up."""
    a, b = (datetime.fromisoformat(t) for t in (earlier, later))
    return max(0.0, (b - a).total_seconds())


def _found(
    parts: Parts,
    newest: SealRecord | None,
    last: AttemptModel | None,
    journal: archive.PivotModel | None,
) -> Found:
    attempt = None
    if last is not None:
        identity = Identity(**last.identity.model_dump()) if last.identity else None
        parts.trainers = (identity,) if identity else ()
        if last.ended is None:
            attempt = _unfinished(parts, newest, last, identity)
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
        parts.child = adopt(identity)
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
        n_params=n_params_of(own.bin.bytes) if own else 0,
        proved=own.replay.proved if own else 0,
        consistent=own.replay.consistent if own else 0,
        sealed=own is not None,
        replay_told=own is not None and own.step >= last.ledger_step,
    )


def _pivot(config: Config, journal: archive.PivotModel) -> Pivot:
    policy = read_policy(journal.text.encode("utf-8"), journal.policy, "pivot.json", config)
    pin = ResumePoint(**journal.pin.model_dump()) if journal.pin else None
    save = _orders(config.run).save
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


def _orders(run: Path) -> Orders:
    """The orders as an earlier supervisor left them: serials go on from there."""
    try:
        return read_orders((run / "orders.json").read_bytes())
    except (OSError, WireError):
        return NO_ORDERS


def _restored(state: State, attempt: Attempt, newest: SealRecord | None) -> State:
    """The bandit state at the step where the fold begins; of another policy it is empty."""
    if newest is None or newest.policy != attempt.policy:
        before = state.seals[0].bandit if state.seals else None
        seed = state.seed + state.policy.number
        return replace(state, bandit=bandits.fresh(state.policy, state.live, seed, before))
    return state


def _reconciled(state: State, config: Config) -> tuple[State, tuple[bandits.Retired, ...]]:
    """Arms by name against policy and sources; what the state file alone knows is a zombie."""
    step = state.seals[0].point.step if state.seals else 0
    bandit, retired = bandits.reconcile(state.bandit, state.policy, config.live, step)
    points = state.seals
    if retired and points:
        points = (replace(points[0], bandit=bandit), *points[1:])
    served = {arm.name for arm in bandit.arms} | {arm.arm.name for arm in retired}
    for arm in state.policy.arms:
        if arm.name not in served:
            source = config.sources[arm.name]
            say(f"arm {arm.name} holds no weight: its source {source} is not there", alarm=True)
    return replace(state, bandit=bandit, seals=points), retired
