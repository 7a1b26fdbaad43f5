"""What the writer does while the disk refuses for longer: what waits, and what goes past it."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.core.messages import (
    GiveOrders,
    KeepIntent,
    Record,
    Recorded,
    SignalTrainer,
    Spawn,
    SpawnFailed,
)
from supervisor.core.state import NO_ORDERS
from tests.support.crash_fs import CrashFs, crash_fs
from tests.support.daemon import end_all
from tests.support.runs import Run, make_run, scripted
from tests.support.waiting import wait_until
from tests.system.test_writer_trouble import Writer
from trainer.contract.wire import Step

STEP = Step(1, 1.0, 1, 2.5, "", "a", 0.1, "", 1, ())


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = make_run(tmp_path / "run", scripted(), settings="[disk]\nreserve = 0.0625\n")
    yield run
    end_all(run)


@pytest.fixture
def writer(run: Run) -> Iterator[Writer]:
    writer = Writer(run)
    writer.parts.ledger.begin(1, 0, "")
    yield writer
    writer.close()


def refuse(writer: Writer, number: int, run: Callable[[], None], step: Step = STEP) -> None:
    """Every write is refused while ``run`` lasts, and the ledger's line waits."""
    with crash_fs(CrashFs(at=1, times=1 << 30, error=number)):
        writer.performer.submit(Record(1, 1, (step,)))
        wait_until(lambda: writer.performer.waiting, "a line that waits")
        run()


def until_in(writer: Writer) -> list[str]:
    """Wait until nothing waits any more; the kinds of what was put, in order."""
    wait_until(lambda: not writer.performer.waiting, "the end of the trouble")
    return [type(item).__name__ for item in writer.said]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_ledger_line_is_tried_until_it_is_in(writer: Writer, run: Run, number: int) -> None:
    refuse(writer, number, lambda: None)
    assert until_in(writer) == ["Recorded"]
    assert [line["step"] for line in run.ledger()] == [1]


def test_a_seal_never_goes_before_its_lines(writer: Writer, run: Run) -> None:
    seal = writer.seal(1)

    def ask() -> None:
        writer.do(seal)
        assert run.seals() == {}

    refuse(writer, errno.ENOSPC, ask, STEP._replace(step=2, seq=2))
    assert until_in(writer)[-2:] == ["Recorded", "Sealed"]
    assert sorted(run.seals()) == [1]


def test_orders_intent_and_signals_go_past_a_line_that_waits(writer: Writer, run: Run) -> None:
    plan = CrashFs(at=1, times=1 << 30, error=errno.ENOSPC)
    with crash_fs(plan):
        writer.performer.submit(Record(1, 1, (STEP,)))
        wait_until(lambda: writer.performer.waiting, "a line that waits")
        plan.at = 0  # there is room, and the line is not tried again yet
        writer.do(GiveOrders(NO_ORDERS._replace(serial=9, hold="full")))
        writer.do(KeepIntent("stop", "me", done=False))
        assert json.loads((run.path / "orders.json").read_bytes())["hold"] == "full"
        assert (run.read("intent.json") or {})["want"] == "stop"
        assert run.ledger() == []
    assert until_in(writer).count("Recorded") == 1


def test_orders_and_intent_that_find_no_room_are_written_as_soon_as_there_is(
    writer: Writer, run: Run
) -> None:
    def ask() -> None:
        writer.do(KeepIntent("stop", "me", done=False, hold=True))
        for serial in (1, 2, 3):
            writer.do(GiveOrders(NO_ORDERS._replace(serial=serial)))
        writer.do(KeepIntent("stop", "", done=True))

    refuse(writer, errno.EROFS, ask)
    until_in(writer)
    intent = run.read("intent.json") or {}
    assert (intent["by"], intent["hold"], intent["done"]) == ("me", True, True)
    assert (run.read("orders.json") or {})["serial"] == 3


def test_the_ballast_is_given_back_first_and_the_line_goes_in(writer: Writer, run: Run) -> None:
    reserve = writer.parts.reserve
    while not reserve.grow(1 << 14):
        pass
    assert (run.path / "reserve").stat().st_blocks * 512 >= 1 << 16
    (answer,) = writer.do(Record(1, 1, (STEP,)), CrashFs(at=1, error=errno.ENOSPC))
    assert isinstance(answer, Recorded)
    assert reserve.held == 0
    assert not (run.path / "reserve").exists()
    assert writer.troubles == ["cannot append to the ledger: No space left on device"]


def test_a_start_that_finds_no_room_waits_for_it(writer: Writer, run: Run) -> None:
    spawn = Spawn(1, None, 1, NO_ORDERS._replace(phases=writer.bandit.phases))
    with crash_fs(CrashFs(at=1, times=1 << 30, error=errno.ENOSPC)):
        writer.performer.submit(spawn)
        wait_until(lambda: writer.performer.waiting, "a start that waits")
        assert run.pids() == []
    assert until_in(writer) == ["Spawned"]
    wait_until(run.pids, "the trainer")


def test_a_start_that_waits_is_taken_back_when_it_is_to_be_ended(writer: Writer, run: Run) -> None:
    spawn = Spawn(1, None, 1, NO_ORDERS._replace(phases=writer.bandit.phases))
    with crash_fs(CrashFs(at=1, times=1 << 30, error=errno.ENOSPC)):
        writer.performer.submit(spawn)
        wait_until(lambda: writer.performer.waiting, "a start that waits")
        (answer,) = writer.do(SignalTrainer(1, "KILL"))
    assert isinstance(answer, SpawnFailed)
    wait_until(lambda: not writer.performer.waiting, "the journal's line, and nothing else")
    assert run.pids() == []


def test_what_finds_no_room_to_the_end_is_named(
    writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(writer, errno.ENOSPC, writer.performer.close)
    said = capsys.readouterr().out
    assert "left undone, since the disk takes nothing: append to the ledger\n" in said
    writer.begin()
