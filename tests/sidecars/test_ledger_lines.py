"""The layout of a ledger's lines, their marks, and which ledger is refused at open."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from supervisor.core.chain import START
from supervisor.core.messages import LedgerPosition
from supervisor.errors import LedgerError
from supervisor.sidecars.ledger import Ledger, audit
from supervisor.sidecars.ledger.line import torn_time
from tests.support.steps import DIGEST, WALL, again, fields, keep, new, step, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.loss.json"


def test_a_line_has_exactly_this_layout(path: Path) -> None:
    ledger = new(path)
    ledger.record(1, 3, [step(7, loss=3.2311, lr=0.0003, data="0123456789abcdef")], WALL)
    ledger.close()
    body, chain = path.read_bytes().split(b',"chain":"')
    assert body == (
        b'{"step":7,"loss":3.2311,"nonfinite":"","arm":"chat","lr":0.0003,"policy":3,"attempt":1,'
        b'"data":"0123456789abcdef","mark":"run:R","time":"2026-01-31T12:00:00.123Z"'
    )
    assert chain.endswith(b'"}\n')
    assert len(chain) == 32 + len('"}\n')


def test_numbers_are_the_shortest_text_with_point_or_exponent(path: Path) -> None:
    ledger = new(path)
    values = [3.0, 1e22, 1e-7, 0.1 + 0.2, 5e-324, -0.0]
    ledger.record(1, 1, [step(i, loss=v, lr=v) for i, v in enumerate(values, 1)], WALL)
    ledger.close()
    texts = [line.split(b'"loss":')[1].split(b",")[0] for line in path.read_bytes().splitlines()]
    assert texts == [b"3.0", b"1e+22", b"1e-07", b"0.30000000000000004", b"5e-324", b"-0.0"]
    assert [line["lr"] for line in fields(path)] == values


@pytest.mark.parametrize("word", ["nan", "inf", "-inf"])
def test_a_loss_that_is_not_finite_is_null_with_its_word(path: Path, word: str) -> None:
    ledger = new(path)
    ledger.record(1, 1, [step(1), step(2, loss=None, nonfinite=word), step(3)], WALL)
    ledger.close()
    second = fields(path)[1]
    assert (second["loss"], second["nonfinite"]) == (None, word)
    assert b"NaN" not in path.read_bytes()
    assert audit(path).nonfinite == 1


def test_extras_are_fixed_by_the_attempts_first_line_and_are_floats_or_null(path: Path) -> None:
    ledger = new(path)
    ledger.record(
        1,
        1,
        [
            step(1, extras=(("grad_norm", 1.0), ("tokens", 64))),
            step(2, extras=(("tokens", None), ("surprise", 2.0))),
            step(3),
        ],
        WALL,
    )
    ledger.close()
    assert [list(line)[8:-3] for line in fields(path)] == [["grad_norm", "tokens"]] * 3
    assert [(line["grad_norm"], line["tokens"]) for line in fields(path)] == [
        (1.0, 64.0),
        (None, None),
        (None, None),
    ]
    assert b'"tokens":64.0' in path.read_bytes()


def test_extras_stay_fixed_when_another_supervisor_goes_on(path: Path) -> None:
    ledger = new(path)
    position = ledger.record(1, 1, [step(1, extras=(("tokens", 1.0),))], WALL).position
    ledger.close()
    for after in (None, position):
        ledger = again(path, after)
        ledger.begin(1, 0, "")
        number = ledger.position.step + 1
        ledger.record(1, 1, [step(number, extras=(("other", 5.0),))], WALL)
        ledger.close()
    assert [list(line)[8:-3] for line in fields(path)] == [["tokens"]] * 3


def test_an_extra_with_a_name_of_the_ledgers_own_gets_an_underscore(path: Path) -> None:
    ledger = new(path)
    extras = (("time", 0.5), ("policy", 9.0), ('odd"name', 1.0))
    ledger.record(1, 1, steps(1, 2, extras=extras), WALL)
    ledger.close()
    for line in fields(path):
        assert (line["time"], line["time_"], line["policy"], line["policy_"]) == (WALL, 0.5, 1, 9.0)
        assert line['odd"name'] == 1.0
    assert not audit(path).fault


def test_marks_come_one_a_line_run_first_then_from_then_seals(path: Path) -> None:
    ledger = Ledger.open(path, "R", None, fresh=True)
    ledger.mark("seal:" + "1" * 32)
    ledger.begin(1, 0, DIGEST)
    ledger.mark("seal:" + "2" * 32)
    ledger.mark("seal:" + "2" * 32)
    ledger.record(1, 1, steps(1, 6), WALL)
    ledger.close()
    assert [line["mark"] for line in fields(path)] == [
        "run:R",
        "from:" + DIGEST[:32],
        "seal:" + "1" * 32,
        "seal:" + "2" * 32,
        "",
        "",
    ]


def test_an_attempt_says_where_it_came_from_once_however_often_supervisors_change(
    path: Path,
) -> None:
    keep(path, (1, 0, steps(1, 5)), (2, 3, steps(4, 7)), (2, 3, steps(4, 9)), (3, 9, []))
    assert [line["mark"] for line in fields(path)] == [
        "run:R", *[""] * 4, "from:" + DIGEST[:32], *[""] * 3
    ]  # fmt: skip


def test_a_from_mark_that_the_first_line_pushed_back_is_not_lost_with_the_supervisor(
    path: Path,
) -> None:
    for last in (1, 2):
        ledger = Ledger.open(path, "R", None, fresh=True)
        ledger.begin(1, 0, DIGEST)
        ledger.record(1, 1, steps(1, last), WALL)
        ledger.close()
    assert [line["mark"] for line in fields(path)] == ["run:R", "from:" + DIGEST[:32]]


def test_a_seals_mark_that_a_line_bears_is_not_written_again(path: Path) -> None:
    ledger = new(path)
    position = ledger.record(1, 1, steps(1, 3), WALL).position
    ledger.mark("seal:" + "1" * 32)
    ledger.record(1, 1, steps(4, 5), WALL)
    ledger.close()
    ledger = again(path, position)
    ledger.mark("seal:" + "1" * 32)
    ledger.begin(1, 0, "")
    ledger.record(1, 1, steps(4, 8), WALL)
    ledger.close()
    assert [line["mark"] for line in fields(path)][3:] == ["seal:" + "1" * 32, "", "", "", ""]


def test_the_file_is_readable_by_the_group(path: Path) -> None:
    new(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_the_ledger_offers_nothing_that_shortens_renames_or_resets() -> None:
    assert {name for name in dir(Ledger) if not name.startswith("_")} == {
        "begin", "close", "last_step", "losses", "lost",
        "mark", "note_cut", "open", "record", "sync",
    }  # fmt: skip


def test_a_record_call_makes_one_write_of_whole_lines_and_at_most_64_kib(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = os.write, []

    def write(descriptor: int, data: bytes) -> int:
        written.append(bytes(data))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    ledger = new(path)
    ledger.record(1, 1, steps(1, 100), WALL)
    assert len(written) == 2, "the line that names the run is durable before any other"
    ledger.record(1, 1, steps(101, 1100), WALL)
    ledger.close()
    assert len(written) == 2 + 4
    assert all(data.endswith(b"\n") and len(data) <= 1 << 16 for data in written)


# ---------------------------------------------------------------- what is refused


def refused(path: Path, after: LedgerPosition | None = None, run: str = "R") -> str:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(path, run, after, fresh=False)
    message = str(caught.value)
    assert message.startswith("cannot ")
    assert "\n" not in message
    return message


def test_a_missing_ledger_is_refused_unless_the_run_is_new(path: Path) -> None:
    assert "missing" in refused(path)
    assert not path.exists()
    new(path).close()
    again(path).close()


def test_a_second_ledger_in_the_folder_is_refused(path: Path) -> None:
    new(path).close()
    (path.parent / "old.loss.json").write_bytes(b"")
    assert "old.loss.json" in refused(path)


def test_a_ledger_shorter_than_the_seal_says_is_refused(path: Path) -> None:
    ledger = new(path)
    position = ledger.record(1, 1, steps(1, 5), WALL).position
    ledger.close()
    path.write_bytes(path.read_bytes()[:-10])
    assert f"speaks of {position.bytes}" in refused(path, position)


def test_a_ledger_of_another_run_is_refused(path: Path) -> None:
    ledger = new(path)
    position = ledger.record(1, 1, steps(1, 5), WALL).position
    ledger.close()
    for after in (None, position):
        assert "another run" in refused(path, after, run="S")


def test_a_ledger_changed_at_the_seals_line_is_refused(path: Path) -> None:
    ledger = new(path)
    ledger.record(1, 1, steps(1, 5), WALL)
    position = ledger.position
    ledger.close()
    whole = path.read_bytes()
    other = position._replace(chain="f" * 32)
    inside = position._replace(bytes=position.bytes - 1)
    assert "not the end of the line" in refused(path, other)
    assert "not the end of the line" in refused(path, inside)
    path.write_bytes(whole[:-1] + b"x")
    assert "not the end of the line" in refused(path, position)
    digit = b"0" if whole[-4:-3] != b"0" else b"1"
    path.write_bytes(whole[:-4] + digit + whole[-3:])
    refused(path, position)


def test_a_changed_first_line_is_refused_and_so_is_a_file_of_other_lines(path: Path) -> None:
    ledger = new(path)
    ledger.record(1, 1, steps(1, 5), WALL)
    position = ledger.position
    ledger.close()
    path.write_bytes(path.read_bytes().replace(b'"run:R"', b'"run:S"', 1))
    assert "line 1 does not match" in refused(path)
    assert "line 1 does not match" in refused(path, position)


def test_a_folder_in_the_ledgers_place_is_refused(path: Path) -> None:
    path.mkdir()
    assert "not a regular file" in refused(path)


def test_a_new_run_has_no_ledger_position(path: Path) -> None:
    ledger = new(path)
    assert ledger.position == LedgerPosition(0, 0, START, 0)
    assert ledger.torn is None
    ledger.close()


@pytest.mark.parametrize("count", range(len(WALL) + 1))
def test_a_torn_time_is_completed_to_a_real_one_not_after_the_true_one(count: int) -> None:
    for wall in (
        WALL,
        "2026-02-28T09:10:11.120Z",
        "2028-02-29T23:59:59.999Z",
        "2026-04-30T00:00:00.000Z",
    ):
        begun = wall[:count]
        found = torn_time(b'"mark":"","time":"' + begun.encode(), "2031-10-10T10:10:10.100Z")
        assert found.startswith(begun)
        assert len(found) == len(WALL)
        if count > 3:
            assert found <= wall
