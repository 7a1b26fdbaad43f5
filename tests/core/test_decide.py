"""Properties of the rules on any history, possible or not: whatever is told, in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.messages import (
    Answer,
    BadReport,
    ClockStepped,
    DiskSeen,
    Ended,
    Exit,
    GiveOrders,
    LimitNear,
    Moved,
    Proved,
    Quiet,
    Recorded,
    Reports,
    ReportsPosition,
    ResumePoint,
    Retained,
    Signalled,
    SourcesSeen,
    Spawn,
    SpawnFailed,
    StacksRecorded,
    TerminalGone,
    VisibleCheckpoint,
)
from supervisor.core.state import Life, PivotStage, Want
from tests.support.history import (
    LIVE,
    NOTHING,
    History,
    fresh_state,
    point,
    step_report,
    with_seals,
)

Word = Callable[[History, int], object]
STAGES = ("requested", "stopped", "installed", "done", "cancelled")
FAILING = (*STAGES, "seal", "record", "giveorders", "closeattempt")


def last_step(history: History) -> int:
    """The last step of the attempt, or of the newest seal."""
    if history.state.attempt is not None:
        return history.state.attempt.last_step
    return history.state.seals[0].point.step if history.state.seals else 0


def pending_step(history: History, n: int) -> int:
    """The step of a pending checkpoint, or any other."""
    pending = history.state.pending
    return pending[n % len(pending)].step if pending else last_step(history) + n % 3


def late(history: History, n: int) -> object:
    """News of an attempt that is over, or never was."""
    attempt = history.attempt - 1 + 2 * (n % 2)
    events = (
        Reports(attempt, (step_report(n, 1),), ReportsPosition(attempt, 1, 100)),
        Recorded(attempt, history.position(n), 1, 0, None, ""),
        Ended(attempt, -9, out_of_memory=False, visible=(), draw=0.5),
        SpawnFailed(attempt, "cannot start"),
    )
    return history.tell(events[n % len(events)])


def some_seal(history: History, n: int) -> ResumePoint:
    """One of the seals, or one that nobody knows."""
    seals = history.state.seals
    return seals[n % len(seals)].point if seals else point(n)


def proved(history: History, n: int) -> object:
    """A sealed checkpoint was read back: good, bad, or not to be told."""
    at = some_seal(history, n // 4)
    problem = "cannot use it" if n % 4 == 1 else "cannot tell" if n % 4 == 2 else ""
    return history.tell(Proved(at.step, at.seal, f"step_{at.step}.bin", problem, doubt=n % 4 == 2))


WORDS: dict[str, Word] = {
    "spawned": lambda h, n: h.spawned(last_step(h) + n % 50),
    "spawn failed": lambda h, _: h.tell(SpawnFailed(h.attempt, "cannot start")),
    "ready": lambda h, n: h.ready(None if n % 8 else n),
    "steps": lambda h, n: h.steps(last_step(h) + 1, last_step(h) + 1 + n % 60, recorded=n % 3 > 0),
    "a gap": lambda h, n: h.report(step_report(last_step(h) + n % 5, 0)),
    "recorded": lambda h, _: h.recorded(last_step(h)),
    "differs": lambda h, _: h.recorded(last_step(h), differed=last_step(h), difference="loss"),
    "phase": lambda h, n: h.phase(h.state.bandit.finished + 1 + n % 2, 1, 10, repeated=n % 4 == 0),
    "checkpoint": lambda h, n: h.checkpoint(
        last_step(h) + (n % 7 == 0), "signal" if n % 2 else "cadence", n if n % 3 else None
    ),
    "order answered": lambda h, _: h.checkpoint(
        last_step(h), "cadence", h.state.orders.save.serial if h.state.orders.save else None
    ),
    "verified": lambda h, n: h.verified(pending_step(h, n), "" if n % 4 else "cannot use it"),
    "sealed": lambda h, n: h.sealed(pending_step(h, 0)) if n and h.state.pending else None,
    "finished": lambda h, n: h.finished(("steps", "stop", "order")[n % 3]),
    "bad line": lambda h, _: h.tell(BadReport(h.attempt, "cannot follow it")),
    "ended": lambda h, n: h.tell(
        Ended(
            h.attempt,
            (0, 1, -9, None)[n % 4],
            out_of_memory=n % 9 == 0,
            visible=(VisibleCheckpoint(last_step(h), "x"),) if n % 3 == 0 else (),
            draw=n / 64,
        )
    ),
    "time": lambda h, _: h.wait(),
    "term": lambda h, _: h.tell(Signalled("TERM")),
    "usr1": lambda h, _: h.tell(Signalled("USR1")),
    "hup": lambda h, _: h.tell(Signalled("HUP")),
    "stop": lambda h, n: h.ask("stop", now=n % 2 == 0, hold=n % 3 == 0),
    "save": lambda h, n: h.ask("save", pin=n % 2 == 0, note="x"),
    "release": lambda h, _: h.ask("release"),
    "pivot": lambda h, n: h.ask(
        "pivot",
        policy=replace(h.state.policy, number=h.state.policy.number + 1),
        text="...",
        when="now" if n % 2 else "boundary",
        by="x",
    ),
    "cancel": lambda h, _: h.ask("cancel-pivot"),
    "stage": lambda h, n: h.stage(STAGES[n % len(STAGES)]),
    "stage due": lambda h, _: h.stage(DUE[h.state.pivot.stage]) if h.state.pivot else None,
    "fails": lambda h, n: h.fails(FAILING[n % len(FAILING)]),
    "sources": lambda h, n: h.tell(
        SourcesSeen(frozenset(name for i, name in enumerate(sorted(LIVE)) if n >> i & 1))
    ),
    "late": late,
    "quiet": lambda h, n: h.tell(Quiet(h.attempt, h.seq - n % 2, 10.0**n)),
    "moved": lambda h, _: h.tell(Moved(h.attempt)),
    "stacks": lambda h, n: h.tell(StacksRecorded(h.attempt, "there" if n % 2 else "")),
    "disk": lambda h, n: h.tell(DiskSeen("full" if n % 2 else "")),
    "limit": lambda h, n: h.tell(LimitNear("stop_at", n - 9.0, 60.0)),
    "clock": lambda h, n: h.tell(ClockStepped(n - 9.0, None if n % 2 else n - 9.0)),
    "proved": proved,
    "deleted": lambda h, n: h.tell(Retained((some_seal(h, n).seal,))),
    "pin": lambda h, n: h.ask("pin" if n % 2 else "unpin", step=n, note=""),
    "reload": lambda h, n: h.ask("reload", restart=n % 2 == 0),
    "restart": lambda h, _: h.ask("restart", reply=0),
    "terminal": lambda h, _: h.tell(TerminalGone()),
}
DUE = {
    PivotStage.ASKED: "requested",
    PivotStage.REQUESTED: "requested",
    PivotStage.STOPPING: "stopped",
    PivotStage.STOPPED: "installed",
    PivotStage.INSTALLED: "installed",
    PivotStage.FINISHING: "done",
}
ALONE = (Life.BACKOFF, Life.PROVING, Life.IDLE)
WAITING = (Life.KILLING, Life.DRAINING, Life.IDLE)
TOLD = st.lists(st.tuples(st.sampled_from(sorted(WORDS)), st.integers(0, 63)), max_size=60)


def told(
    words: list[tuple[str, int]], *seals: int, prelude: bool = True, read: bool = True
) -> History:
    """A history of these words, begun from these seals, after a start that went well.

    ``read`` says that the seals were read back in this life.
    """
    state = with_seals(fresh_state(), *seals) if seals else fresh_state()
    state = replace(state, seals=tuple(replace(seal, proved=read) for seal in state.seals))
    history = History(state)
    history.begin(NOTHING)
    if prelude:
        history.spawned()
        history.ready()
        history.steps(last_step(history) + 1, last_step(history) + 120)
    for word, n in words:
        if not (history.state.life is Life.LEAVING and word == "sealed"):
            WORDS[word](history, n)
    return history


@given(TOLD, st.sampled_from([(), (100,), (200, 100)]), st.booleans(), st.booleans())
@settings(max_examples=700, deadline=None, derandomize=True)
def test_no_history_raises_or_breaks_what_always_holds(
    words: list[tuple[str, int]],
    seals: tuple[int, ...],
    prelude: bool,  # noqa: FBT001 - a parameter
    read: bool,  # noqa: FBT001 - a parameter
) -> None:
    history = told(words, *seals, prelude=prelude, read=read)
    left = False
    serial = attempt = living = 0
    for event, effects, state in history.turns:
        if isinstance(event, Ended | SpawnFailed) and event.attempt == living:
            living = 0
        if left:
            assert all(isinstance(effect, Answer) for effect in effects)
        left = left or any(isinstance(effect, Exit) for effect in effects)
        assert (state.life is Life.LEAVING) == left
        timed = state.life in (Life.BACKOFF, Life.STOPPING)
        patient = state.trouble and state.want is Want.STOP and state.life in WAITING
        assert (state.deadline is not None) == (timed or bool(patient))
        if not left:
            assert (state.attempt is None) == (state.life in ALONE)
            assert not (living and state.life in ALONE)
        for effect in effects:
            if isinstance(effect, Spawn):
                assert effect.attempt == attempt + 1
                assert not living, "a trainer is begun beside another one"
                attempt = living = effect.attempt
                assert effect.orders.save is None
                assert effect.orders.hold == (state.trouble or None)
                assert effect.orders.serial > serial
                assert effect.resume == (state.seals[0].point if state.seals else None)
            if isinstance(effect, Exit) and effect.code != 1:
                assert not living, "a trainer is left alone"
            if isinstance(effect, Spawn | GiveOrders):
                assert effect.orders.serial >= serial
                serial = effect.orders.serial
        for order in state.orders.phases:
            assert abs(sum(weight for _, weight in order.weights) - 1.0) < 1e-9


@given(TOLD)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_the_same_history_comes_to_the_same_state(words: list[tuple[str, int]]) -> None:
    one, other = told(words, 100), told(words, 100)
    assert one.state == other.state
    assert one.turns == other.turns


@given(TOLD)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_pivot_never_goes_back(words: list[tuple[str, int]]) -> None:
    order = list(PivotStage)
    before = None
    for _, _, state in told(words, 200, 100).turns:
        now = state.pivot
        if now is not None and before is not None and now.policy == before.policy:
            retried = (before.stage, now.stage) == (PivotStage.FINISHING, PivotStage.INSTALLED)
            assert retried or order.index(now.stage) >= order.index(before.stage)
        if before is not None and now is None:
            gone = (PivotStage.ASKED, PivotStage.REQUESTED)
            ended = before.stage in (*gone, PivotStage.FINISHING)
            assert ended, f"a pivot was forgotten when {before.stage}"
        before = now


@given(TOLD)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_every_request_is_answered_once_at_most(words: list[tuple[str, int]]) -> None:
    history = told(words, 100)
    asked = sum(1 for event, _, _ in history.turns if type(event).__name__ == "Asked")
    assert len(history.all_of(Answer)) <= asked
