"""Report lines are whole, numbered without a gap, and none is ever lost to a full disk."""

from __future__ import annotations

import contextlib
import errno
import sys
from pathlib import Path

import pytest

from tests.support.crash_fs import CrashFs, crash_fs
from tests.trainer.tiny import Life, live, read_reports
from trainer.contract.wire import Checkpoint, Doing, Ready, Step, read_report
from trainer.errors import TrainerError
from trainer.orders import NO_ORDERS, OrdersFile
from trainer.reports import FileReports, say


def never() -> bool:
    return False


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reports.jsonl"


def test_reports_are_numbered_from_one_without_a_gap(run: Path) -> None:
    life = live(run)
    assert [report.seq for report in life.reports] == list(range(1, len(life.reports) + 1))
    ats = [report.at for report in life.reports]
    assert ats == sorted(ats)


def test_the_order_of_a_life_is_load_ready_steps_phases_save_checkpoint(life_of_ten: Life) -> None:
    kinds = [type(r).__name__ for r in life_of_ten.reports]
    steps = ["Step"] * 7 + ["Phase"] + ["Step"] * 3
    assert kinds == ["Doing", "Ready", *steps, "Doing", "Checkpoint", "Finished"]
    doing = [(r.what, r.step) for r in life_of_ten.of(Doing)]
    assert doing == [("load", 0), ("save", 10)]
    ready = life_of_ten.of(Ready)[0]
    assert ready.n_params == life_of_ten.run.state.n_params
    assert ready.companion


@pytest.fixture
def life_of_ten(run: Path) -> Life:
    return live(run, stop_after=10)


def test_extras_are_the_gradients_norm_and_the_tokens_trained_on(life_of_ten: Life) -> None:
    extras = [dict(step.extras) for step in life_of_ten.of(Step)]
    assert [extra["tokens"] for extra in extras] == [36.0 * n for n in range(1, 11)]
    assert all(0 < extra["grad_norm"] < 100 for extra in extras)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("kept", [0, 1, 40])
def test_a_line_that_finds_no_room_is_continued_when_there_is(
    path: Path, capfd: pytest.CaptureFixture[str], number: int, kept: int
) -> None:
    reports = FileReports(path, never)
    with crash_fs(CrashFs(at=2, keep=kept, error=number, times=3)):
        for step in range(3):
            reports.send("doing", what="save", step=step)
    reports.close()
    assert [report.seq for report in read_reports(path)] == [1, 2, 3]
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith(f"cannot write a report to {path}: ")
    assert said[1:] == ["reports can be written again"]


def test_no_step_is_trained_while_a_report_cannot_be_written(run: Path) -> None:
    plan = CrashFs()
    with crash_fs(plan):
        life = live(
            run,
            stop_after=6,
            acts={("step", 3): lambda: plan.__dict__.update(at=plan.calls + 1, error=errno.ENOSPC)},
        )
    assert [step.step for step in life.of(Step)] == [1, 2, 3, 4, 5, 6]
    blocked = life.of(Step)[3]
    following = next(report for report in life.reports if report.seq == blocked.seq + 1)
    assert following.at - blocked.at >= 0.05


def test_another_error_ends_the_trainer_with_a_line(path: Path) -> None:
    reports = FileReports(path, never)
    with (
        crash_fs(CrashFs(at=1, error=errno.EBADF)),
        pytest.raises(TrainerError, match=r"cannot write a report to .*: Bad file descriptor"),
    ):
        reports.send("doing", what="save", step=1)
    reports.close()


def test_a_failed_sync_of_the_reports_ends_the_trainer_before_its_checkpoint(run: Path) -> None:
    plan = CrashFs()
    with (
        crash_fs(plan),
        pytest.raises(TrainerError, match=r"cannot make .*reports-1\.jsonl durable: Input/output"),
    ):
        live(
            run,
            stop_after=3,
            acts={("doing", 3): lambda: plan.__dict__.update(at=plan.calls + 1, error=errno.EIO)},
        )
    assert not (run / "checkpoints").exists()


def test_reports_are_durable_before_the_checkpoint_that_rests_on_them(run: Path) -> None:
    plan = CrashFs()
    sizes: list[tuple[int, int]] = []
    path = run / "reports-1.jsonl"

    def note() -> None:
        sizes.append((plan.durable(path), path.read_bytes().rindex(b'{"seq"')))

    with crash_fs(plan):
        live(run, stop_after=5, acts={("checkpoint", 5): note})
    durable, up_to_the_checkpoint_report = sizes[0]
    assert durable == up_to_the_checkpoint_report > 0


def test_a_short_write_is_continued_where_it_stopped(path: Path) -> None:
    reports = FileReports(path, never)
    with crash_fs(CrashFs(short=7)):
        reports.send("doing", what="save", step=1)
    reports.close()
    assert len(read_reports(path)) == 1


def test_a_loss_that_is_not_finite_is_reported_as_such(run: Path) -> None:
    life = live(
        run,
        stop_after=2,
        change=lambda built: built.state.model.tokens.data.fill_(float("nan")),
    )
    step = life.of(Step)[0]
    assert (step.loss, step.nonfinite) == (None, "nan")
    assert dict(step.extras)["grad_norm"] is None
    assert life.of(Checkpoint)[0].step == 2


def test_orders_are_read_again_only_when_their_stamp_changes(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    book = OrdersFile(path)
    assert (book.look(), book.now) == ("", NO_ORDERS)
    path.write_text('{"serial": 1, "phases": [], "save": null, "hold": "lunch"}')
    assert (book.look(), book.now.hold) == ("", "lunch")
    before = book.now
    assert book.look() == ""
    assert book.now is before


def test_broken_orders_are_spoken_of_once_and_the_former_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    path.write_text('{"serial": 1, "phases": [], "save": null, "hold": "lunch"}')
    book = OrdersFile(path)
    book.look()
    path.write_text('{"serial": "two"}')
    assert book.look().startswith(f"cannot use {path}: cannot use phases=None")
    assert book.look() == ""
    path.unlink()
    assert (book.look(), book.now.hold) == ("", "lunch")


def test_every_line_is_read_by_the_contract(life_of_ten: Life) -> None:
    lines = (life_of_ten.checkpoints.parent / "reports-1.jsonl").read_bytes().splitlines()
    assert all(read_report(line) for line in lines)
    assert all(line.isascii() for line in lines)


def test_a_complaint_that_finds_no_room_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", buffering=1) as full:  # noqa: PTH123 - a device
        monkeypatch.setattr(sys, "stderr", full)
        say("cannot write the checkpoint: no room")
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
