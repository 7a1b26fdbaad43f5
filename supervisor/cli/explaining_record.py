"""What the record of a run holds of one step, its phase, and the decision of that phase.

Reads files alone, and of reports and seals only those near the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.cli import standing
from supervisor.cli.reading_evidence import Evidence, evidence, lines_of
from supervisor.config import RunFile, recorded_policy
from supervisor.config.parsing import parse
from supervisor.core.bandit import BanditState
from supervisor.core.explaining import Mix, Record, beginning
from supervisor.core.policy import Policy
from supervisor.errors import StepkeeperError, UnknownError
from supervisor.sidecars import archive, attempts, bandit_state, events, kept_settings
from supervisor.sidecars import phase_reports as reported
from supervisor.sidecars.attempts import AttemptModel
from supervisor.sidecars.checkpoints import seals
from supervisor.sidecars.checkpoints.seals import SealRecord
from trainer.contract.checkpoint_format import seal_of, step_of
from trainer.contract.wire import Phase, Step, WireError, read_orders


@dataclass(slots=True)
class Told:
    """The step's lines, its report, and its phase; ``problems`` are what could not be read."""

    run: Path
    line: Evidence
    policy: Policy
    report: Step | None
    phase: Phase | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def attempt(self) -> int:
        """The attempt that did the step."""
        return int(self.line.fields["attempt"])


@dataclass(frozen=True, slots=True)
class Start:
    """Where a recomputation begins: at a seal of the policy, or where the policy began."""

    state: BanditState
    seal: SealRecord | None
    digest: str
    words: str
    older: bool


def told(run: Path, step: int) -> Told:
    """The step's canonical line, the voided ones, and its report. Raises UnknownError."""
    path = standing.ledger_path(run)
    if not path.is_file() or not path.stat().st_size:
        raise UnknownError(f"cannot explain step {step}: {path.name} holds no step yet")
    line = evidence(path, step)
    back = standing.rewound(run, standing.last_attempt(run))
    if line is None or (back is not None and step > back["to"]["step"]):
        raise UnknownError(f"cannot explain step {step}: {_why_no_line(run, path, step)}")
    number = line.fields.get("policy")
    copy = archive.policy_path(run, number if isinstance(number, int) else 0)
    try:
        policy = recorded_policy(copy.read_bytes(), int(copy.stem), copy)
        report = reported.step(standing.reports_path(run, int(line.fields["attempt"])), step)
    except OSError as error:
        raise UnknownError(
            f"cannot explain step {step}: {error.filename}: {error.strerror}"
        ) from None
    except (KeyError, TypeError, ValueError):
        text = f"line {line.line} of {path.name} does not name its attempt"
        raise UnknownError(f"cannot explain step {step}: {text}") from None
    return Told(run, line, policy, report)


def _why_no_line(run: Path, path: Path, step: int) -> str:
    every = lines_of(path, step)
    if every:
        numbers = ", ".join(map(str, every))
        return (
            f"line {numbers} of {path.name} tells of it and is voided: the run went back to an "
            "earlier step, and has not come there again"
        )
    line = standing.last_line(run)
    reached = f"the last one is step {line['step']}" if line else "the ledger is empty"
    return f"the run has not done it; {reached}"


def record(case: Told) -> tuple[Record, Start, Mix | None]:
    """All that the decision of the step's phase follows from, and the shares that it had.

    Raises UnknownError where no seal and no beginning of the policy can be used.
    """
    number = _number(case)
    start, later = _start(case, number)
    first = start.seal.attempt if start.seal else 1
    lives = [life for life in _lives(case, first) if life.policy == case.policy.number]
    courses = _courses(case, start, lives, number)
    course = _chosen(case, courses, start, number)
    mixes = dict(_mixes_told(case.run, later, case.policy.number))
    for reports in (*courses.values(), course):
        mixes |= {r.phase: dict(r.weights) for r in reports if not r.repeated}
    own = [r for reports in courses.values() for r in reports if r.phase == number]
    of_step = [r for r in own if r.first <= case.line.fields["step"] <= r.last]
    case.phase = next(iter(of_step or own), None)
    shares: Mix | None = dict(case.phase.weights) if case.phase else mixes.get(number)
    state = start.state
    if start.seal is None:
        arms = mixes.get(state.decided + 1) or shares or dict.fromkeys(_names(case.policy), 1.0)
        state = _begun(case, start, lives, frozenset(arms))
    return Record(state, tuple(course), mixes, _freezes(case, state.step)), start, shares


def _number(case: Told) -> int:
    step = case.line.fields["step"]
    if case.report is None:
        path = standing.reports_path(case.run, case.attempt)
        raise UnknownError(f"cannot tell the phase of step {step}: {path} does not report the step")
    if not case.report.phase:
        raise UnknownError(f"cannot tell the phase of step {step}: its trainer reports no phases")
    return case.report.phase


