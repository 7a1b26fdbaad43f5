"""``audit`` on runs of the real supervisor: clean as they are, and every alteration found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.audited import audit, faults, head_of
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.rewriting import Record, rewrite, rewrite_everything
from tests.support.runs import Run, scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def test_a_history_of_crashes_and_a_pivot_is_clean_and_told(rich: Run) -> None:
    told = audit(rich, "--head", head_of(rich, 300))
    assert (told.code, told.err) == (0, "")
    facts = told.facts()
    lines = rich.ledger()
    last = lines[-1]["step"]
    assert (facts["clean"], facts["faults"], facts["head_held"]) == (True, [], True)
    assert facts["ledger"]["entries"] == facts["ledger"]["steps"] == len(lines) == last
    assert facts["ledger"]["chain"] == lines[-1]["chain"]
    assert facts["attempts"] == len(rich.attempts()) == 6
    # Attempts 2 to 4 ran steps 201 to 250 again, attempt 5 went back behind the seal of step 200.
    assert facts["replays"]["proved"] == 3 * 50 + 150
    assert facts["replays"]["replays"] == 4
    assert [(p["policy"], p["step"]) for p in facts["pivots"]] == [(2, 400)]
    assert facts["seals"] == {"lineage": sorted(rich.seals(), reverse=True), "superseded": 1}
    assert facts["checkpoints"]["present"] == len(rich.seals()) + 1
    assert facts["checkpoints"]["digests"] is True
    text = command("audit", rich.path).out
    for words in (
        f"1 to {last}, no gap, none twice",
        "300 steps proved equal",
        "policy 2 after step 400",
        "1 superseded",
        "clean",
    ):
        assert words in text


def test_a_run_that_lives_is_audited_without_disturbing_it(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=20, rate=500, kill_at=150, attempts="1"), every=20).start()
    seen = []
    while not seen or seen[-1] < 300:
        told = audit(daemon.run) if daemon.run.last_step() else None
        assert told is None or told.code == 0, told
        seen.append(told.facts()["ledger"]["last_step"] if told else 0)
    assert len(set(seen)) > 3
    assert daemon.stop() == 0
    assert audit(daemon.run).facts()["replays"]["proved"] > 0


def test_a_checkpoint_that_somebody_removed_is_told_apart_from_those_of_retention(
    copy: Run,
) -> None:
    assert audit(copy).facts()["checkpoints"]["untold"] == []
    path = copy.path / f"checkpoints/step_{max(copy.seals()):06}.bin"
    path.unlink()
    told = audit(copy)
    assert (told.code, told.facts()["checkpoints"]["untold"]) == (0, [f"checkpoints/{path.name}"])
    text = command("audit", copy.path).out
    assert f"1 deleted since, of which the journal does not tell checkpoints/{path.name}" in text


def test_reading_changes_nothing(copy: Run) -> None:
    def stand() -> dict[str, tuple[int, int]]:
        found = copy.path.rglob("*")
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in found}

    before = stand()
    for words in ("audit", "tail", "loss"):
        assert command(words, copy.path).code == 0
    assert stand() == before


def test_an_edited_line_is_named(copy: Run) -> None:
    path = copy.path / "demo.loss.json"
    lines = path.read_bytes().split(b"\n")
    lines[122] = lines[122].replace(b'"loss":', b'"loss":1')
    path.write_bytes(b"\n".join(lines))
    assert faults(copy)[0] == "demo.loss.json line 123: does not match its chain"


def test_a_line_that_is_gone_is_named_where_it_stood(copy: Run) -> None:
    path = copy.path / "demo.loss.json"
    lines = path.read_bytes().split(b"\n")
    del lines[350]
    path.write_bytes(b"\n".join(lines))
    assert faults(copy)[0] == "demo.loss.json line 351: does not match its chain"


def test_a_ledger_whose_end_was_cut_off_is_not_what_the_seals_say(copy: Run) -> None:
    path = copy.path / "demo.loss.json"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:450]) + b"\n")
    assert faults(copy)[0].startswith("demo.loss.json line 500: entry 500 of step 500 does not end")


def test_a_torn_tail_is_counted_and_no_fault(copy: Run) -> None:
    path = copy.path / "demo.loss.json"
    path.write_bytes(path.read_bytes() + b'{"step":9')
    told = audit(copy)
    assert told.code == 0
    assert told.facts()["ledger"]["torn_tail"] == 9
    assert "9 bytes behind the last line" in command("audit", copy.path).out


def test_a_rewrite_with_a_new_chain_is_found_by_the_seals_and_by_a_head(copy: Run) -> None:
    head = head_of(copy, 300)

    def flatter(record: Record) -> None:
        if record["step"] == 260:
            record["loss"] = 0.5

    rewrite(copy.path / "demo.loss.json", flatter)
    found = faults(copy, "--head", head)
    assert found[0].startswith("demo.loss.json line 300: entry 300 of step 300 does not end")
    assert "checkpoints/step_000300.seal.json" in found[0]
    assert any("the head is not held" in fault for fault in found)
    assert any("certificate.json says" in fault for fault in found)
    assert all("step_000100" not in fault for fault in found)


def test_a_rewrite_of_everything_is_found_by_a_head_noted_before_and_by_nothing_else(
    simple: Run,
) -> None:
    heads = [head_of(simple, step) for step in (100, 200, 300)]
    assert [audit(simple, "--head", head).code for head in heads] == [0, 0, 0]

    def flatter(record: Record) -> None:
        if record["step"] == 150:
            record["loss"] = 0.5

    rewrite_everything(simple.path, flatter)
    assert faults(simple) == []
    assert faults(simple, "--head", heads[0]) == []
    for head in heads[1:]:
        entries, _, seal = head.split(":")
        lost, unsealed = faults(simple, "--head", head)
        assert f"the head is not held: entry {entries} " in lost
        assert f"the head is not held: no seal {seal}" in unsealed
    told = command("audit", simple.path, "--head", heads[2])
    assert "NOT held" in told.out


@pytest.mark.parametrize("head", ["1:2:3", "x", "1:" + "0" * 32, f"-1:{'0' * 32}:{'0' * 32}"])
def test_a_head_of_another_form_is_wrong_use(plain: Run, head: str) -> None:
    told = command("audit", plain.path, f"--head={head}")
    assert told.code == 2
    assert "cannot use the head" in told.complaint()


def test_a_head_put_together_from_two_is_not_held(plain: Run) -> None:
    first, second = (head_of(plain, step).split(":") for step in (100, 200))
    [fault] = faults(plain, "--head", ":".join((*first[:2], second[2])))
    assert "it is the seal of entry 200" in fault
    assert command("audit", plain.path, "--head", "head " + ":".join(first)).code == 0
