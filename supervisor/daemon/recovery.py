"""Find out where a run stands: the newest seal of the lineage, and what lived on after it.

One rule: start from the newest seal, which holds ledger position, reports position and the bandit
state of its step, then fold the reports from there. Nothing else is believed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from supervisor import clock
from supervisor.config import Config
from supervisor.core import bandit as bandits
from supervisor.core.beginning import Found
from supervisor.core.coherence.gate import known_at
from supervisor.core.messages import ResumePoint
from supervisor.core.policy import Policy, problem_of, servable
from supervisor.core.proving import BEFORE_USE
from supervisor.core.roster import in_words
from supervisor.core.state import (
    KEPT_SEALS,
    NO_ORDERS,
    Attempt,
    SealPoint,
    State,
    Want,
)
from supervisor.daemon.describe import state_roster
from supervisor.daemon.handover import Handover
from supervisor.daemon.in_force import (
    newest_policy,
    policy_in_force,
    put_in_force,
    settings_of_attempt,
)
from supervisor.daemon.named import named_phases
from supervisor.daemon.opening import open_parts
from supervisor.daemon.reckoning import reckon
from supervisor.daemon.seeding import last_rolled, with_guards
from supervisor.daemon.space import make_room
from supervisor.daemon.unfinished import find, orders_left
from supervisor.perform import Parts, read_intent, say
from supervisor.perform.intent import Start, guard_of, start_of
from supervisor.perform.retaining import go_on_deleting
from supervisor.perform.rewinding import complete
from supervisor.process.identity import boot_id
from supervisor.sidecars import archive, attempts, bandit_state
from supervisor.sidecars.attempts import AttemptModel
from supervisor.sidecars.checkpoints import SealRecord, scan
from trainer.contract.durable import remove_temporaries


@dataclass(frozen=True, slots=True)
class Recovered:
    """All that the daemon needs to begin."""

    state: State
    found: Found
    parts: Parts
    start: Start
    hold: bool


def recover(config: Config, left: Handover | None = None, *, visiting: bool = False) -> Recovered:
    """Read the run under its lock; who is only ``visiting`` puts no settings in force.

    ``left`` is what an earlier life in this process handed over.

    Raises RefusedError where going on would harm it.
    """
    run = config.run
    make_room(config)
    journal = archive.read_pivot(run)
    (run / "checkpoints").mkdir(mode=0o750, exist_ok=True)
    _tidy(run)
    rewound = complete(run)
    head, seals, kept = _seals(config)
    for lost, how in attempts.mend(run, clock.wall(), newest_policy(run, journal)).items():
        say(f"the record of attempt {lost} is {how}, as a power cut leaves it", alarm=True)
    last = attempts.last(run)
    parts = open_parts(config, head, rewound, fresh=last is None)
    go_on_deleting(parts)
    if not visiting:
        put_in_force(parts)
    policy = policy_in_force(config, parts, journal, fresh=last is None)
    state = _state(config, policy, seals, last)
    if config.unscored:
        say(config.unscored, alarm=True)
    state = replace(
        state,
        gate=known_at(parts.samples.gate, head.step if head else 0),
        quarantined=tuple(_seal_point(seal) for seal in kept),
    )
    intent = read_intent(run)
    start = start_of(intent, state.last_attempt)
    cut = rewound.attempt if rewound else 0
    reckoning = reckon(run, policy.number, max(start.after, cut), state.seals)
    state = replace(state, restarts=reckoning.restarts)
    progress = max(
        (seal.step for seal in seals if last is not None and seal.attempt == last.attempt),
        default=-1,
    )
    found = find(
        parts,
        head,
        last,
        journal,
        progress=progress > reckoning.best,
        pidfd=left.pidfd if left else -1,
    )
    # Where the newest is bad, an older one is gone back to: what ran since that one counts.
    since = seals[:BEFORE_USE][-1] if seals else None
    left_behind = max(cut, last_rolled(run, seals))
    state = replace(
        state, orders=orders_left(run), named=named_phases(run, since, policy.number, left_behind)
    )
    if found.attempt is not None:
        state = settings_of_attempt(_restored(state, found.attempt, head), run, last)
    state, attempt = with_guards(state, config, head, found.attempt)
    found = replace(found, attempt=attempt)
    if left is not None:
        state = left.for_state(state)
    state, found = _reconciled(state, found, config, head)
    unfinished = (
        intent.get("want") == "stop"
        and not intent.get("done")
        and intent.get("boot_id") == boot_id()
    )
    halted = guard_of(intent) if unfinished else ""
    state = replace(state, sealed_before=head is not None, halted=halted)
    found = replace(found, stop_unfinished=unfinished, waited=reckoning.waited)
    return Recovered(state, found, parts, start, hold=bool(intent.get("hold")))


def _seals(
    config: Config,
) -> tuple[SealRecord | None, tuple[SealRecord, ...], tuple[SealRecord, ...]]:
    """The newest seal, which history follows even where it is bad itself; those to resume from.

    And those quarantined.
    """
    found = scan(config.run / "checkpoints")
    for refused in found.passed_over(KEPT_SEALS):
        say(f"{refused.name} is not used: {refused.reason}", alarm=True)
    seals = found.sealed if config.settings.prove_all else found.newest(KEPT_SEALS)
    return found.head, seals, found.quarantined(KEPT_SEALS)[:KEPT_SEALS]


def _tidy(run: Path) -> None:
    """Remove temporaries of earlier supervisors; the trainer's own go before the next attempt."""
    newest = sorted((run / "attempts").glob("[0-9]*"))[-attempts.RECENT :]
    for folder in (
        run,
        run / "policies",
        run / "settings",
        *(run / "archive").glob("pivot-*"),
        *newest,
    ):
        remove_temporaries(folder)


