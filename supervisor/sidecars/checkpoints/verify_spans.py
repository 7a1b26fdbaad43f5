"""Which bytes of a torch.save file are numbers to be looked at, each once for each question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final, NamedTuple

from supervisor.sidecars.checkpoints.torch_tensor import ITEM_BYTES, Tensor

MOST_RUNS: Final = 200_000  # of all tensors that leave out parts of their storage


class Held(NamedTuple):
    """A tensor of the checkpoint: its name, and its role: ``m``, ``v`` (a moment) or empty."""

    name: str
    tensor: Tensor
    role: str = ""


class Choice(NamedTuple):
    """The tensors of a file to look at, and one of float64 whose last numbers are asked for."""

    held: list[Held]
    wanted: Tensor | None = None


class Question(NamedTuple):
    """What is asked of some bytes: they are numbers of a dtype, and have a role."""

    dtype: str
    role: str


Span = tuple[int, int]  # from one byte of the file to the byte behind the last
Spans = dict[str, dict[Question, list[Span]]]  # by entry


def spans(held: Iterable[Held]) -> Spans:
    """The bytes of all elements, in order and without overlap for each entry and question.

    A view that leaves out parts of its storage is asked about its own elements only: what lies
    between is perhaps nobody's. Of views in more than MOST_RUNS pieces it is asked about all.
    """
    found: Spans = {}
    left = MOST_RUNS
    for _, tensor, role in held:
        if not tensor.bytes:
            continue
        questions = found.setdefault(tensor.entry, {})
        place = questions.setdefault(Question(tensor.dtype, role), [])
        axes, run = _runs(tensor)
        count = 1
        for size, _ in axes:
            count *= size
        if count > left:
            place.append((tensor.offset, tensor.offset + tensor.bytes))
            continue
        left -= count - 1
        for steps in product(*[range(0, size * step, step) for size, step in axes]):
            start = tensor.offset + sum(steps)
            place.append((start, start + run))
    for questions in found.values():
        for question, places in questions.items():
            questions[question] = list(_merged(sorted(places)))
    return found


def owner(held: Iterable[Held], entry: str, question: Question, offset: int) -> tuple[str, int]:
    """The first tensor that holds the byte at ``offset``, and how many elements it lies behind."""
    for name, tensor, role in held:
        inside = tensor.offset <= offset < tensor.offset + tensor.bytes
        if inside and tensor.entry == entry and Question(tensor.dtype, role) == question:
            return name, (offset - tensor.offset) // ITEM_BYTES[tensor.dtype]
    return entry, 0


def _runs(tensor: Tensor) -> tuple[list[tuple[int, int]], int]:
    """A tensor as runs of bytes without a gap: the axes over them (size, step), a run's bytes."""
    item = ITEM_BYTES[tensor.dtype]
    axes = [
        (step * item, size)
        for step, size in zip(tensor.stride, tensor.shape, strict=True)
        if size > 1 and step
    ]
    run = item
    outer: list[tuple[int, int]] = []
    for step, size in sorted(axes):
        if step <= run and not outer:
            run += step * (size - 1)  # they touch each other, or overlap
        else:
            outer.append((size, step))
    return outer, run


def _merged(places: list[Span]) -> Iterator[Span]:
    start, end = places[0]
    for first, last in places[1:]:
        if first > end:
            yield start, end
            start, end = first, last
        else:
            end = max(end, last)
    yield start, end
