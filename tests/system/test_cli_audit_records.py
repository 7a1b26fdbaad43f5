"""``audit`` on altered copies: checkpoints, companions, seals, the journal and its replays."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from hashlib import sha256

import pytest

from tests.support.audited import audit, faults
from tests.support.rewriting import Record, chained, reseal, rewrite
from tests.support.runs import ROOT, Run

pytestmark = pytest.mark.system

SUPERSEDED = "checkpoints/superseded/attempt-000005/step_000200"
CHECKPOINT = "checkpoints/step_000300"


def test_one_bit_of_a_checkpoint_is_found(copy: Run) -> None:
    path = copy.path / f"{CHECKPOINT}.bin"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    [fault] = faults(copy)
    assert fault.startswith(f"{CHECKPOINT}.bin: its digest is")
    path.write_bytes(data[:-4])
    [fault] = faults(copy)
    assert fault == f"{CHECKPOINT}.bin: it holds 772 bytes, its seal says 776"


def test_a_superseded_checkpoint_is_looked_at_too(copy: Run) -> None:
    name = "checkpoints/superseded/attempt-000005/step_000200"
    path = copy.path / f"{name}.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    assert faults(copy)[0].startswith(f"{name}.bin: its digest is")
    path.unlink()
    (copy.path / f"{name}.seal.json").unlink()
    first = faults(copy)[0]
    assert first.startswith("events.jsonl line ")
    assert first.endswith("of step 200 that it tells of is gone")


def test_a_checkpoint_that_retention_deleted_is_no_fault(copy: Run) -> None:
    (copy.path / f"{CHECKPOINT}.bin").unlink()
    told = audit(copy)
    assert (told.code, told.facts()["checkpoints"]["gone"]) == (0, 1)


def test_many_bytes_of_checkpoints_are_read_only_when_asked(copy: Run) -> None:
    path = copy.path / f"{CHECKPOINT}.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    code = (
        "import sys; from supervisor.cli import audit_checkpoints, run;"
        "audit_checkpoints.MOST_UNASKED = 1000; sys.exit(run(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", code, "audit", str(copy.path)]
    few = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (few.returncode, few.stderr) == (0, "")
    assert "sizes only; --digests reads all of them" in few.stdout
    all_of_them = subprocess.run(
        [*words, "--digests"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert all_of_them.returncode == 1
    assert "step_000300.bin: its digest is" in all_of_them.stderr


def test_a_changed_companion_is_found(copy: Run) -> None:
    path = copy.path / f"{CHECKPOINT}.json"
    path.write_bytes(path.read_bytes() + b" ")
    assert faults(copy) == [f"{CHECKPOINT}.json: it is not the companion that was sealed"]
    path.unlink()
    assert faults(copy) == [f"{CHECKPOINT}.json: it is missing"]


def test_a_seal_that_was_written_anew_is_found_wherever_it_stands(copy: Run) -> None:
    newest = max(copy.seals())
    for name in (CHECKPOINT, f"checkpoints/step_{newest:06d}", SUPERSEDED):
        path = copy.path / f"{name}.seal.json"
        before = path.read_bytes()
        reseal(path, lambda seal: seal.update(reason="signal"))
        found = faults(copy)
        digest = sha256(before).hexdigest()[:32]
        assert found[0].startswith(f"{name}.seal.json: it is not the seal {digest} that events")
        path.write_bytes(before)
    assert faults(copy) == []


def test_a_seal_that_reads_as_none_is_found_with_the_reason(copy: Run) -> None:
    path = copy.path / f"{CHECKPOINT}.seal.json"
    path.write_bytes(path.read_bytes().replace(b'"policy": 1', b'"policy": -1'))
    first, *more = faults(copy)
    assert first.startswith(f"{CHECKPOINT}.seal.json: policy: expected a whole number")
    assert any("it follows a seal with digest" in fault for fault in more)


def test_a_seal_that_is_gone_is_missed_by_its_successor(copy: Run) -> None:
    (copy.path / f"{CHECKPOINT}.seal.json").unlink()
    found = faults(copy)
    assert "of step 300 that it tells of is gone" in found[0]
    assert any(
        fault.startswith("checkpoints/step_000400.seal.json: it follows a seal with digest")
        for fault in found
    )


def test_a_seal_that_nothing_comes_from_is_not_of_the_lineage(copy: Run) -> None:
    newest = max(copy.seals())
    path = copy.path / "checkpoints/step_000350.seal.json"
    shutil.copy(copy.path / f"{CHECKPOINT}.seal.json", path)
    assert faults(copy) == [f"{path.relative_to(copy.path)}: it is the seal of step 300"]

    def other(seal: Record) -> None:
        seal |= {"step": 350, "companion": ""}
        seal["ledger"]["step"] = 350
        seal["bin"]["name"] = "step_000350.bin"

    reseal(path, other)
    said = f"it is not of the lineage of step_{newest:06d}.seal.json"
    assert f"{path.relative_to(copy.path)}: {said}" in faults(copy)


def test_a_superseded_seal_in_place_of_another_breaks_the_lineage(copy: Run) -> None:
    current = copy.path / "checkpoints/step_000200.seal.json"
    (copy.path / f"{SUPERSEDED}.seal.json").replace(current)
    found = faults(copy)
    assert found[0].endswith("of step 200 that it tells of is gone")
    assert any("step_000200.seal.json before it is another" in fault for fault in found)


def test_an_edited_event_is_named(copy: Run) -> None:
    path = copy.path / "events.jsonl"
    lines = path.read_bytes().split(b"\n")
    at = next(i for i, line in enumerate(lines) if b'"event":"replay"' in line)
    lines[at] = lines[at].replace(b'"proved":50', b'"proved":51')
    path.write_bytes(b"\n".join(lines))
    assert faults(copy)[0] == f"events.jsonl line {at + 1}: does not match its chain"
    path.unlink()
    assert faults(copy)[0] == "events.jsonl: it is missing"


def test_a_journal_with_a_new_chain_is_not_the_one_that_the_seals_speak_of(copy: Run) -> None:
    def more(record: Record) -> None:
        if record["event"] == "replay":
            record["facts"]["proved"] += 1

    rewrite(copy.path / "events.jsonl", more)
    found = faults(copy)
    assert "events.jsonl line " in found[0]
    assert "seal.json says" in found[0]
    assert any("more steps proved than 201 to 250 are" in fault for fault in found)


def replay(run: Run, **facts: int) -> list[str]:
    """Add a replay to the journal's end, as a supervisor would, and audit."""
    path = run.path / "events.jsonl"
    data = path.read_bytes()
    chain = json.loads(data.splitlines()[-1])["chain"]
    event = {"event": "replay", "facts": facts, "time": "2026-01-31T12:00:00.000Z"}
    path.write_bytes(data + chained([event], chain)[0])
    found = faults(run)
    path.write_bytes(data)
    return found


def test_a_replay_must_be_of_steps_that_an_earlier_attempt_wrote(copy: Run) -> None:
    last = copy.last_step()
    good = {"attempt": 9, "first": 401, "last": last, "proved": 40, "consistent": 0}
    assert replay(copy, **good) == []
    assert "the ledger has not all of them" in replay(copy, **(good | {"last": last + 1}))[0]
    assert "the ledger has not all of them" in replay(copy, **(good | {"attempt": 6}))[0]
    assert "more steps proved" in replay(copy, **(good | {"proved": 1000}))[0]
    assert "without its numbers" in replay(copy, attempt=9)[0]


def test_a_replay_told_twice_counts_once(copy: Run) -> None:
    path = copy.path / "events.jsonl"
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    again = next(event for event in events if event["event"] == "replay")
    path.write_bytes(chained([*events, again])[0])
    assert audit(copy).facts()["replays"] == {
        "replays": 4,
        "proved": 300,
        "consistent": 0,
        "differed": [],
    }
