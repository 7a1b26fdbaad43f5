"""Whatever attempts, replays, torn tails and restarts do, steps 1 to N stand without a gap."""

from __future__ import annotations

import tempfile
from itertools import accumulate
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.chain import stated
from supervisor.core.messages import LedgerPosition
from supervisor.sidecars.ledger import Ledger, audit, canonical
from tests.support.steps import DIGEST, LATER, WALL, step
from trainer.contract.wire import Step

LIVES = st.lists(
    st.tuples(
        st.booleans(),  # another attempt, or only another supervisor
        st.floats(0, 1),  # how far back it resumes
        st.integers(0, 12),  # how many steps it takes beyond the resume point
        st.integers(1, 5),  # steps per record call
        st.integers(0, 40),  # from this step on it computes something else
        st.binary(max_size=30) | st.integers(1, 300),  # what its death leaves: junk, or a cut
    ),
    min_size=1,
    max_size=8,
)


class Model:
    """What must stand, kept as plainly as possible: every line appended, and what that leaves."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, int, float | None]] = []

    @property
    def standing(self) -> dict[int, tuple[int, float | None]]:
        """Step to (attempt, loss)."""
        found: dict[int, tuple[int, float | None]] = {}
        for number, attempt, loss in self.lines:
            found = {n: value for n, value in found.items() if n < number}
            found[number] = (attempt, loss)
        return found

    def take(self, attempt: int, one: Step) -> None:
        old = self.standing.get(one.step)
        if old is None or (old[0] != attempt and old[1] != one.loss):
            self.lines.append((one.step, attempt, one.loss))

    def die(self, path: Path, end: bytes | int, kept: int) -> None:
        """Leave junk behind the last line, or cut bytes off, but none of the first ``kept``."""
        data = path.read_bytes()
        if isinstance(end, bytes):
            path.write_bytes(data + end)
            return
        size = max(kept, len(data) - end)
        path.write_bytes(data[:size])
        ends = [0, *accumulate(len(line) + 1 for line in data.split(b"\n")[:-1])]
        whole = [
            ends[i + 1] - 1  # a line that lacks only its newline is whole
            for i, line in enumerate(data.split(b"\n")[:-1])
            if stated(line) is not None
        ]
        assert len(whole) == len(self.lines)
        self.lines = self.lines[: sum(end <= size for end in whole)]


@settings(max_examples=100, deadline=None)
@given(LIVES)
def test_any_history_keeps_steps_without_gap_and_a_clean_audit(lives: list[tuple]) -> None:  # type: ignore[type-arg] # drawn
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo.loss.json"
        model = Model()
        attempt, resumed, salt_from = 0, 0, 10**9
        positions: dict[int, LedgerPosition] = {}
        for other, back, count, size, change, end in lives:
            last = len(model.standing)
            if other or not attempt or resumed > last:
                attempt += 1
                resumed = round(back * last)
                salt_from = change or 10**9
            seals = [p for n, p in positions.items() if n <= resumed]
            ledger = Ledger.open(path, "R", max(seals, default=None), fresh=True)
            ledger.begin(attempt, resumed, DIGEST if resumed else "")
            for at in range(resumed + 1, resumed + count + 1, size):
                batch = [
                    step(n, salt=float(attempt) if n >= salt_from else 0.0)
                    for n in range(at, min(at + size, resumed + count + 1))
                ]
                outcome = ledger.record(attempt, 1, batch, WALL if len(model.lines) % 2 else LATER)
                for one in batch:
                    model.take(attempt, one)
                assert outcome.position.step == batch[-1].step
                positions = {n: p for n, p in positions.items() if n < at}
                positions[batch[-1].step] = outcome.position
            ledger.close()
            sealed = [positions.pop(n) for n in list(positions)[:1]]
            model.die(path, end, sealed[0].bytes if sealed else 0)
            positions = {p.step: p for p in sealed}
            assert audit(path).fault == ""
        ledger = Ledger.open(path, "R", None, fresh=False)
        assert ledger.position.entries == len(model.lines)
        ledger.close()
        check(path, model, list(positions.values()))


def check(path: Path, model: Model, positions: list[LedgerPosition]) -> None:
    entries = [entry.fields for entry in canonical(path)]
    assert [e["step"] for e in entries] == list(range(1, len(model.standing) + 1))
    assert {e["step"]: (e["attempt"], e["loss"]) for e in entries} == model.standing
    found = audit(path, positions=positions)
    assert found.fault == ""
    assert found.steps == len(model.standing)
