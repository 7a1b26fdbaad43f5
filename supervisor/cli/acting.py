"""The commands that act on a running trainer: ``save``, ``stop``, ``release``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor import clock
from supervisor.cli import asking, printing, samples, standing
from supervisor.cli.after_service import end_what_is_left
from supervisor.cli.parameters import Json, Run, existing
from supervisor.errors import StepkeeperError, UnknownError, UsageError
from supervisor.sidecars.checkpoints.marks import pins
from supervisor.sidecars.checkpoints.seals import SealRecord

SEALED, OLDER, NONE = 0, 3, 4
PIN_SECONDS = 30.0


def save(
    run: Run,
    *,
    pin: Annotated[bool, typer.Option("--pin", help="Never let retention delete it.")] = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Kept with the pin.")] = "",
    sample: Annotated[
        bool, typer.Option("--sample", help="With a sample, its score and its verdict.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Have a checkpoint written now, wait for its seal, and print its path.

    With --sample the trainer is asked for a sample of that step too; a trainer that draws none
    saves all the same, and that is said.

    Exits 1 where no trainer runs or it ends before the seal. Works without a supervisor too.
    """
    path = existing(run)
    if note and not pin:
        raise UsageError("cannot keep a note without a pin: give --pin as well")
    # Only where it is asked for: a supervisor of an older version would not know the word.
    fields = {"pin": pin, "note": note, **({"sample": True} if sample else {})}
    stands = (
        "the request stands: the trainer saves at the end of its step, and the checkpoint is "
        f"sealed by the supervisor; see stepkeeper checkpoints {shlex.quote(str(path))}"
    )
    with asking.interruptible(stands):
        answer = asking.ask(path, "save", fields)
        if answer is not None:
            seal = asking.wait(_Sealing(path, answer).look, asking.Patience(path))
            if pin:
                _await_pin(path, seal.step)
        elif standing.trained(path):
            _refuse_during_a_pivot(path)
            before = _serial(path)
            asking.visit(path, "save", fields)
            # A trainer that waits answers with the checkpoint that its step has already.
            answers = [seal for seal in standing.seals(path, 8) if (seal.save or 0) > before]
            seal = (answers or standing.seals(path))[0]
        else:
            raise StepkeeperError(_nothing_runs(path))
    saved = path / "checkpoints" / seal.bin.name
    if as_json:
        facts: dict[str, Any] = {
            "step": seal.step,
            "path": str(saved),
            "sha256": seal.bin.sha256,
        }
        facts |= {"head": standing.head_of(seal), "pinned": pin}
        printing.emit({**facts, "sample": samples.of_seal(path, seal)} if sample else facts)
    else:
        printing.say(str(saved))
        if sample:
            printing.say(samples.line(samples.of_seal(path, seal)))
    return 0


def _await_pin(run: Path, step: int) -> None:
    """The pin follows its seal. Raises UnknownError where it does not, or its writer is gone."""
    absence = asking.Absence(run)
    deadline = clock.monotonic() + PIN_SECONDS

    def look() -> bool | None:
        if step in pins(run / "checkpoints"):
            return True
        if absence.too_long() or clock.monotonic() > deadline:
            raise UnknownError(
                f"cannot tell whether step {step} of {run} is pinned: it is sealed, but no pin "
                "followed; see stepkeeper status, and save with --pin again"
            )
        return None

    asking.wait(look)


def _serial(run: Path) -> int:
    """The newest save that a seal answers."""
    return max([seal.save or 0 for seal in standing.seals(run, 8)], default=0)


class _Sealing:
    """Waits for the seal that answers a save, or for proof that none will come."""

    def __init__(self, run: Path, answer: dict[str, Any]) -> None:
        self._run = run
        self._serial = int(answer["serial"])
        self._attempt = int(answer["attempt"])
        self._reports = standing.reports_path(run, self._attempt)
        self._read = 0
        self._step: int | None = None
        self._absence = asking.Absence(run)

    def look(self) -> SealRecord | None:
        """The seal, once it is there. Raises StepkeeperError or UnknownError."""
        self._follow_reports()
        # Asked before the seals are read: an attempt is closed only after its last seal.
        record = standing.last_attempt(self._run) or {}
        for seal in standing.seals(self._run, 8):
            if seal.attempt < self._attempt:
                break
            if (seal.save or 0) >= self._serial or seal.step == self._step:
                return seal
        if record.get("attempt") != self._attempt or record.get("ended"):
            end = record.get("ended") or {}
            raise StepkeeperError(
                f"cannot save {self._run}: attempt {self._attempt} ended"
                f" ({end.get('cause', 'and another began')}) before the checkpoint was sealed; "
                "ask again"
            )
        if self._step is not None and self._refused():
            raise StepkeeperError(
                f"cannot save {self._run}: the checkpoint of step {self._step} was refused when "
                "it was read back; see stepkeeper checkpoints"
            )
        if self._absence.too_long():
            raise UnknownError(
                f"cannot tell whether {self._run} was saved: its supervisor is gone; the order "
                "stands, and stepkeeper run seals the checkpoint"
            )
        return None

    def _follow_reports(self) -> None:
        """Note the step of the checkpoint that answers; a step that had one is told again."""
        try:
            with self._reports.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data.rfind(b"\n") + 1
        self._read += whole
        for line in data[:whole].split(b"\n"):
            if b'"report":"checkpoint"' in line:
                report = json.loads(line)
                if (report.get("save") or 0) >= self._serial:
                    self._step = report["step"]

    def _refused(self) -> bool:
        """Whether the journal's last lines say so."""
        try:
            lines = (self._run / "events.jsonl").read_bytes()[-(1 << 16) :].split(b"\n")
        except FileNotFoundError:
            return False
        mark = b'"event":"checkpoint-refused","facts":{"step":%d,' % (self._step or 0)
        return any(mark in line for line in lines)


