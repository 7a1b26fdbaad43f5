"""What the writer does when the disk refuses one write or sync of an effect, on real files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.config import load
from supervisor.core.bandit import BanditState
from supervisor.core.messages import (
    AdvancePivot,
    Answer,
    CloseAttempt,
    DiskSeen,
    Effect,
    Event,
    Exit,
    Failed,
    Journal,
    KeepBandit,
    LedgerPosition,
    Record,
    Recorded,
    ReportsPosition,
    ResumePoint,
    Seal,
    Sealed,
    Spawn,
    Spawned,
    Verdict,
)
from supervisor.core.state import NO_ORDERS
from supervisor.daemon.recovery import recover
from supervisor.perform import Performer
from supervisor.sidecars import archive, attempts
from tests.support.crash_fs import CrashFs, crash_fs
from tests.support.daemon import end_all
from tests.support.runs import Run, make_run, scripted
from tests.support.waiting import wait_until
from trainer.contract.wire import Step

Said = Event | Answer | Exit


class Writer:
    """A performer whose every effect is waited for; ``said`` is what it put, but trouble."""

    def __init__(self, run: Run) -> None:
        found = recover(load(run.path))
        self.bandit: BanditState = found.state.bandit
        self.parts = found.parts
        self.said: list[Said] = []
        self.troubles: list[str] = []
        self.begin()

    def begin(self) -> None:
        """Another performer on the same parts."""
        self.performer = Performer(self.parts, self.put)
        self.performer.start()

    def put(self, item: Said) -> None:
        """Called by the writer's thread."""
        if isinstance(item, DiskSeen):
            self.troubles.append(item.trouble)
        else:
            self.said.append(item)

    def do(self, effect: Effect, plan: CrashFs | None = None) -> list[Said]:
        """Have it carried out under the plan; what was put meanwhile."""
        before = len(self.said)
        mark = Answer(before, {})
        with crash_fs(plan or CrashFs()):
            self.performer.submit(effect)
            self.performer.submit(mark)
            wait_until(lambda: mark in self.said, f"the end of {effect}")
        return [item for item in self.said[before:] if item is not mark]

    def step(self, step: int) -> LedgerPosition:
        """Record one step of attempt 1."""
        facts = Step(step, 1.0, step, 2.5, "", "a", 0.1, "", 1, ())
        (answer,) = self.do(Record(1, 1, (facts,)))
        assert isinstance(answer, Recorded)
        return answer.position

    def seal(self, step: int) -> Seal:
        """The seal of a step that is recorded now."""
        position = self.step(step)
        verdict = Verdict(step, f"step_{step:06d}.bin", "a" * 64, 20, "", "")
        at = ReportsPosition(1, step, 10)
        return Seal(1, 1, verdict, position, at, self.bandit, None, "cadence", None, (0, 0))

    def close(self) -> None:
        self.performer.close()
        self.parts.ledger.close()
        self.parts.events.close()
        if self.parts.child is not None:
            self.parts.child.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = make_run(tmp_path / "run", scripted())
    yield run
    end_all(run)


@pytest.fixture
def writer(run: Run) -> Iterator[Writer]:
    writer = Writer(run)
    writer.parts.ledger.begin(1, 0, "")
    yield writer
    writer.close()


def full_at(writer: Writer, effect: Callable[[int], Effect], kind: str = "write") -> CrashFs:
    """A plan that refuses the last call of a kind that such an effect makes, tried on step 1."""
    seen = CrashFs()
    writer.do(effect(1), seen)
    last = len(seen.trace) - seen.trace[::-1].index(kind)
    return CrashFs(at=last, error=errno.ENOSPC if kind == "write" else errno.EIO)


def test_a_seal_stands_where_the_journal_has_no_room_for_its_line(writer: Writer, run: Run) -> None:
    plan = full_at(writer, writer.seal)
    effect = writer.seal(2)
    (answer,) = writer.do(effect, plan)
    assert isinstance(answer, Sealed)
    assert sorted(run.seals()) == [1, 2]
    writer.do(Journal("alarm", {"n": 1}))
    assert [line["event"] for line in run.events()][-2:] == ["sealed", "alarm"]
    assert [line["step"] for line in run.events("sealed")] == [1, 2]


def test_no_event_is_forgotten_while_the_disk_is_full(writer: Writer, run: Run) -> None:
    for n in (1, 2, 3):
        assert writer.do(Journal("alarm", {"n": n}), CrashFs(at=1, error=errno.ENOSPC)) == []
    assert writer.troubles == ["cannot append to events.jsonl: No space left on device"]
    writer.do(Journal("alarm", {"n": 4}))
    assert [line["n"] for line in run.events("alarm")] == [1, 2, 3, 4]
    wait_until(lambda: not writer.performer.waiting, "the end of the trouble")


def test_starts_and_ends_that_a_later_life_tells_again_are_journalled_once(
    writer: Writer, run: Run
) -> None:
    spawn = Spawn(1, None, 1, NO_ORDERS._replace(phases=writer.bandit.phases))
    refused = CrashFs(at=2, error=errno.ENOSPC)  # the line is written, the record is not
    writer.do(spawn, refused)
    wait_until(run.pids, "the trainer")
    for _ in range(2):
        writer.do(Journal("attempt-ended", {"attempt": 1, "cause": "killed"}))
        writer.do(Journal("contract-broken", {"attempt": 1, "problem": "a line"}))
    names = [line["event"] for line in run.events()]
    assert names[1:] == ["attempt-started", "attempt-ended", "contract-broken"]


