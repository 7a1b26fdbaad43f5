"""The tour: seven acts on one run, each ending in claims that are looked up in the run's files."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.cli.demo_keeper import LOG
from supervisor.cli.demo_settings import POLISH, POLISHED, Plan
from supervisor.cli.demo_stage import Stage
from supervisor.cli.demo_tamper import tamper
from supervisor.cli.plot import Mark
from supervisor.core.bounds import TOLERANCE
from supervisor.sidecars import archive
from supervisor.sidecars.attempts import AttemptModel
from supervisor.sidecars.checkpoints import SealRecord
from trainer.contract.checkpoint_format import HEADER_BYTES, read_header, size_of
from trainer.contract.wire import Orders, read_orders

_KILLED = -9
_MIDDLE = (0.3, 0.7)  # of a cadence


class Tour:
    """Plays the acts in order; all but the last two leave the run alive."""

    def __init__(self, stage: Stage, plan: Plan) -> None:
        self._stage = stage
        self._watch = stage.watch
        self._plan = plan
        self._noted = ""

    def play(self) -> None:
        """All of it. Raises StuckError where the run stands still."""
        acts: tuple[tuple[str, Callable[[], None]], ...] = (
            ("Checkpoints at the cadence", self._cadence),
            ("A checkpoint on request", self._request),
            ("The trainer is killed with SIGKILL, in mid-cadence", self._trainer_killed),
            ("The supervisor is killed with SIGKILL", self._supervisor_killed),
            ("A pivot to new floors and caps, at the next boundary", self._pivot),
            ("A stop", self._stop),
            ("The audit of everything", self._audit),
        )
        for number, (title, act) in enumerate(acts, 1):
            self._say(f"\n{number}. {title}")
            act()

    def _cadence(self) -> None:
        cadence = self._plan.cadence
        self._stage.until(lambda: self._watch.events("sealed"), "the first seal")
        seal = self._seal()
        path = self._stage.run / "checkpoints" / seal.bin.name
        size = path.stat().st_size
        with path.open("rb") as file:
            header = read_header(file.read(HEADER_BYTES), size, str(path))
        n = header.n_params
        self._claim(
            seal.step == header.step == cadence and size == size_of(n),
            f"{path.name} was read back and sealed: 8 + 12 x {n:,} = {size_of(n):,} bytes",
        )
        self._noted = self._watch.events("sealed")[0]["head"]
        self._say(f"   a head to note outside, for the audit later: {self._noted}")

    def _request(self) -> None:
        self._reach(1.4)
        attempt, asked = self._attempt().attempt, self._watch.step
        code = self._stage.command("save", "--pin", "--note", "asked for by the demo")
        seal = self._seal()
        self._claim(
            code == 0 and seal.step >= asked,
            f"{seal.bin.name} was asked for after step {asked}, and is sealed",
        )
        self._claim(self._attempt().attempt == attempt, "the trainer went on")

    def _trainer_killed(self) -> None:
        self._reach(3.2)
        self._stage.until(self._in_mid_cadence, "the middle of a cadence")
        before, seal = self._attempt(), self._seal()
        pid = self._stage.keeper.kill_trainer()
        self._say(f"   $ kill -KILL {pid}")
        number = before.attempt + 1
        self._stage.until(
            lambda: any(e["attempt"] == number for e in self._watch.events("replay")),
            "the end of the replay",
        )
        ended = self._watch.events("attempt-ended")[-1]
        after, replay = self._attempt(), self._watch.events("replay")[-1]
        self._mark(ended["last_step"], "T", "trainer killed")
        self._claim(
            pid and (ended["attempt"], ended["status"]) == (before.attempt, _KILLED),
            f"attempt {before.attempt} died of signal 9 after step {ended['last_step']}",
        )
        self._claim(
            after.resume is not None and after.resume.sha256 == seal.bin.sha256,
            f"attempt {number} resumed from {seal.bin.name}, the newest seal",
        )
        count = replay["last"] - replay["first"] + 1
        self._claim(
            replay["first"] == seal.step + 1
            and replay["proved"] == count > 0
            and replay["differed"] is None,
            f"steps {replay['first']} to {replay['last']} ran again: {replay['proved']} of {count} "
            "are equal in loss, arm, learning rate and documents, to the last digit",
        )

    def _supervisor_killed(self) -> None:
        self._reach(5.3)
        before = self._attempt()
        self._stage.keeper.kill()
        size = self._watch.ledger.stat().st_size
        self._watch.look()
        step, began = self._watch.step, self._watch.trainer_step
        self._mark(step, "S", "supervisor killed")
        enough = began + max(2, self._plan.cadence // 2)
        self._stage.until(
            lambda: self._watch.trainer_step >= enough, f"the trainer's step {enough}", alone=True
        )
        self._claim(
            self._stage.keeper.trainer_lives() and self._watch.ledger.stat().st_size == size,
            f"the trainer went on alone to step {self._watch.trainer_step}; the ledger waits at "
            f"step {step}",
        )
        self._say(f"   $ {self._stage.line('run')}   (again, as a service would)")
        self._stage.keeper.start()
        reported = self._watch.trainer_step
        self._stage.until(lambda: self._watch.step >= reported, "the ledger to catch up")
        after = self._attempt()
        self._claim(
            after.attempt == before.attempt and after.identity == before.identity,
            f"the new supervisor adopted the same trainer, attempt {after.attempt}",
        )
        steps = [line["step"] for line in self._watch.lines()]
        self._claim(
            steps == list(range(1, len(steps) + 1)) and len(steps) >= reported,
            f"nothing is missing: the ledger holds steps 1 to {steps[-1]}, one line each",
        )

    def _pivot(self) -> None:
        self._reach(7.2)
        code = self._stage.command("pivot", "--policy", f"{{run}}/{POLISH}")
        if not self._watch.events("pivot-requested"):
            self._claim(False, f"the pivot was accepted, exit code {code}")  # noqa: FBT003 - it reads as a sentence
            return
        self._stage.until(lambda: self._watch.events("pivot-done"), "the pivot's end")
        done = self._watch.events("pivot-done")[-1]
        pin, policy = done["pin"], done["policy"]
        folder = archive.folder(self._stage.run, policy, pin)
        certificate = archive.read_certificate(folder)
        if certificate is None:
            self._claim(False, f"{folder} holds a certificate")  # noqa: FBT003 - it reads as a sentence
            return
        self._mark(pin + 1, "P", f"pivot to policy {policy}")
        asked, stood = certificate.asked_step, certificate.ledger_at_stop
        self._claim(
            code == 0 and pin >= asked and pin % self._plan.cadence == 0,
            f"asked at step {asked}, carried out at the boundary, step {pin}",
        )
        names = sorted(file.name for file in certificate.archived)
        self._claim(
            names == ["demo.samples.json", "demo.state.json"],
            f"put away: {' and '.join(names)}; the bandit starts empty",
        )
        self._claim(
            stood == certificate.ledger_at_install and stood.step == pin,
            f"the ledger was not touched: {stood.entries} lines, chain {stood.chain}",
        )
        resume = self._attempt().resume
        first = next(line for line in self._watch.lines() if line["policy"] == policy)
        self._claim(
            resume is not None and resume.sha256 == certificate.pin.sha256,
            f"weights, m and v go on from step {pin}, bit for bit the pin",
        )
        self._claim(first["step"] == pin + 1, f"step {pin + 1} is the first of policy {policy}")
        orders = read_orders((self._stage.run / "orders.json").read_bytes())
        self._claim(_within(orders), f"every phase ordered keeps the floors and caps of {POLISH}")

    def _stop(self) -> None:
        self._reach(self._plan.shown / self._plan.cadence)
        code = self._stage.command("stop")
        keeper = self._stage.keeper
        self._stage.until(lambda: not keeper.alive, "the supervisor's end", alone=True)
        seal = self._seal()
        self._claim(
            code == 0 and keeper.exit_code == 0,
            f"supervisor and trainer have ended, exit code {keeper.exit_code}",
        )
        self._claim(
            seal.step == self._watch.step and not keeper.trainer_lives(),
            f"{seal.bin.name} is the last step's checkpoint, and sealed: not one step is lost",
        )

    def _audit(self) -> None:
        code = self._stage.command("audit", "--head", self._noted)
        self._claim(
            code == 0,
            f"the history is whole, and holds the head noted at step {self._plan.cadence}",
        )
        wrong = tamper(self._watch.ledger)
        self._claim(
            wrong.found_line == wrong.line,
            f"in a copy with one digit of line {wrong.line} changed, the audit names line "
            f"{wrong.found_line or 'none'}",
        )

    def _reach(self, cadences: float) -> None:
        """Wait until the ledger holds the step that is this many cadences in."""
        step = round(cadences * self._plan.cadence)
        self._stage.until(lambda: self._watch.step >= step, f"step {step}; see {LOG}")

    def _in_mid_cadence(self) -> bool:
        """Whether steps would be lost now, were it not for what this shows."""
        beyond = self._watch.trainer_step % self._plan.cadence / self._plan.cadence
        return _MIDDLE[0] <= beyond <= _MIDDLE[1]

    def _attempt(self) -> AttemptModel:
        record = self._watch.attempt()
        if record is None:
            raise LookupError("there is no attempt")
        return record

    def _seal(self) -> SealRecord:
        return self._watch.seals()[0]

    def _mark(self, step: int, letter: str, text: str) -> None:
        self._stage.marks.append(Mark(step, letter, text))

    def _claim(self, holds: object, text: str) -> None:
        self._stage.claim(holds, text)

    def _say(self, text: str) -> None:
        self._stage.screen.say(text)


def _within(orders: Orders) -> bool:
    """Whether every ordered phase gives each arm a share between its floor and its cap."""
    shares = [(POLISHED[arm], share) for phase in orders.phases for arm, share in phase.weights]
    return bool(shares) and all(
        bounds.floor - TOLERANCE <= share <= bounds.cap + TOLERANCE for bounds, share in shares
    )
