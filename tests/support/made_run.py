"""A run with a whole history, written by the project's own writers in a moment, without a process.

Five attempts over ``scale`` times 2,400 steps: a kill and an exact replay, an out-of-memory end and
a replay that differs, a pivot, a hang, a stop. Six arms, seals, a pin, a rejection, samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from supervisor.core.messages import LedgerPosition
from supervisor.sidecars import archive, attempts, events
from supervisor.sidecars.archive import Certificate, PinModel, PositionModel
from supervisor.sidecars.attempts import AttemptModel, EndModel, ResumeModel
from supervisor.sidecars.checkpoints import pin, reject, write_seal
from supervisor.sidecars.checkpoints.seals import EventsAt, LedgerAt, ReportsAt
from supervisor.sidecars.ledger import Cut, Ledger
from tests.sidecars.sealing import checkpoint, record
from tests.support.made_steps import AFTER, BEFORE, Life, made_step, reports_of
from tests.support.runs import Run, make_run, policy_text
from trainer.contract.wire import Step

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
ID = "5eed5eed5eed5eed"
_BATCH = 300
_WORDS = (
    "the",
    "quiet",
    "harbour",
    "kept",
    "its",
    "lamps",
    "lit",
    "while",
    "ships",
    "came",
    "home",
)


def lives(scale: int) -> list[Life]:
    """The five attempts."""
    return [
        Life(1, 1, 0, 743 * scale, "killed"),
        Life(2, 1, 700 * scale, 1215 * scale, "out of memory"),
        Life(3, 1, 1200 * scale, 1400 * scale, "stopped"),
        Life(4, 2, 1400 * scale, 1930 * scale, "hung"),
        Life(5, 2, 1900 * scale, 2400 * scale, "stopped"),
    ]


def make(folder: Path, scale: int = 1, every: int = 0) -> Run:
    """Write the run; a checkpoint every 100 times ``scale`` steps, or every so many."""
    every = every or 100 * scale
    run = make_run(folder, ["true"], arms=BEFORE, every=every, algorithm="ucb1")
    _Maker(run.path, scale, every).write()
    return run


def wall(step: float) -> str:
    """When a step was recorded: ten seconds each."""
    moment = START + timedelta(seconds=10 * step)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


class _Maker:
    def __init__(self, run: Path, scale: int, every: int) -> None:
        self.run, self.scale, self.every = run, scale, every
        self.checkpoints = run / "checkpoints"
        self.checkpoints.mkdir()
        self.journal = events.Events.open(run / "events.jsonl")
        self.ledger = Ledger.open(run / "demo.loss.json", ID, None, fresh=True)
        self.previous = ""
        self.seals: dict[int, tuple[str, str]] = {}
        self.samples: list[dict[str, Any]] = []

    def write(self) -> None:
        archive.install_policy(self.run, 1, (self.run / "policy.toml").read_bytes())
        self.tell("run-created", 0, run=ID, origin="")
        for life in lives(self.scale):
            if life.number == 4:
                self.pivot(life.resumed)
            self.live(life)
        self.ledger.sync()
        self.ledger.close()
        self.marks()
        self.journal.sync()
        self.journal.close()
        self.keep_samples(self.run)
        intent = {"want": "stop", "by": "operator", "boot_id": "", "done": True}
        (self.run / "intent.json").write_text(json.dumps(intent))

    def tell(self, event: str, moment: float, /, **facts: object) -> None:
        self.journal.append(event, facts, wall(moment))

    def live(self, life: Life) -> None:
        came_from = self.seals.get(life.resumed)
        resume = None
        if came_from is not None:
            resume = ResumeModel(step=life.resumed, sha256=came_from[0], seal=came_from[1])
        began = self.ledger.position.step
        started = began + 5 * life.number
        self.tell(
            "attempt-started",
            started,
            attempt=life.number,
            resumed=life.resumed,
            policy=life.policy,
        )
        self.ledger.begin(life.number, life.resumed, came_from[0] if came_from else "")
        proved, differed = 0, None
        place = attempts.folder(self.run, life.number)
        place.mkdir(parents=True)
        with (place / "reports.jsonl").open("w", encoding="ascii") as reports:
            reports.write(f'{{"seq":1,"report":"ready","at":0.5,"pid":1,"step":{life.resumed}}}\n')
            for batch in self.batches(life):
                outcome = self.ledger.record(life.number, life.policy, batch, wall(batch[-1].step))
                proved += outcome.proved
                if outcome.differed is not None and differed is None:
                    differed = outcome.differed
                reports.writelines(reports_of(batch, life))
                if batch[-1].step % self.every == 0:
                    self.seal(life, outcome.position)
        self.replays(life, began, proved, differed)
        end = EndModel(
            time=wall(life.last + 5 * life.number),
            cause=life.cause,
            status=0 if life.cause == "stopped" else -9,
            last_step=life.last,
            ready=True,
            sealed=True,
            best=max(self.seals),
            proved=proved,
            consistent=0,
            differed=differed,
        )
        attempt = AttemptModel(
            attempt=life.number,
            policy=life.policy,
            token="t",  # noqa: S106 - no secret, as no trainer bears it
            command=("true",),
            settings="",
            resume=resume,
            ledger_step=began,
            started=wall(started),
            ended=end,
        )
        attempts.write(self.run, attempt, durably=False)
        self.tell(
            "attempt-ended",
            life.last + 5 * life.number,
            attempt=life.number,
            last_step=life.last,
            cause=life.cause,
        )

    def batches(self, life: Life) -> Iterator[list[Step]]:
        """The steps of a life, cut where a checkpoint is due and where a batch is full."""
        batch: list[Step] = []
        for step in range(life.resumed + 1, life.last + 1):
            batch.append(made_step(step, life, self.scale))
            if step % self.every == 0 or len(batch) == _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def replays(self, life: Life, began: int, proved: int, differed: int | None) -> None:
        if life.resumed >= began:
            return
        last = min(life.last, began)
        if differed is not None:
            self.tell(
                "replay-differed", last, attempt=life.number, step=differed, difference="loss 3.1"
            )
            last = differed - 1
        self.tell(
            "replay",
            last,
            attempt=life.number,
            first=life.resumed + 1,
            last=last,
            proved=proved,
            consistent=0,
        )

    def seal(self, life: Life, at: LedgerPosition) -> None:
        step = at.step
        if step in self.seals:
            return  # of a step that ran again
        self.sample(life, step)
        digest = checkpoint(self.checkpoints, step)
        self.journal.sync()
        made = record(
            step,
            self.previous,
            attempt=life.number,
            policy=life.policy,
            ledger=LedgerAt(*at),
            reports=ReportsAt(life.number, step, step),
            events=EventsAt(*self.journal.head),
            time=wall(step),
            sample=step,
        )
        self.previous = write_seal(self.checkpoints, made)
        self.seals[step] = (digest, self.previous)
        self.ledger.mark(f"seal:{self.previous[:32]}")
        head = f"{at.entries}:{at.chain}:{self.previous[:32]}"
        self.tell("sealed", step, step=step, reason="cadence", head=head, seal=self.previous)

    def sample(self, life: Life, step: int) -> None:
        at = step / self.scale
        bad = 1500 < at < 1800
        score = 22 + 7 * math.sin(at) if bad else 71 + 12 * math.sin(at / 90)
        words = ["the"] * 9 if bad else [_WORDS[(step + 5 * n) % len(_WORDS)] for n in range(12)]
        sample = {
            "step": step,
            "attempt": life.number,
            "policy": life.policy,
            "prompt": "Once ",
            "text": " ".join(words),
            "temperature": 0.8,
            "scores": {"score": round(score, 2), "distinct_2": 0.1 if bad else 0.93},
            "verdict": "fail" if bad else "pass",
        }
        self.samples.append(sample)

    def keep_samples(self, folder: Path) -> None:
        kept = {"schema": "stepkeeper.samples/1", "samples": self.samples[-500:]}
        (folder / "demo.samples.json").write_text(json.dumps(kept))

    def pivot(self, step: int) -> None:
        """As the supervisor does it: samples put away, the new policy in force."""
        evicted, self.samples = self.samples[:3], self.samples[3:]
        self.keep_samples(self.run)
        self.samples = []
        folder = self.run / "archive"
        folder.mkdir()
        lines = [json.dumps(sample) + "\n" for sample in evicted]
        (folder / "samples-evicted.jsonl").write_text("".join(lines))
        target = archive.folder(self.run, 2, step)
        self.tell("pivot-requested", step, policy=2, step=step - 81)
        archived = archive.put_away((self.run / "demo.samples.json",), target)
        before = (self.run / "policy.toml").read_bytes()
        after = policy_text(AFTER, "ucb1", "share").encode()
        archive.edit_policy(self.run, before, after, target)
        archive.install_policy(self.run, 2, after)
        digest, seal = self.seals[step]
        at = self.ledger.position
        where = PositionModel(entries=at.entries, bytes=at.bytes, chain=at.chain, step=at.step)
        certificate = Certificate(
            run=ID,
            policy_before=1,
            policy_after=2,
            policy_before_sha256=sha256(before).hexdigest(),
            policy_after_sha256=sha256(after).hexdigest(),
            asked_step=step - 81,
            asked_by="operator",
            honoured=None,
            pin=PinModel(step=step, sha256=digest, seal=seal),
            ledger_at_stop=where,
            ledger_at_install=where,
            archived=archived,
            first_step=step + 1,
            done=wall(step + 1),
        )
        archive.write_certificate(target, certificate)
        self.ledger.note_cut(Cut(step, at))
        self.tell("pivot-installed", step, policy=2, pin=step, edited=False)
        self.tell("pivot-done", step + 1, policy=2, pin=step, first_step=step + 1)

    def marks(self) -> None:
        """A pin, a rejection, and what retention deleted."""
        steps = sorted(self.seals)
        for step in steps[: len(steps) // 2]:
            if step == steps[6]:
                continue
            name = f"step_{step:06}.bin"
            self.tell("checkpoint-deleted", steps[-1], step=step, name=name, rule="not kept")
            (self.checkpoints / name).unlink()
        pin(self.checkpoints, steps[6], "before the pivot")
        rejected = steps[-6]
        reject(self.checkpoints, self.seals[rejected][1], "three attempts without progress")
        self.tell("checkpoint-rejected", steps[-1], step=rejected, problem="no progress")