def test_a_journal_that_could_not_be_synced_ends_this_life(writer: Writer) -> None:
    seen = CrashFs()
    writer.do(writer.seal(1), seen)
    second = [at for at, kind in enumerate(seen.trace, 1) if kind == "fdatasync"][1]
    assert writer.do(writer.seal(2), CrashFs(at=second, error=errno.EIO)) == [Exit(1)]
    assert writer.do(Journal("alarm", {})) == []  # it is told once


def test_a_seal_that_cannot_be_said_in_json_fails_alone(writer: Writer) -> None:
    effect = writer.seal(1)
    (answer,) = writer.do(replace(effect, bandit=replace(writer.bandit, rewards=(float("inf"),))))
    assert isinstance(answer, Failed)
    assert answer.what == "seal"


def test_a_fault_of_our_own_is_one_line(writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    odd = replace(writer.bandit, rewards=(float("inf"),))
    assert writer.do(KeepBandit(odd)) == [Exit(1)]
    printed = capsys.readouterr()
    _, _, said = printed.out.partition(" ")  # the time comes first
    assert said.startswith("ALARM: cannot write the bandit state: a fault in stepkeeper itself")
    assert (printed.out.count("\n"), printed.err) == (1, "")


def test_a_trainer_whose_identity_could_not_be_recorded_is_kept(run: Run, writer: Writer) -> None:
    spawn = Spawn(1, None, 1, NO_ORDERS._replace(phases=writer.bandit.phases))
    writer.do(spawn)  # makes folders, which the later ones find
    plan = full_at(writer, lambda n: replace(spawn, attempt=n + 1))
    (answer,) = writer.do(replace(spawn, attempt=3), plan)
    assert isinstance(answer, Spawned)
    assert attempts.read(run.path, 3).identity is None
    assert answer.pid in run.pids()


def test_a_trainer_that_ended_is_let_go_of_though_its_end_cannot_be_recorded(
    writer: Writer,
) -> None:
    writer.do(Spawn(1, None, 1, NO_ORDERS._replace(phases=writer.bandit.phases)))
    child = writer.parts.child
    assert child is not None
    child.send("KILL")
    wait_until(child.gone, "the trainer's end")
    open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    assert writer.do(_closing(1), CrashFs(at=1, error=errno.ENOSPC)) == []
    assert writer.parts.child is None
    assert len(os.listdir("/proc/self/fd")) == open_before - 1  # noqa: PTH208 - names only


def test_a_pivot_does_not_stop_before_the_attempt_s_end_is_durable(
    run: Run, writer: Writer
) -> None:
    writer.do(Spawn(1, None, 1, NO_ORDERS._replace(phases=writer.bandit.phases)))
    text = (run.path / "policy.toml").read_text()
    facts = {"policy": 2, "text": text, "asked_step": 1, "when": "now", "by": "me"}
    writer.do(AdvancePivot("requested", facts))
    stop = AdvancePivot("stopped", {"pin": ResumePoint(1, "a" * 64, "b" * 64), "honoured": None})
    (answer,) = writer.do(stop)
    assert isinstance(answer, Failed)
    journal = archive.read_pivot(run.path)
    assert journal is not None
    assert journal.stage == "requested"
    writer.do(_closing(1))
    seen = CrashFs()
    writer.do(stop, seen)
    record = run.path / "attempts/000001/attempt.json"
    assert seen.durable(record) == record.stat().st_size


def test_a_pivot_s_stage_is_journaled_before_it_is_over(run: Run, writer: Writer) -> None:
    writer.do(Spawn(1, None, 1, NO_ORDERS._replace(phases=writer.bandit.phases)))
    writer.do(_closing(1))
    position = writer.seal(1).ledger
    text = (run.path / "policy.toml").read_text()
    facts = {"policy": 2, "text": text, "asked_step": 1, "when": "now", "by": "me"}
    writer.do(AdvancePivot("requested", facts))
    pin = ResumePoint(position.step, "a" * 64, "b" * 64)
    journal = run.path / "events.jsonl"
    for stage in ("stopped", "installed", "done"):
        seen = CrashFs()
        writer.do(AdvancePivot(stage, {"pin": pin, "honoured": None, "first_step": 2}), seen)
        assert run.events(f"pivot-{stage}")[0]["policy"] == 2
        assert seen.durable(journal) == journal.stat().st_size
        assert seen.trace[-1] == "fsync"  # of the folder, behind the journal's fdatasync
    assert not (run.path / "pivot.json").exists()


def _closing(attempt: int) -> CloseAttempt:
    numbers = {"last_step": 1, "best": -1, "proved": 0, "consistent": 0}
    facts = {"cause": "killed", "status": -9, "ready": True, "sealed": False, "differed": None}
    return CloseAttempt(attempt, {**facts, **numbers})
