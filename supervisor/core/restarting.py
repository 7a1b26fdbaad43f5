"""What follows an attempt's end: again after a while, an older checkpoint, or giving up.

At once after progress, else after ``first`` seconds doubling to ``most``, with jitter. Progress is
a sealed step higher than any sealed before under this policy. ``fall_back_after`` attempts without
progress that had read the checkpoint under suspicion, or one made from it, fall back one seal, so
a run that seals the same steps again and again comes to an end too. Nothing older left, or
``give_up_after`` seconds without progress: give up.

All of it follows from the attempts' records: ``Restarts.after`` folds them, whoever died between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.core.messages import Cause

MOST_DOUBLINGS = 30  # beyond any ceiling; more would leave what a float holds
KEPT_TRIES = 16  # steps named when giving up
MIDDLE = 0.5  # the draw that leaves a delay as it is
# Ends that a checkpoint is not to blame for: in good order, or of nobody knows what.
_BLAMELESS = frozenset({Cause.STOPPED, Cause.FINISHED, Cause.NOT_STARTED, Cause.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an ended attempt means for the next. ``resumed`` is its step, 0 from nothing.

    ``ready`` says that it had read its checkpoint, ``at`` when it ended, in seconds of one clock.
    """

    cause: Cause
    resumed: int
    ready: bool
    progress: bool
    at: float

    @property
    def blames(self) -> bool:
        """Whether it counts against the checkpoint that it began from."""
        return self.ready and self.cause not in _BLAMELESS


@dataclass(frozen=True, slots=True)
class Restarts:
    """Attempts without progress so far, the first of which ended at ``since``.

    ``against`` counts those that speak against the checkpoint of step ``suspect`` or those made
    from it. ``best`` is the highest step sealed under the policy in force. ``tried`` are steps
    resumed from and how often, in order.
    """

    failures: int = 0
    against: int = 0
    since: float | None = None
    best: int = -1
    suspect: int | None = None
    tried: tuple[tuple[int, int], ...] = ()

    def after(self, outcome: Outcome) -> Restarts:
        """The count once this attempt has ended."""
        if outcome.progress:
            return Restarts(best=self.best)
        if outcome.cause in (Cause.NO_ROOM, Cause.ROLLED_BACK):
            return self
        suspect, against = self.suspect, self.against
        if suspect is None or outcome.resumed < suspect:
            suspect, against = outcome.resumed, 0
        return replace(
            self,
            failures=self.failures + 1,
            against=against + outcome.blames,
            # From the first end on: a crash after long work without a seal must not end the run.
            since=outcome.at if self.since is None else self.since,
            suspect=suspect,
            tried=_tried(self.tried, outcome.resumed),
        )

    def at_rest_on(self, newest: int) -> Restarts:
        """The count where ``newest`` is the newest seal's step: an older one is a new suspect."""
        if self.suspect is None or newest >= self.suspect:
            return self
        return replace(self, suspect=newest, against=0)

    def in_words(self) -> str:
        """What was tried."""
        return ", ".join(
            f"step {step} {times} time{'s' * (times != 1)}" for step, times in self.tried
        )


NO_FAILURE = Restarts()


def _tried(tried: tuple[tuple[int, int], ...], step: int) -> tuple[tuple[int, int], ...]:
    if tried and tried[-1][0] == step:
        return (*tried[:-1], (step, tried[-1][1] + 1))
    return (*tried, (step, 1))[-KEPT_TRIES:]


@dataclass(frozen=True, slots=True)
class Again:
    """Another attempt from the newest seal, ``seconds`` from now; 0 is at once."""

    seconds: float


@dataclass(frozen=True, slots=True)
class FallBack:
    """Reject what is at ``suspect`` and above, go on from the seal below, ``seconds`` from now."""

    suspect: int
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further attempt; ``why`` says what was tried."""

    why: str


NextStep = Again | FallBack | GiveUp


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The rule, as one value; durations in seconds."""

    first: float = 0.5
    most: float = 30.0
    fall_back_after: int = 3
    give_up_after: float = 7200.0

    def delay(self, failures: int, draw: float = MIDDLE) -> float:
        """Seconds before the attempt after ``failures`` without progress; ``draw`` in [0, 1)."""
        if failures < 1:
            return 0.0
        doublings = min(failures - 1, MOST_DOUBLINGS)
        return float(min(self.most, self.first * 2**doublings) * (0.75 + 0.5 * draw))

    def next_step(
        self, restarts: Restarts, *, older: bool, now: float, draw: float = MIDDLE
    ) -> NextStep:
        """What follows. ``older`` says that there is a seal below the suspect to go back to."""
        delay = self.delay(restarts.failures, draw)
        if restarts.since is None:
            return Again(delay)
        spent = now - restarts.since
        tried = f"tried {restarts.in_words()}"
        # Slow steps between two seals are no failure by themselves, however long they take.
        if spent > self.give_up_after and restarts.failures >= self.fall_back_after:
            attempts = f"{restarts.failures} attempts"
            return GiveUp(f"no progress for {spent:.0f} s in {attempts}: {tried}")
        if restarts.against < self.fall_back_after or restarts.suspect is None:
            return Again(delay)
        why = f"{restarts.against} attempts from it made no progress"
        if not older:
            return GiveUp(
                f"{restarts.failures} attempts without progress and no older seal to try: {tried}"
            )
        return FallBack(restarts.suspect, delay, why)


USUAL = RestartPolicy()
