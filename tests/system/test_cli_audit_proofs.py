"""``audit`` on altered copies: pivots, attempts, marks; runs that cannot be judged; the bar."""

from __future__ import annotations

import json
import pty
import select
import shutil
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_seals import Seals
from supervisor.cli.reading_progress import Progress
from tests.support.audited import audit, faults
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.rewriting import Record, rewrite
from tests.support.runs import Run, make_run, scripted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def certificate(run: Run) -> Path:
    [path] = (run.path / "archive").glob("pivot-0002-*/certificate.json")
    return path


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"asked_step": 1}, "asked at step 1; events.jsonl says step 3"),
        ({"first_step": 402}, "its first step is 402, its pin is of step 400"),
        ({"done": None}, "it does not say what events.jsonl line"),
        ({"run": "f" * 16}, "it is of run ffff"),
        ({"policy_before_sha256": "0" * 64}, "0001.toml is not the policy that it speaks of"),
        ({"policy_after": 3}, "it is of the pivot to policy 3 at step 400"),
        ({"schema": "stepkeeper.certificate/9"}, "certificate.json: "),
    ],
    ids=["asked", "first", "done", "run", "before", "after", "schema"],
)
def test_an_altered_certificate_is_found(copy: Run, what: Record, said: str) -> None:
    path = certificate(copy)
    path.write_text(json.dumps(json.loads(path.read_text()) | what))
    assert any(
        fault.startswith("archive/pivot-0002-step-000400/certificate.json") and said in fault
        for fault in faults(copy)
    )


def test_a_certificate_must_say_where_the_ledger_stood_and_what_was_pinned(copy: Run) -> None:
    path = certificate(copy)
    before = json.loads(path.read_text())
    for part, key, value, said in (
        ("ledger_at_stop", "bytes", 1, "the ledger grew"),
        ("ledger_at_install", "chain", "0" * 32, "the ledger grew"),
        ("pin", "sha256", "0" * 64, "the seal of its pin, step_000400.seal.json, is of another"),
        ("pin", "seal", "0" * 64, "is there for its pin"),
    ):
        path.write_text(json.dumps(before | {part: before[part] | {key: value}}))
        assert any(said in fault for fault in faults(copy)), (part, key)
    stood = before["ledger_at_stop"] | {"entries": 399}
    path.write_text(json.dumps(before | {"ledger_at_stop": stood, "ledger_at_install": stood}))
    assert any("entry 399 of step 400 does not end" in fault for fault in faults(copy))
    path.unlink()
    assert "certificate.json: it is missing; events.jsonl line" in faults(copy)[0]


def test_what_a_pivot_put_away_stays_as_it_was(copy: Run) -> None:
    folder = certificate(copy).parent
    state = folder / "demo.state.json"
    state.write_text(state.read_text() + " ")
    assert faults(copy)[0].endswith("demo.state.json is not what was put away")
    state.unlink()
    assert faults(copy)[0].endswith("demo.state.json, which was put away, is missing")


def test_a_policy_that_was_in_force_stays_as_it_was(copy: Run) -> None:
    path = copy.path / "policies" / "0002.toml"
    path.write_text(path.read_text() + "\n")
    assert faults(copy)[0].endswith("policies/0002.toml is not the policy that it speaks of")


def test_an_attempts_record_is_held_against_ledger_and_seals(copy: Run) -> None:
    path = copy.path / "attempts/000006/attempt.json"
    before = json.loads(path.read_text())
    for what, said in (
        ({"policy": 1}, "policy 2; attempts/000006/attempt.json says 1"),
        ({"attempt": 7}, "it is the record of attempt 7"),
        ({"resume": before["resume"] | {"seal": "0" * 64}}, "is there to resume from"),
        ({"resume": before["resume"] | {"sha256": "0" * 64}}, "is not what attempt 6 resumed from"),
        ({"surprise": 1}, "attempts/000006/attempt.json: "),
    ):
        path.write_text(json.dumps(before | what))
        assert any(said in fault for fault in faults(copy)), what
    path.unlink()
    assert "demo.loss.json line 401: attempt 6 has no record" in faults(copy)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (f"from:{'0' * 32}", "names a checkpoint that no seal knows"),
        (f"seal:{'0' * 32}", "names a seal that is not there"),
        ("seal:", "is none that is known"),
        ("hello", "is none that is known"),
    ],
)
def test_a_mark_must_name_something_that_is_there(copy: Run, mark: str, said: str) -> None:
    def other(record: Record) -> None:
        if record["step"] == 450:
            record["mark"] = mark

    rewrite(copy.path / "demo.loss.json", other)
    assert f"demo.loss.json line 450: its mark {mark!r} {said}" in faults(copy)


