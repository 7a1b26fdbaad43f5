"""Smoothed views of a series, always recomputed from the raw values; None is a value unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


def ema(values: Iterable[float | None], alpha: float) -> Iterator[float | None]:
    """Exponential moving average, seeded by the first value: s += alpha * (x - s).

    A None leaves the average as it is. Raises ValueError unless 0 < alpha <= 1.
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"cannot smooth with alpha {alpha}: above 0, at most 1")
    return _ema(values, alpha)


def _ema(values: Iterable[float | None], alpha: float) -> Iterator[float | None]:
    smooth: float | None = None
    for value in values:
        if value is not None:
            smooth = value if smooth is None else smooth + alpha * (value - smooth)
        yield smooth


def smma(values: Iterable[float | None], n: int) -> Iterator[float | None]:
    """Wilder's smoothed moving average, seeded by the plain mean of the first n: s += (x - s) / n.

    None until n values are known; a None leaves the average as it is. Raises ValueError for n < 1.
    """
    if n < 1:
        raise ValueError(f"cannot smooth over {n} values: 1 or more")
    return _smma(values, n)


def _smma(values: Iterable[float | None], n: int) -> Iterator[float | None]:
    seen, total = 0, 0.0
    smooth: float | None = None
    for value in values:
        if value is not None:
            if smooth is not None:
                smooth += (value - smooth) / n
            else:
                seen, total = seen + 1, total + value
                smooth = total / n if seen == n else None
        yield smooth


class Bucket(NamedTuple):
    """Neighbouring points as one: their steps, lowest, highest and last value, how many unknown."""

    first: int
    last: int
    low: float | None
    high: float | None
    end: float | None
    unknown: int


def decimate(points: Iterable[tuple[int, float | None]], width: int) -> list[Bucket]:
    """At most ``width`` buckets of equally many points, which keep the extremes.

    One pass, memory for twice ``width`` buckets however long the series. Raises ValueError for a
    width below 1.
    """
    if width < 1:
        raise ValueError(f"cannot draw {width} columns: 1 or more")
    buckets: list[Bucket] = []
    size = 1
    for filled, (step, value) in enumerate(points):
        point = Bucket(step, step, value, value, value, int(value is None))
        if filled % size == 0:
            if len(buckets) == 2 * width:
                buckets = _halve(buckets)
                size *= 2
            buckets.append(point)
        else:
            buckets[-1] = _join(buckets[-1], point)
    return _halve(buckets) if len(buckets) > width else buckets


def _halve(buckets: list[Bucket]) -> list[Bucket]:
    joined = [_join(a, b) for a, b in zip(buckets[::2], buckets[1::2], strict=False)]
    return joined + buckets[-1:] if len(buckets) % 2 else joined


def _join(a: Bucket, b: Bucket) -> Bucket:
    lows = [low for low in (a.low, b.low) if low is not None]
    highs = [high for high in (a.high, b.high) if high is not None]
    return Bucket(
        a.first,
        b.last,
        min(lows, default=None),
        max(highs, default=None),
        a.end if b.end is None else b.end,
        a.unknown + b.unknown,
    )
