"""The level of the loss over thousands of steps: arm by arm, so that the mix does not move it.

Arms differ by more than training changes in a day, so a mean over all of them goes up and down with
the mix. Losses are summed in blocks of ``BLOCK`` steps. At a block's end each arm gets an average
over the last ``MEMORY`` blocks, each of which counts ``DECAY`` times as much as the one after it:
its mean loss where steps drew one arm, and else the least-squares loss of a step of that arm alone,
by the shares that the arms had in each step. Two blocks are compared over the arms that both know,
under the mix of now. Sums begin at fixed steps, so that whoever reads the same steps again, from
however far back, comes to the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

BLOCK = 100  # steps
DECAY = 0.9  # a block
MEMORY = 30  # blocks; what is older counts for less than 5 %
EVIDENCE = 10.0  # steps, decayed: of fewer, an arm's average says nothing
MOST = 32  # arms that are told apart within a step
_RIDGE = 0.01  # steps' worth of the mean of all, for arms that never part

Shares = tuple[tuple[str, float], ...]


class Sums(NamedTuple):
    """Of a block: per arm its shares and its shares times the loss, per pair shares times shares.

    Whoever made it fills it; in a state it is never changed.
    """

    arms: dict[str, tuple[float, float]]
    pairs: dict[tuple[str, str], float]

    def copy(self) -> Sums:
        """One to fill on."""
        return Sums(dict(self.arms), dict(self.pairs))

    def add(self, drawn: Shares, loss: float) -> None:
        """Take in a step."""
        for at, (arm, share) in enumerate(drawn):
            shares, losses = self.arms.get(arm, (0.0, 0.0))
            self.arms[arm] = (shares + share, losses + share * loss)
            for other, part in drawn[at:]:
                self.pairs[arm, other] = self.pairs.get((arm, other), 0.0) + share * part


class Average(NamedTuple):
    """Of an arm: its smoothed loss, and on how many steps, decayed, it rests."""

    loss: float
    evidence: float


class Block(NamedTuple):
    """The steps up to ``last``: their sums, and the arms' averages at their end.

    Those that rest on too little are left out; ``evidence`` is the sum of all, in steps, decayed.
    """

    last: int
    sums: Sums
    averages: dict[str, Average]
    evidence: float


def shares(arm: str) -> Shares:
    """The arms of a step and the share that each had in it; of very many, one word for all."""
    if "=" not in arm:
        return ((arm, 1.0),)
    pulls = [part.partition("=") for part in arm.split(" ")]
    counts = [(name, float(count)) for name, _, count in pulls]
    total = sum(count for _, count in counts)
    if len(counts) > MOST or not total:
        return (("", 1.0),)
    return tuple((name, count / total) for name, count in counts)


def closed(blocks: Sequence[Block], last: int, sums: Sums) -> Block:
    """The block that ends at step ``last``, after those in ``blocks``."""
    arms: dict[str, tuple[float, float]] = {}
    pairs: dict[tuple[str, str], float] = {}
    weight = 1.0
    for one in (sums, *(block.sums for block in reversed(blocks[-MEMORY + 1 :]))):
        for arm, (shares, losses) in one.arms.items():
            known, total = arms.get(arm, (0.0, 0.0))
            arms[arm] = (known + weight * shares, total + weight * losses)
        for pair, product in one.pairs.items():
            pairs[pair] = pairs.get(pair, 0.0) + weight * product
        weight *= DECAY
    averages = _averages(arms, pairs)
    sure = {arm: one for arm, one in averages.items() if one.evidence >= EVIDENCE}
    return Block(last, sums, sure, sum(one.evidence for one in averages.values()))


def rise(now: Block, then: Block) -> float | None:
    """How far the loss is above ``then``, as a share of it, under the mix of ``now``.

    None where the arms that both know well are less than half of that mix.
    """
    known = change = level = 0.0
    averages = then.averages
    for arm, (loss, evidence) in now.averages.items():
        if arm in averages:
            before = averages[arm].loss
            known += evidence
            change += evidence * (loss - before)
            level += evidence * abs(before)
    if 2 * known < now.evidence or not level:
        return None
    return change / level


def _averages(
    arms: dict[str, tuple[float, float]], pairs: dict[tuple[str, str], float]
) -> dict[str, Average]:
    if all(one == other for one, other in pairs):
        return {arm: Average(losses / shares, shares) for arm, (shares, losses) in arms.items()}
    names = sorted(arms)
    mean = sum(losses for _, losses in arms.values()) / sum(shares for shares, _ in arms.values())
    rows = []
    for name in names:
        row = [pairs.get((name, o), 0.0) + pairs.get((o, name), 0.0) for o in names]
        at = names.index(name)
        row[at] = row[at] / 2 + _RIDGE
        shares, losses = arms[name]
        rows.append([*row, losses - mean * shares])
    above = _solved(rows)
    return {n: Average(mean + more, arms[n][0]) for n, more in zip(names, above, strict=True)}


def _solved(rows: list[list[float]]) -> list[float]:
    """Gauss' elimination; a matrix of this kind, positive definite, needs no pivots."""
    size = len(rows)
    for at in range(size):
        pivot = rows[at]
        for row in rows[at + 1 :]:
            factor = row[at] / pivot[at]
            if factor:
                for column in range(at, size + 1):
                    row[column] -= factor * pivot[column]
    found = [0.0] * size
    for at in reversed(range(size)):
        known = sum(rows[at][column] * found[column] for column in range(at + 1, size))
        found[at] = (rows[at][size] - known) / rows[at][at]
    return found