def test_a_mark_may_not_stand_before_what_it_names(copy: Run) -> None:
    marked = next(e["seal"] for e in copy.events("sealed") if e["step"] == 400)[:32]

    def early(record: Record) -> None:
        if record["step"] == 350:
            record["mark"] = f"seal:{marked}"

    rewrite(copy.path / "demo.loss.json", early)
    assert any("line 350" in f and "stands before its seal" in f for f in faults(copy))


def test_a_replay_that_differs_is_told_and_no_fault(supervise: Supervise) -> None:
    trainer = scripted(
        steps=300, every=100, kill_at=150, differ_from=130, attempts="1", no_data=True
    )
    daemon = supervise(trainer, every=100).start()
    assert daemon.wait() == 0
    told = audit(daemon.run).facts()
    assert (told["clean"], told["replays"]["differed"]) == (True, [[2, 130]])
    assert (told["replays"]["proved"], told["replays"]["consistent"]) == (0, 29)
    assert told["ledger"]["voided"] == 21
    text = command("audit", daemon.run.path).out
    assert "attempt 2 differed from step 130 on" in text
    assert "21 older lines are voided" in text
    assert "29 equal, without a digest" in text


def test_what_cannot_be_determined_is_neither_yes_nor_no(tmp_path: Path, simple: Run) -> None:
    fresh = make_run(tmp_path / "fresh", scripted())
    told = command("audit", fresh.path)
    assert (told.code, "it has no history yet" in told.complaint()) == (2, True)
    ledger = simple.path / "demo.loss.json"
    away = simple.path / "away"
    ledger.rename(away)
    assert faults(simple)[0] == "demo.loss.json: it is missing"
    ledger.mkdir()
    assert command("audit", simple.path).code == 2
    ledger.rmdir()
    shutil.copy(away, ledger)
    shutil.copy(away, simple.path / "other.loss.json")
    assert faults(simple) == ["other.loss.json: a second ledger stands beside demo.loss.json"]
    (simple.path / "run.toml").write_text("name = ")
    assert command("audit", simple.path).code == 1  # by the settings in force
    shutil.rmtree(simple.path / "settings")
    told = command("audit", simple.path)
    assert (told.code, "run.toml" in told.complaint()) == (2, True)


def test_a_seal_that_is_written_meanwhile_is_not_missed(copy: Run) -> None:
    newest = max(copy.seals())
    path = copy.path / f"checkpoints/step_{newest:06d}.seal.json"
    digest, of_bin = sha256(path.read_bytes()).hexdigest(), copy.seals()[newest]["bin"]["sha256"]
    away = copy.path / "away"
    path.rename(away)
    seals = Seals(Findings(copy.path))
    assert seals.find(digest) is None
    away.rename(path)
    assert seals.find(digest[:32]) is not None
    path.rename(away)
    seals = Seals(Findings(copy.path))
    away.rename(path)
    assert seals.of_bin(of_bin[:32]) is not None


def test_a_seal_that_is_listed_and_never_there_leaves_the_answer_open(copy: Run) -> None:
    (copy.path / "checkpoints/step_000999.seal.json").symlink_to("nowhere")
    told = command("audit", copy.path)
    assert (told.code, "they do not stand still" in told.complaint()) == (2, True)


def test_progress_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as screen, open(theirs, "w") as terminal:  # noqa: PTH123 - descriptors
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress() as progress:

            def drawn() -> bool:
                progress.show("checkpoints", 1, 4)
                return bool(select.select([screen], [], [], 0)[0])

            assert not drawn()
            wait_until(drawn, "a bar")
            assert b"checkpoints [########" in screen.read(1000)
        assert screen.read(1000).endswith(b"\r\x1b[K")


def test_progress_is_silent_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress._due = 0.0 if sys.stderr.isatty() else progress._due
        progress.show("checkpoints", 1, 4)
    assert capsys.readouterr().err == ""
