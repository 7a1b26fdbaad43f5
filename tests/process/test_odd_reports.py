"""Reports that no honest trainer writes are read or refused with a reason, and never throw."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trainer.contract.wire import Sample, Step, WireError, read_orders, read_report

HUGE = "9" * 400  # beyond any float


def step(loss: str = "1.0", lr: str = "0.1", arm: str = "a", more: str = "") -> str:
    return (
        f'{{"seq":1,"report":"step","at":1.0,"step":1,"loss":{loss},"lr":{lr},"arm":"{arm}"{more}}}'
    )


def other(name: str, fields: str) -> str:
    return f'{{"seq":1,"report":"{name}","at":1.0,"step":1,{fields}}}'


@pytest.mark.parametrize(
    "line",
    [
        '{"seq":1,"report":[]}',
        '{"seq":1,"report":{}}',
        step(loss=HUGE),
        step(loss="[]"),
        step(loss="{}"),
        step(lr=HUGE),
        step(arm=f"a={HUGE * 20}"),
        step(more=f',"x":{HUGE}'),
        other("evaluation", f'"losses":{{"a":{HUGE}}}'),
        other("ready", f'"n_params":{HUGE},"pid":1,"companion":true'),
        other("phase", '"phase":1,"first":5,"last":2,"repeated":false,"weights":{},"arms":[]'),
    ],
)
def test_an_odd_report_is_refused_with_a_reason(line: str) -> None:
    with pytest.raises(WireError, match="cannot"):
        read_report(line.encode())


@pytest.mark.parametrize("save", ["5", "[]", '"now"', "true"])
def test_an_order_that_is_no_object_is_refused_with_a_reason(save: str) -> None:
    with pytest.raises(WireError, match="cannot use save"):
        read_orders(f'{{"serial":1,"phases":[],"save":{save},"hold":null}}'.encode())


def test_a_text_cut_in_the_middle_of_a_character_can_be_written_on() -> None:
    line = rb'{"seq":1,"report":"sample","at":1.0,"step":1,"prompt":"\ud83d","text":"x\ud83d\ude00'
    sample = read_report(line + rb'\udc80","temperature":1.0}')
    assert isinstance(sample, Sample)
    assert (sample.prompt, sample.text) == ("\ufffd", "x\U0001f600\ufffd")


@pytest.mark.parametrize("leave_out", [str, lambda more: more + ',"data":"","phase":0'])
def test_extras_are_kept_whatever_else_the_trainer_leaves_out(
    leave_out: Callable[[str], str],
) -> None:
    found = read_report(step(more=leave_out(',"grad_norm":0.5')).encode())
    assert isinstance(found, Step)
    assert found.extras == (("grad_norm", 0.5),)
