"""Every state that a crash may leave at one moment, within a stated bound.

The choices at a moment are: for each name changed since its folder's sync, what it means (the
durable meaning, the newest, or the one before that); for each file written since its own sync, how
much arrived; and whether temporary names that lead nowhere else are there. There are four anchors:
everything arrived (the programs died, the machine lives), nothing did, all names did but no bytes,
all names did and zeros in place of bytes. Taken are all states that differ from one of the first
two anchors in at most ``depth`` choices, and from one of the others in at most ``depth - 1``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations, product

from tests.support.crash_fs.disk import (
    NAME,
    Content,
    Disk,
    File,
    is_folder,
    is_temporary,
    parent_of,
)

LEFT_OUT = ("output.log", "run.lock", "trainer.lock", "supervisor.log")
_TEMPORARIES = "(temporaries)"


@dataclass(frozen=True)
class Axis:
    """One choice: what it is about, and how many ways there are; the first is "it arrived"."""

    what: str
    number: int  # of the file, or NAME
    ways: tuple[int | str | None, ...]


@dataclass(frozen=True)
class Chosen:
    """A state: its content, what in it is not as it was last written, and a digest of all.

    ``links`` are second names of a file, by path, with the first one.
    """

    content: Content
    links: dict[str, str]
    lost: tuple[str, ...]
    digest: bytes


def axes_of(disk: Disk) -> list[Axis]:
    """The choices at this moment."""
    axes = []
    for path, bound in sorted(disk.bindings.items()):
        if not is_temporary(path) and path.rpartition("/")[2] not in LEFT_OUT:
            ways = tuple(dict.fromkeys((bound[-1], *bound[-2:-1], bound[0])))
            if len(ways) > 1:
                axes.append(Axis(path, NAME, ways))
    interesting = {number for axis in axes for number in axis.ways if isinstance(number, int)}
    names = {number: path for path, number in disk.now.items()}
    for number, file in disk.files.items():
        name = names.get(number, "")
        if number in names and name.rpartition("/")[2] in LEFT_OUT:
            continue
        if file.pending and (number in names or number in interesting):
            axes.append(Axis(name, number, tuple(dict.fromkeys(_variants(file)))))
    if any(is_temporary(path) for path in disk.bindings):
        axes.append(Axis(_TEMPORARIES, NAME, ("none", "all")))
    return axes


def _variants(file: File) -> Iterator[str]:
    """How much of it arrived: names of ways that lead to different bytes."""
    yield "all"
    yield "nothing"
    if min(file.starts) < len(file.durable):
        return  # written over in place: as it was, or as it is
    seen = {bytes(file.data), file.durable}
    for name in ("zeros", "torn", "torn last", "zeros behind", "zeros before"):
        data = arrived(file, name)
        if data not in seen:
            seen.add(data)
            yield name


def arrived(file: File, how: str) -> bytes:
    """The bytes of the file under one way."""
    whole, kept = bytes(file.data), file.durable
    start, end = len(kept), len(whole)
    first = next((at for at in sorted(file.starts) if at > start), end)
    middle = (start + first) // 2
    last = (max([*file.starts, start]) + end) // 2
    ways = {
        "all": whole,
        "nothing": kept,
        "zeros": kept + bytes(end - start),
        "torn": whole[:middle],
        "torn last": whole[:last],
        "zeros behind": whole[:last] + bytes(end - last),
        "zeros before": kept + bytes(middle - start) + whole[middle:],
    }
    return ways[how]


def _arrived_once(disk: Disk, number: int, how: str) -> tuple[bytes, bytes]:
    """The bytes and their digest, worked out once for each version of the file."""
    file = disk.files[number]
    key = (number, file.version, how)
    if key not in disk.known:
        data = arrived(file, how)
        disk.known[key] = (data, blake2b(data, digest_size=16).digest())
    return disk.known[key]


Ways = tuple[int | str | None, ...]


def choices_of(disk: Disk, depth: int) -> tuple[list[Axis], list[Ways]]:
    """The axes at this moment, and every choice of ways within the bound, each once."""
    axes = axes_of(disk)
    found: dict[Ways, None] = {}
    for anchor, distance in _anchors(axes, depth):
        for count in range(min(distance, len(axes)) + 1):
            for places in combinations(range(len(axes)), count):
                for ways in product(*(axes[place].ways for place in places)):
                    chosen = list(anchor)
                    for place, way in zip(places, ways, strict=True):
                        chosen[place] = way
                    found[tuple(chosen)] = None
    return axes, list(found)


def states_of(disk: Disk, depth: int) -> Iterator[Chosen]:
    """The state of every choice."""
    axes, choices = choices_of(disk, depth)
    for chosen in choices:
        yield state_of(disk, axes, chosen)


def _anchors(axes: list[Axis], depth: int) -> Iterator[tuple[list[int | str | None], int]]:
    yield [axis.ways[0] for axis in axes], depth
    yield [_durable(axis) for axis in axes], depth
    for way in ("nothing", "zeros"):
        held = [way if axis.number != NAME and way in axis.ways else axis.ways[0] for axis in axes]
        yield held, depth - 1


def _durable(axis: Axis) -> int | str | None:
    """The way in which nothing of it arrived."""
    if axis.what == _TEMPORARIES:
        return "none"
    return axis.ways[1 if axis.number != NAME else -1]


def bare(disk: Disk) -> Chosen:
    """What is durable, and nothing else."""
    axes = axes_of(disk)
    return state_of(disk, axes, tuple(_durable(axis) for axis in axes))


def state_of(disk: Disk, axes: list[Axis], chosen: Ways) -> Chosen:
    """What a crash leaves under one choice."""
    names: dict[str, int | None] = dict(disk.durable)
    data: dict[int, str] = {}
    temporaries = False
    lost = []
    for path, bound in disk.bindings.items():
        if path.rpartition("/")[2] in LEFT_OUT or len(set(bound)) == 1:
            names[path] = bound[-1]
    for axis, way in zip(axes, chosen, strict=True):
        if axis.what == _TEMPORARIES:
            temporaries = way == "all"
            continue
        if axis.number == NAME:
            names[axis.what] = way if isinstance(way, int) else None
        else:
            data[axis.number] = str(way)
        if way != axis.ways[0]:
            lost.append(axis.what)
    _settle_temporaries(disk, names, wanted=temporaries)
    return _materialised(disk, names, data, tuple(lost))


def _settle_temporaries(disk: Disk, names: dict[str, int | None], *, wanted: bool) -> None:
    """Only what has no other name here has one: a rename is done or not done, never both."""
    bound = {
        number
        for path, number in names.items()
        if not is_temporary(path) and _is_reached(path, names)
    }
    for path in disk.bindings.keys() | names.keys():
        if not is_temporary(path):
            continue
        if names.get(path) in bound:
            names[path] = None
        meant = disk.bindings.get(path, [])
        number = next((n for n in reversed(meant) if n is not None), None)
        if wanted and number is not None and number not in bound:
            names[path] = number


def _is_reached(path: str, names: dict[str, int | None]) -> bool:
    """Whether every folder that leads to a path is there."""
    above = parent_of(path)
    return not above or (names.get(above) is not None and _is_reached(above, names))


def _materialised(
    disk: Disk, names: dict[str, int | None], data: dict[int, str], lost: tuple[str, ...]
) -> Chosen:
    content: Content = {}
    links: dict[str, str] = {}
    first: dict[int, str] = {}
    digest = blake2b(digest_size=16)
    for path in sorted(names):
        number = names[path]
        above = parent_of(path)
        if number is None or (above and content.get(above, b"") is not None):
            continue  # the folder it was in did not arrive
        content[path] = None
        if not is_folder(number):
            if first.setdefault(number, path) != path:
                links[path] = first[number]
            content[path], hashed = _arrived_once(disk, number, data.get(number, "all"))
            digest.update(hashed)
        digest.update(b"%b\0" % path.encode())
    return Chosen(content, links, lost, digest.digest())