def _refuse_during_a_pivot(run: Path) -> None:
    pivot = standing.record(run / "pivot.json")
    if pivot is not None:
        raise StepkeeperError(
            f"cannot save {run}: the pivot to policy {pivot.get('policy')} is under way and saves "
            "by itself; nobody supervises the run: start it with stepkeeper run"
        )


def _nothing_runs(run: Path) -> str:
    seals = standing.seals(run)
    newest = f"the newest sealed checkpoint is of step {seals[0].step}" if seals else "none sealed"
    return f"cannot save {run}: nothing runs there; {newest}"


def stop(
    run: Run,
    *,
    hold: Annotated[
        bool, typer.Option("--hold", help="Let nothing start it again until it is released.")
    ] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Kill the trainer: what is not saved is lost.")
    ] = False,
    after_service: Annotated[
        bool, typer.Option("--after-service", help="For ExecStopPost= of the unit alone.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Stop a run, and wait until the checkpoint of its last step is sealed.

    Exits 0 only then; 3 where it is stopped with an older checkpoint, 4 with none. Works without
    a supervisor too.
    """
    path = existing(run)
    if after_service:
        return end_what_is_left(path)
    stands = (
        "the request stands: the trainer saves and ends; to wait for the seal run "
        f"stepkeeper stop {shlex.quote(str(path))} again"
    )
    fields = {"hold": hold, "now": now}
    with asking.interruptible(stands):
        if asking.ask(path, "stop", fields) is not None:
            advice = "; stop --now kills the trainer, and what is not saved is lost"
            patience = asking.Patience(path, "" if now else advice)
            asking.wait(lambda: None if standing.supervised(path) else True, patience)
        if not _is_stopped(path, hold=hold):
            _stop_unattended(path, fields)
    return _tell_stop(path, hold=hold, as_json=as_json)


def _is_stopped(run: Path, *, hold: bool) -> bool:
    intent = standing.record(run / "intent.json") or {}
    stopped = intent.get("want") == "stop" and bool(intent.get("done"))
    return stopped and not standing.unfinished(run) and (bool(intent.get("hold")) or not hold)


def _stop_unattended(run: Path, fields: dict[str, Any]) -> None:
    if standing.unfinished(run):
        asking.visit(run, "stop", fields)
        return
    # Imported here: it is not needed where a supervisor answers.
    from supervisor.perform import unattended  # noqa: PLC0415 - see above

    unattended.refuse_a_stranger(run, "stop")
    unattended.stop(run, hold=fields["hold"])


def _tell_stop(run: Path, *, hold: bool, as_json: bool) -> int:
    line, seals = standing.last_line(run), standing.seals(run)
    last = int(line["step"]) if line else 0
    if rewound := standing.rewound(run, standing.last_attempt(run)):
        last = int(rewound["to"]["step"])
    sealed = seals[0].step if seals else None
    code = NONE if sealed is None else SEALED if sealed >= last else OLDER
    path = str(run / "checkpoints" / seals[0].bin.name) if seals else None
    if as_json:
        facts = {"stopped": True, "step": last, "sealed": sealed, "path": path, "hold": hold}
        printing.emit(facts)
        return code
    held = f"; held until stepkeeper release {shlex.quote(str(run))}" if hold else ""
    match code:
        case 0:
            text = f"stopped after step {last}, sealed as {path}"
        case 3:
            text = (
                f"stopped after step {last}; the newest sealed checkpoint is {path}, and the next "
                f"start goes on from it: steps {(sealed or 0) + 1} to {last} run again"
            )
        case _:
            text = f"stopped after step {last}; no checkpoint is sealed"
    printing.say(text + held)
    return code


def release(run: Run, *, as_json: Json = False) -> int:
    """Let a run start again that was stopped with --hold. It is not started by this."""
    path = existing(run)
    was_held = bool((standing.record(path / "intent.json") or {}).get("hold"))
    if asking.ask(path, "release", {}) is None and was_held:
        # Imported here: it is not needed where a supervisor answers.
        from supervisor.perform import unattended  # noqa: PLC0415 - see above

        unattended.refuse_a_stranger(path, "release")
        unattended.release(path)
    if as_json:
        printing.emit({"released": True, "was_held": was_held})
    else:
        printing.say(
            f"released; start it with stepkeeper run {shlex.quote(str(path))}"
            if was_held
            else "it was not held"
        )
    return 0
