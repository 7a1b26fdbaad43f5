"""What an operator wants, written into a run that nobody supervises: its next start obeys."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from supervisor import clock
from supervisor.config import Config, read_policy
from supervisor.core.bandit import BanditState
from supervisor.core.epochs import refused
from supervisor.core.policy import Policy
from supervisor.core.quarantine import left_behind
from supervisor.errors import RefusedError, SettingsError, StepkeeperError
from supervisor.perform.intent import write_intent
from supervisor.perform.retaining import refuse_to_pin, refuse_to_unpin
from supervisor.process.identity import Identity
from supervisor.process.leftovers import end_leftovers
from supervisor.process.locks import take
from supervisor.sidecars import archive, attempts, bandit_state
from supervisor.sidecars.archive import PivotModel
from supervisor.sidecars.checkpoints import marks, scan
from supervisor.sidecars.events import Events
from trainer.contract.durable import write_file
from trainer.contract.wire import WireError, format_orders, read_orders


def refuse_a_stranger(run: Path, verb: str) -> None:
    """Raise StepkeeperError for a user who neither owns the run nor is root.

    Root becomes the owner, for good: a file of root's would be one that the run's own supervisor
    could not read.
    """
    facts, uid = run.stat(), os.geteuid()
    if uid not in (0, facts.st_uid):
        raise StepkeeperError(
            f"cannot {verb} {run}: uid {uid} is not the owner of this run, uid {facts.st_uid}"
        )
    if uid != facts.st_uid:
        os.setgroups([facts.st_gid])
        os.setresgid(facts.st_gid, facts.st_gid, facts.st_gid)
        os.setresuid(facts.st_uid, facts.st_uid, uid)  # the last one is who asks


def by() -> str:
    """Who asks, for the records."""
    return f"uid {os.getresuid()[2]} pid {os.getpid()}"


def stop(run: Path, *, hold: bool) -> None:
    """Record that nothing shall run; an earlier hold stays. Raises LockHeldError."""
    with _alone(run):
        write_intent(run, "stop", by(), done=True, hold=hold or None)


def release(run: Path) -> None:
    """Let a held run start again. Raises LockHeldError."""
    with _alone(run):
        write_intent(run, "run", by(), done=True, hold=False)


def end_left(run: Path) -> list[int]:
    """End what the newest trainer left behind, workers that hold a GPU above all; their pids.

    Raises LockHeldError, TimeoutError where one outlives SIGKILL.
    """
    with _alone(run):
        last = attempts.last(run)
        identity = Identity(**last.identity.model_dump()) if last and last.identity else None
        return end_leftovers(run, (identity,) if identity else ())


def pin(run: Path, step: int, note: str) -> None:
    """Pin a sealed checkpoint. Raises LockHeldError, and StepkeeperError where there is none."""
    with _alone(run):
        refuse_to_pin(run, step)
        marks.pin(run / "checkpoints", step, note)


def unpin(run: Path, step: int) -> None:
    """Take a pin back. Raises LockHeldError, and StepkeeperError where there is none."""
    with _alone(run):
        refuse_to_unpin(run, step)
        marks.unpin(run / "checkpoints", step)


def unquarantine(run: Path, step: int) -> None:
    """Lift a quarantine. Raises LockHeldError, and StepkeeperError where there is none."""
    with _alone(run):
        found = scan(run / "checkpoints").refused
        seal = next((one.seal for one in found if one.step == step and one.seal), None)
        if seal is None:
            raise StepkeeperError(
                f"cannot lift the quarantine of step {step}: it is not quarantined"
            )
        pivot = archive.read_pivot(run)
        if pivot is not None and pivot.pin is not None and step > pivot.pin.step:
            raise StepkeeperError(left_behind(step, pivot.pin.step))
        facts = {"step": step, "seal": seal.digest, "why": f"by {by()}"}
        _journal(run, "quarantine-lifted", facts)
        marks.lift(run / "checkpoints", seal.digest)


def request_pivot(
    config: Config, text: str, *, when: Literal["boundary", "now"], step: int, reset: bool
) -> int:
    """Leave a pivot for the next start; the new policy's number. ``step`` is the last one done.

    Raises SettingsError for a policy that does not hold, LockHeldError, and StepkeeperError where
    a pivot is under way or the policy is the one in force.
    """
    run = config.run
    with _alone(run):
        under_way = archive.read_pivot(run)
        if under_way is not None:
            raise StepkeeperError(
                f"cannot pivot: the pivot to policy {under_way.policy} is under way "
                f"({under_way.stage}); wait until it is done"
            )
        number, policy = next_policy(config, text)
        refuse_the_same(policy, in_force(config)[1], reset=reset)
        with contextlib.suppress(OSError, RefusedError):  # what is not known refuses nothing
            refuse_to_over_read(config, policy, bandit_state.read(config.bandit), step)
        record = PivotModel(
            stage="requested",
            policy=number,
            text=text,
            asked_step=step,
            when=when,
            by=by(),
            requested=clock.wall(),
        )
        archive.write_pivot(run, record)
        _journal(run, "pivot-requested", {"policy": number, "step": step})
    return number


def cancel_pivot(run: Path) -> int:
    """Withdraw a pivot that has not stopped the trainer; the policy's number.

    Raises StepkeeperError where there is none, or it has gone too far.
    """
    with _alone(run):
        record = archive.read_pivot(run)
        if record is None:
            raise StepkeeperError("cannot cancel: no pivot is under way")
        if record.stage != "requested":
            raise StepkeeperError(
                f"cannot cancel the pivot to policy {record.policy}: it is {record.stage}, and "
                "the next stepkeeper run completes it"
            )
        _withdraw_order(run)
        archive.forget_pivot(run)
        facts = {"policy": record.policy, "why": "by the operator"}
        _journal(run, "pivot-cancelled", facts)
    return record.policy


def in_force(config: Config) -> tuple[str, Policy]:
    """Text and value of the policy in force. Raises StepkeeperError before the first start."""
    numbers = archive.policies(config.run)
    if not numbers:
        raise StepkeeperError(
            f"cannot pivot {config.run}: it has never started, so no policy is in force; edit "
            f"{config.run / 'policy.toml'}"
        )
    path = archive.policy_path(config.run, numbers[-1])
    data = path.read_bytes()
    policy = read_policy(data, numbers[-1], path, config, going_on=True)
    return data.decode("utf-8"), policy


def next_policy(config: Config, text: str) -> tuple[int, Policy]:
    """Number and value of a policy that is to follow. Raises SettingsError."""
    number = max(archive.policies(config.run), default=0) + 1
    policy = read_policy(text.encode("utf-8"), number, "the new policy", config, present=True)
    return number, policy


def refuse_to_over_read(config: Config, policy: Policy, bandit: BanditState, step: int) -> None:
    """Raise SettingsError where a floor forces more epochs than ``max_epochs`` from ``step`` on.

    By what the trainer has counted under the policy in force; where it counts none, nothing is.
    """
    train = config.file.train
    each = 1 if config.file.data.mix == "step" else train.batch * train.accumulate
    arms = (*(retired.arm for retired in bandit.retired), *bandit.arms)
    problems = refused(policy, arms, float(max(0, config.steps - step) * each))
    if problems:
        raise SettingsError("cannot use the new policy:", problems)


def refuse_the_same(policy: Policy, before: Policy, *, reset: bool) -> None:
    """Raise StepkeeperError where nothing would change, unless that is asked for."""
    if not reset and replace(policy, number=0, digest="") == replace(before, number=0, digest=""):
        raise StepkeeperError(
            f"cannot pivot: the policy is the same as policy {before.number} in force; to begin it "
            "anew ask for a reset (--reset)"
        )


def _withdraw_order(run: Path) -> None:
    path = run / "orders.json"
    with contextlib.suppress(FileNotFoundError, WireError):
        orders = read_orders(path.read_bytes())
        if orders.save is not None and orders.save.then == "exit":
            write_file(path, format_orders(orders._replace(serial=orders.serial + 1, save=None)))


def _journal(run: Path, event: str, facts: dict[str, Any]) -> None:
    events = Events.open(run / "events.jsonl")
    try:
        events.append(event, facts, clock.wall())
        events.sync()
    finally:
        events.close()


@contextlib.contextmanager
def _alone(run: Path) -> Iterator[None]:
    lock = take(run / "run.lock")
    try:
        yield
    finally:
        os.close(lock)
