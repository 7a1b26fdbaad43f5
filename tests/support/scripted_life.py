"""A trainer without torch that keeps the whole contract and, when asked, breaks it.

Losses, arms and data digests follow from the seed, the step and the weights of its phase, so a
replayed step is equal to the first one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from tests.support import scripted_checkpoint as checkpoint
from tests.support.scripted_options import parse
from tests.support.scripted_reports import Draws, Reports, choose, mix, pause, ran
from tests.support.scripted_saying import say_as_ordered, say_at_cadence
from tests.support.scripted_silence import show_stacks, stand_still
from tests.support.scripted_workers import start_workers

if TYPE_CHECKING:
    from tests.support.scripted_beside import Beside

Record = dict
ENVIRON = os.environ  # noqa: TID251 - a trainer learns its run from its environment


class Trainer:
    """One life of the trainer: prepare, then one turn for each step."""

    def __init__(self) -> None:
        self.folder = ENVIRON["STEPKEEPER_RUN"] + "/checkpoints/"
        self.options = parse(sys.argv[1:], int(ENVIRON["STEPKEEPER_ATTEMPT"]))
        self.orders_path = ENVIRON["STEPKEEPER_ORDERS"]
        self.stamp: tuple[int, ...] = ()
        self.orders: Record = {"phases": [], "save": None, "hold": None}
        self.step = 0
        self.saved = (-1, "", 0)  # the step, digest and size of the last checkpoint
        self.draws = Draws(mix(self.options.seed))
        self.phase: Record = {}
        self.honoured: int | None = None
        self.spoken = -1
        self.beside = _beside() if self.options.beside else None
        self.asked_to_stop = False
        self.asked_to_save = False
        self.over = ""

    def prepare(self, began: float) -> None:
        """Everything before the first step, in the order that the contract gives."""
        options = self.options
        show_stacks(wanted=options.show_stacks)
        if options.say_start:
            sys.stdout.write(f"started at {began}\n")
            sys.stdout.flush()
        pause(options.ready_after)
        self.reports = Reports(ENVIRON["STEPKEEPER_REPORTS"], options.buffer)
        if options.no_ready:
            sys.exit(options.exit_code)
        self.reports.send("doing", what="load", step=0)
        if options.die_loading:
            sys.exit(options.exit_code)
        stand_still(here=options.hang_loading)
        if resume := ENVIRON.get("STEPKEEPER_RESUME"):
            self.resume(resume)
        self.draws.skip(0 if options.heedless else int(ENVIRON.get("STEPKEEPER_SKIP") or 0))
        start_workers(options.workers, options.stray_workers)
        signal.signal(signal.SIGTERM, self.on_term)
        signal.signal(signal.SIGUSR1, self.on_usr1)
        self.read_orders()
        self.begin_phase()
        ready = {"pid": os.getpid(), "n_params": options.n_params, "step": self.step}
        self.reports.send("ready", **ready, companion=not options.no_companion)

    def on_term(self, *_: object) -> None:
        """Handlers only set a request."""
        self.asked_to_stop = not self.options.ignore_term

    def on_usr1(self, *_: object) -> None:
        """Handlers only set a request."""
        self.asked_to_save = True

    def resume(self, path: str) -> None:
        """Go on behind ``path``: step, draws and the phase in progress."""
        self.step, companion = checkpoint.load(path, self.options)
        size = companion.get("bytes", 8 + 12 * self.options.n_params)
        self.saved = (self.step, companion.get("sha256", ""), size)
        inside = companion["rng"] if companion else {"draws": mix(self.options.seed + self.step)}
        self.draws = Draws(**{"count": self.step, **inside})
        self.phase = companion.get("phase") or {}

    def read_orders(self) -> None:
        """Look at the file's stamp, and read it where that is new."""
        try:
            status = os.stat(self.orders_path)  # noqa: PTH116 - once a step, so without a Path
        except FileNotFoundError:
            return
        stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
        if stamp != self.stamp:
            with open(self.orders_path, "rb") as file:  # noqa: PTH123 - pathlib costs 3 ms
                self.orders = json.loads(file.read())
            self.stamp = stamp

    def begin_phase(self) -> None:
        """Keep the phase in progress where the orders still name it, else begin their first."""
        ordered = self.orders["phases"]
        names = ("phase", "steps", "weights")
        if self.options.no_phases or not ordered:
            return
        known = [p for p in ordered if self.phase and all(p[n] == self.phase[n] for n in names)]
        if not known:
            self.phase = {**ordered[0], "done": 0, "repeated": False, "arms": {}}

    def next_phase(self) -> None:
        """Take the following phase from the orders; wait for it; at last repeat this one."""
        if self.options.no_phases:
            return
        wanted = self.phase.get("phase", 0) + 1
        until = time.perf_counter() + self.options.phase_wait
        waiting = False
        while True:
            found = [p for p in self.orders["phases"] if p["phase"] == wanted or not self.phase]
            if found or (self.phase and time.perf_counter() > until) or self.asked_to_stop:
                break
            if not waiting:
                self.reports.send("doing", what="wait", step=self.step)
                waiting = True
            pause(0.005)
            self.read_orders()
        source = found[0] if found else {**self.phase, "phase": wanted}
        fresh = {"done": 0, "repeated": not found, "arms": {}}
        if found or not self.asked_to_stop:
            self.phase = {n: source[n] for n in ("phase", "steps", "weights")} | fresh

    def turn(self) -> None:
        """One step, its report, then whatever is asked for at its end."""
        if not self.phase or self.phase["done"] == self.phase["steps"]:
            self.next_phase()
            if self.asked_to_stop:
                self.finish_turn()
                return
        self.step += 1
        self.train()
        if self.phase and self.phase["done"] == self.phase["steps"]:
            self.reports.send("phase", **ran(self.phase, self.step))
        say_at_cadence(self)
        self.finish_turn()

    def train(self) -> None:
        """The step itself: an arm drawn by the phase's weights, a loss, a digest."""
        options, step = self.options, self.step
        self.draws.skip(1)
        even = dict.fromkeys(options.arms.split(","), 1.0)
        arm = choose(self.phase.get("weights") or even, self.draws.draws / (1 << 64))
        noise = mix(options.seed * 1_000_003 + step) / (1 << 64)
        loss = round(2.0 + 400.0 / (step + 100) + 0.1 * noise + 0.01 * len(arm), 6)
        if 0 < options.differ_from <= step:
            loss = round(loss + 0.001, 6)
        digest = "" if options.no_data else f"{mix(self.draws.draws ^ step):016x}"
        bad = step == options.nan_at or self.draws.within(options.nan_draws)
        written = options.nan_as if bad else repr(loss)
        word = "nan" if written == "null" else ""
        line = (
            f'"report":"step","at":{time.perf_counter():.6f},"step":{step},"loss":{written},'
            f'"nonfinite":"{word}","arm":"{arm}","lr":0.0003,'
            f'"data":"{digest}","phase":{self.phase.get("phase", 0)}{self.draws.told(options)}}}'
        )
        self.misbehave(line)
        self.reports.add(line, loss)
        if self.phase:
            self.phase["done"] += 1
            pulls, total = self.phase["arms"].get(arm, (0, 0.0))
            self.phase["arms"][arm] = (pulls + 1, total + loss)

    def misbehave(self, line: str) -> None:
        """Faults that stand before this step's report."""
        options = self.options
        if self.step == options.bad_line_at:
            self.reports.add('"report":"step","step":"seven"}')
        if self.step == options.gap_at:
            self.reports.seq += 1
        if self.step == options.half_line_at:
            self.reports.flush()
            half = f'{{"seq":{self.reports.seq + 1},{line}'[: len(line) // 2]
            os.write(self.reports.descriptor, half.encode("ascii"))
            os._exit(options.exit_code)

    def finish_turn(self) -> None:
        """Faults, then saves, holds and ends; the only place that looks at requests."""
        self.end_here()
        self.answer_requests()
        told = False
        while self.orders["hold"] is not None and not self.over:
            if not told:
                self.reports.send("doing", what="wait", step=self.step)
                told = True
            pause(0.01)
            self.answer_requests()

    def end_here(self) -> None:
        """Faults that stand after this step's report."""
        options = self.options
        faults = (options.kill_at, options.exit_at, options.eat_at, options.hang_at)
        if self.step and self.step in faults:
            self.reports.flush()
            _eaten = b"x" * (options.eat_at == self.step and 1 << 30)
            if self.step == options.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.step == options.exit_at:
                os._exit(options.exit_code)
            stand_still(woken=lambda: options.wakes and self.asked_to_stop)

    def answer_requests(self) -> None:
        """At most one checkpoint for all that is asked at this step's end."""
        options = self.options
        self.collect()
        asked = self.asked_to_save  # an order is on disk before the signal that announces it
        self.read_orders()
        order = self.orders["save"]
        if order is not None and order["serial"] == self.honoured:
            order = None
        boundary = self.step % options.every == 0
        last = self.step >= options.steps
        ordered = order is not None and (order["align"] == "step" or boundary or last)
        signalled = asked and order is None
        signalled = signalled and (boundary or options.sigusr1 == "now")
        reason = "signal" if ordered or signalled else "cadence" if boundary else ""
        if self.asked_to_stop or (last and not options.no_final):
            reason = "stop"
        say_as_ordered(self, order if ordered else None)
        if reason:
            leaves = reason == "stop" or (order is not None and order["then"] == "exit")
            serial = order["serial"] if order is not None and ordered else None
            self.save(reason, serial, leaves=leaves)
        if order is not None and ordered:
            self.honoured = order["serial"]
        if ordered or signalled:
            self.asked_to_save = False
        if self.asked_to_stop or last:
            self.over = "stop" if self.asked_to_stop else "steps"
        elif order is not None and ordered and order["then"] == "exit" and not options.ignore_exit:
            self.over = "order"

    def save(self, reason: str, serial: int | None, *, leaves: bool) -> None:
        """Write this step's checkpoint unless it has one, and report it."""
        step, options, began = self.step, self.options, time.perf_counter()
        self.collect(wait=True)
        if self.saved[0] == step and serial is None:
            return
        name = f"step_{step:06d}.{options.format}"
        facts = {"step": step, "name": name, "reason": reason, "save": serial}
        if self.saved[0] != step:
            self.reports.send("doing", what="save", step=step)
            os.fsync(self.reports.descriptor)
            phase = json.loads(json.dumps(self.phase)) or None
            inside = {"rng": self.draws.record(), "phase": phase, "reason": reason}
            place = (self.folder + name, options, inside, self.reports)
            if self.beside is not None and not leaves:
                self.beside.begin(step, facts, lambda: checkpoint.save(*place))
                return
            self.saved = checkpoint.save(*place)
        self.told(facts, time.perf_counter() - began)

    def collect(self, *, wait: bool = False) -> None:
        """Report a save beside the steps that is over; ``wait`` for one that is not."""
        if self.beside is None or self.beside.step < 0 or not (wait or self.beside.over):
            return
        if not self.beside.over:
            self.reports.send("doing", what="save", step=self.beside.step)
        self.saved, facts = self.beside.result()
        self.told(facts, self.options.slow_save)

    def told(self, facts: Record, seconds: float) -> None:
        """Report the checkpoint that was saved last."""
        content = {"sha256": self.saved[1], "bytes": self.saved[2], "seconds": round(seconds, 6)}
        self.reports.send("checkpoint", **facts, **content)


def _beside() -> Beside:
    from tests.support.scripted_beside import Beside  # noqa: PLC0415 - threads, that few need

    return Beside()


def main(began: float) -> int:
    """Prepare, then step until something says that it is over."""
    trainer = Trainer()
    trainer.prepare(began)
    interval = 1.0 / trainer.options.rate if trainer.options.rate else 0.0
    due = time.perf_counter()
    while not trainer.over and trainer.step < trainer.options.steps:
        trainer.turn()
        due = max(due + interval, time.perf_counter() - 0.1)
        if (ahead := due - time.perf_counter()) > 0:
            pause(ahead)
    trainer.collect(wait=True)
    trainer.reports.send("finished", reason=trainer.over or "steps", step=trainer.step)
    stand_still(here=trainer.options.hang_ending)
    return 0
