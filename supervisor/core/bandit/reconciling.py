"""Arms compared by name with policy and sources: a fresh state, who joins, and who leaves."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.bandit.chance import MASK
from supervisor.core.bandit.deciding import bounded, fill, waiting
from supervisor.core.bandit.leaving import left
from supervisor.core.bandit.state import ArmState, BanditState, Retired
from supervisor.core.policy import Policy, Unit, problem_of
from trainer.contract.wire import PhaseOrder

READ_ENOUGH = "read max_epochs times"


def fresh(
    policy: Policy,
    live: frozenset[str],
    seed: int,
    before: BanditState | None = None,
    step: int = 0,
) -> BanditState:
    """An empty state of ``policy`` over the arms that are there, its first phases decided.

    Phases are numbered on from those decided ``before`` it, so that no number means two phases to
    a trainer that resumes in the middle of one. ``step`` is the step that it begins after. How
    often an arm's documents were read is a fact of the run: it outlives the policy.
    """
    known = (*(r.arm for r in before.retired), *before.arms) if before else ()
    old = {arm.name: arm for arm in known}
    arms = tuple(_begun(arm.name, old.get(arm.name)) for arm in policy.arms if arm.name in live)
    last = before.decided if before else 0
    state = BanditState(
        policy.number,
        policy.digest,
        arms,
        decided=last,
        finished=last,
        generator=seed & MASK,
        step=step,
    )
    return fill(state, policy)


def _begun(name: str, before: ArmState | None) -> ArmState:
    """An arm without statistics, with what is a fact of the run and not of the policy."""
    if before is None:
        return ArmState(name)
    since = None if before.epochs is None else (before.epochs, 0)
    return ArmState(name, epochs=before.epochs, epochs_from=since, content=before.content)


def reconcile(
    state: BanditState, policy: Policy, live: frozenset[str], step: int
) -> tuple[BanditState, tuple[Retired, ...]]:
    """Drop arms that policy or sources no longer have; say which and why.

    A zombie (in the state only) or unavailable arm holds no weight and does not count in the
    exploration total; an arm that the policy has and the state has not starts empty, unless it
    has been read enough and the others satisfy the bounds without it. Phases already decided lose
    the weight of what left and are otherwise kept.
    """
    known = {arm.name for arm in policy.arms}
    gone = tuple(
        Retired(arm, "unavailable" if arm.name in known else "zombie", step)
        for arm in state.arms
        if arm.name not in known or arm.name not in live
    )
    kept = tuple(arm for arm in state.arms if arm.name in known and arm.name in live)
    out = {arm.name for arm in kept} | {r.arm.name for r in state.retired if r.why == READ_ENOUGH}
    new = tuple(
        ArmState(arm.name) for arm in policy.arms if arm.name in live and arm.name not in out
    )
    if problem_of(policy, frozenset(arm.name for arm in kept + new)):
        new += _read_again(state, policy, live - {arm.name for arm in kept + new})
    if not gone and not new:
        return state, ()
    changed = replace(state, arms=kept + new, retired=left(state.retired, gone))
    return _rephrased(changed, policy), gone


def _read_again(state: BanditState, policy: Policy, live: frozenset[str]) -> tuple[ArmState, ...]:
    """Arms of ``live`` that were read enough: more than enough is better than nothing to draw."""
    read = {r.arm.name: r.arm for r in state.retired if r.why == READ_ENOUGH}
    names = (arm.name for arm in policy.arms if arm.name in live and arm.name in read)
    return tuple(_begun(name, read[name]) for name in names)


def retire_read(state: BanditState, policy: Policy) -> BanditState:
    """Drop arms that were read ``max_epochs`` times, as far as the others satisfy the bounds."""
    if not policy.max_epochs:
        return state
    read = [a for a in state.arms if a.epochs is not None and a.epochs >= policy.max_epochs]
    for arm in sorted(read, key=lambda a: (-(a.epochs or 0.0), a.name)):
        others = tuple(other for other in state.arms if other.name != arm.name)
        if problem_of(policy, frozenset(other.name for other in others)):
            continue
        retired = Retired(arm, READ_ENOUGH, state.step)
        state = replace(state, arms=others, retired=left(state.retired, (retired,)))
        state = _rephrased(state, policy)
    return state


def _rephrased(state: BanditState, policy: Policy) -> BanditState:
    phases, first = [], state.step + 1
    for phase in state.phases:
        last = first + phase.steps - 1
        waits = waiting(state, policy, first) & waiting(state, policy, last)
        phases.append(_without(phase, state, policy, waits))
        first = last + 1
    return replace(state, phases=tuple(phases))


def _without(
    phase: PhaseOrder, state: BanditState, policy: Policy, waits: frozenset[str]
) -> PhaseOrder:
    """The phase over the arms there are; those that wait for the end of the warm-up get nothing."""
    old = dict(phase.weights)
    names = tuple(arm.name for arm in state.arms)
    weights = tuple(0.0 if name in waits else old.get(name, 0.0) for name in names)
    total = sum(weights)
    if policy.unit is Unit.WEIGHT and total > 0:
        # The bounds are of weights and were applied to them: what is left keeps its proportions.
        shares = tuple(weight / total for weight in weights)
    else:
        weights = weights if total > 0 else (1.0,) * len(names)
        shares = bounded(policy, names, weights, waits)
    return phase._replace(weights=tuple(zip(names, shares, strict=True)))


def with_contents(state: BanditState, seen: BanditState) -> BanditState:
    """The state with what is known of its arms' contents from another one of the same run."""
    known = {arm.name: arm for arm in seen.arms}
    arms = tuple(
        replace(arm, content=at.content, changed=at.changed if seen.policy == state.policy else 0)
        if (at := known.get(arm.name)) is not None and at.content
        else arm
        for arm in state.arms
    )
    return replace(state, arms=arms)