def _start(case: Told, number: int) -> tuple[Start, SealRecord | None]:
    """The newest seal of the policy before the phase's decision, and the one after it."""
    later: SealRecord | None = None
    policy, step = case.policy.number, case.line.fields["step"]
    for seal in _seals_down(case):
        if seal.step >= step or seal.policy > policy:
            later = seal
            continue
        try:
            bandit = bandit_state.from_record(seal.bandit, seal_of(seal.step))
        except StepkeeperError as error:
            case.problems.append(str(error))
            continue
        if seal.policy < policy:
            words = f"the beginning of policy {policy}, at step {seal.step}"
            return Start(bandit, None, seal.digest, words, older=False), later
        if bandit.decided < number:
            older = seal.bandit["schema"] != bandit_state.SCHEMA
            return Start(bandit, seal, seal.digest, f"the seal of step {seal.step}", older), later
        later = seal
    words = f"the beginning of policy {policy}"
    return Start(BanditState(0, "", ()), None, "", words, older=False), later


def _seals_down(case: Told) -> Iterator[SealRecord]:
    """The seals from the first at or above the step downwards; those that are none are told."""
    folder = case.run / "checkpoints"
    names = [path.name for path in folder.glob("step_*.seal.json")]
    steps = [step_of(name.removesuffix(".seal.json") + ".bin") for name in names]
    known = sorted(step for step in steps if step is not None)
    above = [step for step in known if step >= case.line.fields["step"]][:1]
    below = [step for step in known if step < case.line.fields["step"]]
    for step in (*above, *reversed(below)):
        try:
            yield seals.read(folder / seal_of(step))
        except (OSError, seals.SealError) as error:
            case.problems.append(str(error))


def _lives(case: Told, first: int) -> list[AttemptModel]:
    found = []
    for number in attempts.numbers(case.run):
        if number >= first:
            try:
                found.append(attempts.read(case.run, number))
            except StepkeeperError as error:
                case.problems.append(str(error))
    return found


def _courses(
    case: Told, start: Start, lives: list[AttemptModel], number: int
) -> dict[int, list[Phase]]:
    """By attempt, the phases that it reported up to the one after ``number``.

    Attempts are read, the step's own first, until one has reported the phase itself.
    """
    found: dict[int, list[Phase]] = {}
    own = [life for life in lives if life.attempt == case.attempt]
    from_start = [life for life in lives if _begins_at(life, start)]
    for life in (*own, *from_start, *lives):
        done = any(r.phase == number for reports in found.values() for r in reports)
        if life.attempt in found or (done and life not in from_start):
            continue
        seal = start.seal
        at = seal.reports.bytes if seal is not None and seal.attempt == life.attempt else 0
        found[life.attempt] = _up_to(case, life.attempt, at, number + 1)
    return found


def _up_to(case: Told, attempt: int, at: int, last: int) -> list[Phase]:
    reports = []
    try:
        for report in reported.phases(standing.reports_path(case.run, attempt), at):
            if report.phase > last:
                break
            reports.append(report)
    except OSError as error:
        case.problems.append(f"cannot read the reports of attempt {attempt}: {error.strerror}")
    return reports


def _begins_at(life: AttemptModel, start: Start) -> bool:
    if start.seal is not None and life.attempt == start.seal.attempt:
        return True
    return (life.resume.seal if life.resume else "") == start.digest


def _chosen(case: Told, courses: dict[int, list[Phase]], start: Start, number: int) -> list[Phase]:
    """Of the attempts that went on from the start, one that came to the decision of the phase."""
    lives = [life for life in _lives(case, min(courses, default=1)) if life.attempt in courses]
    fit = [courses[life.attempt] for life in lives if _begins_at(life, start)]
    fit = [[r for r in reports if r.phase < number] for reports in fit]
    own = courses.get(case.attempt, [])
    fit.sort(key=lambda reports: reports != [r for r in own if r.phase < number])
    return max(fit, key=lambda reports: reports[-1].phase if reports else 0, default=[])


def _mixes_told(run: Path, later: SealRecord | None, policy: int) -> Iterator[tuple[int, Mix]]:
    """Shares that perhaps no report tells of yet: of the seal after the step, of the orders."""
    if later is not None and later.policy == policy:
        for phase in later.bandit.get("phases", ()):
            yield phase["phase"], phase["weights"]
    if later is None:
        try:
            orders = read_orders((run / "orders.json").read_bytes())
        except (OSError, WireError):
            return
        yield from ((order.phase, dict(order.weights)) for order in orders.phases)


def _begun(
    case: Told, start: Start, lives: list[AttemptModel], live: frozenset[str]
) -> BanditState:
    """The empty state of the policy, by the seed of the settings that its first attempt had."""
    first = next((life for life in lives if _begins_at(life, start)), None)
    path = kept_settings.find(case.run, first.settings) if first is not None else None
    path = path or kept_settings.newest_path(case.run) or case.run / "run.toml"
    file: RunFile = parse(RunFile, path.read_bytes(), path)
    before = start.state if start.digest else None
    step = first.resume.step if first is not None and first.resume else 0
    seed = file.train.seed + case.policy.number
    return beginning(case.policy, live, seed, before, step)


def _names(policy: Policy) -> tuple[str, ...]:
    return tuple(arm.name for arm in policy.arms)


def _freezes(case: Told, after: int) -> tuple[int, ...]:
    """Steps after that at which a guard froze the mix, as the journal tells."""
    path = case.run / "events.jsonl"
    if not path.exists() or b'"freeze"' not in path.read_bytes():
        return ()
    found = []
    for event in events.read(path):
        if isinstance(event, events.EventLine) and event.event == "guard":
            step = event.facts.get("step")
            if event.facts.get("action") == "freeze" and isinstance(step, int) and step > after:
                found.append(step)
    return tuple(found)