def _state(
    config: Config, policy: Policy, seals: tuple[SealRecord, ...], last: AttemptModel | None
) -> State:
    points = tuple(_seal_point(seal) for seal in seals)
    seed = config.seed
    before = points[0].bandit if points else None
    step = points[0].point.step if points else 0
    live = servable(policy, config.live)
    bandit = bandits.fresh(policy, live, seed + policy.number, before, step)
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
    )


def _seal_point(seal: SealRecord) -> SealPoint:
    bandit = bandit_state.from_record(seal.bandit, f"the seal of step {seal.step}")
    point = ResumePoint(seal.step, seal.bin.sha256, seal.digest)
    return SealPoint(point, seal.policy, bandit, proved=False)


def _restored(state: State, attempt: Attempt, head: SealRecord | None) -> State:
    """The bandit state at the step where the fold begins; of another policy it is empty."""
    if head is None or head.policy != attempt.policy:
        before = state.seals[0].bandit if state.seals else None
        seed = state.seed + state.policy.number
        step = attempt.began
        live = servable(state.policy, state.live)
        bandit = bandits.fresh(state.policy, live, seed, before, step)
        return replace(state, bandit=bandit)
    return replace(state, bandit=_seal_point(head).bandit or state.bandit)


def _reconciled(
    state: State, found: Found, config: Config, head: SealRecord | None
) -> tuple[State, Found]:
    """Arms by name against policy and sources; what the state file alone knows is a zombie."""
    step = state.seals[0].point.step if state.seals else 0
    live = config.live
    if problem_of(state.policy, live):  # the mix stays, as when the sources left amid a life
        live |= {arm.name for arm in state.bandit.arms}
    bandit, retired = bandits.reconcile(state.bandit, state.policy, live, step)
    points = state.seals
    if retired and points and head is not None and points[0].point.seal == head.digest:
        points = (replace(points[0], bandit=bandit), *points[1:])
    served = {arm.name for arm in bandit.arms} | {arm.arm.name for arm in retired}
    for arm in state.policy.arms:
        if arm.name not in served and arm.name not in config.live:
            source = config.sources[arm.name]
            say(f"arm {arm.name} holds no weight: its source {source} is not there", alarm=True)
    say(in_words(state_roster(replace(state, bandit=bandit), config.sources)))
    found = replace(found, retired=retired, before=state.bandit)
    return replace(state, bandit=bandit, seals=points), found
