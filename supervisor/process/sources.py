"""Look at the data sources from a thread: which are there, and what each holds, at a bounded cost.

A file system that does not answer holds up this thread and nothing else. A source is looked for
each second, and looked through every few, or at once where the kernel hints at a change. What it
holds is the sum of a digest of each file's name, size and time of change, whatever the order, so
that a million files need no memory. Looking through them takes a tenth of a core at most, and
begins again after nine times as long as it took: on average a hundredth of a core. A touched file
counts as changed.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from threading import Event, Thread
from typing import Final, NamedTuple

from supervisor import clock
from supervisor.process.watch import Watch

EVERY: Final = 5.0  # seconds between two looks through what a source holds
_PRESENCE: Final = 1.0  # seconds between two looks for it
_LEAST: Final = 0.1  # seconds between two looks, whatever the kernel hints at
_AT_ONCE: Final = 2000  # files that are looked at without a pause
_REST: Final = 9.0  # times as long as it took
_CLOSING: Final = 1.0  # seconds; a thread that hangs is left to the process's end
_MODULUS: Final = 1 << 64


class Seen(NamedTuple):
    """A source as it was last seen; ``content`` is empty before it was looked through."""

    there: bool
    content: str


class Sources:
    """Looks at sources, arms to paths, until it is closed; ``fileno`` is readable after news."""

    def __init__(self, sources: Mapping[str, Path], every: float = EVERY) -> None:
        self._sources = dict(sources)
        self._every = every
        self._seen: dict[str, Seen] | None = None
        self._due = dict.fromkeys(sources, 0.0)
        self._rested = dict.fromkeys(sources, 0.0)
        self._looking: tuple[str, float] | None = None
        self._stopped = Event()
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = Thread(target=self._work, name="sources", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """A descriptor that is readable when something other was seen."""
        return self._news

    def seen(self) -> Mapping[str, Seen] | None:
        """What was seen last, None before the first look is over; never waits."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._news)
        return self._seen

    def late(self, now: float) -> tuple[str, float] | None:
        """The source that is being looked at, and for how many seconds; None where none is."""
        looking = self._looking
        return None if looking is None else (looking[0], now - looking[1])

    def close(self) -> None:
        """Stop looking; a look that hangs is not waited for."""
        self._stopped.set()
        os.eventfd_write(self._stop, 1)
        self._thread.join(_CLOSING)
        if not self._thread.is_alive():
            os.close(self._news)
            os.close(self._stop)

    def _work(self) -> None:
        with Watch(self._sources.values(), min(self._every, _PRESENCE)) as watch:
            while not self._stopped.is_set():
                self._look()
                self._stopped.wait(_LEAST)
                select.select([watch.fileno(), self._stop], [], [], self._wait())
                for path in watch.changed():
                    for name in (n for n, p in self._sources.items() if p == path):
                        self._due[name] = self._rested[name]

    def _wait(self) -> float:
        """Seconds until something is due."""
        now, seen = clock.monotonic(), self._seen or {}
        due = [self._due[name] - now for name, source in seen.items() if source.there]
        return max(0.0, min([self._every, _PRESENCE, *due]))

    def _look(self) -> None:
        """Look for each source, and through those that are due."""
        seen = dict(self._seen or {})
        for name, path in self._sources.items():
            if self._stopped.is_set():
                return
            self._looking = (name, clock.monotonic())
            there = _is_there(path)
            content = seen[name].content if there and name in seen else ""
            if there and (not content or clock.monotonic() >= self._due[name]):
                content = self._look_through(name, path) or content
            seen[name] = Seen(there, content)
        self._looking = None
        if seen != self._seen:
            self._seen = seen
            os.eventfd_write(self._news, 1)

    def _look_through(self, name: str, path: Path) -> str:
        began = clock.monotonic()
        content = content_of(path, lambda seconds: self._pause(name, seconds))
        ended = clock.monotonic()
        self._rested[name] = ended + _REST * (ended - began)
        self._due[name] = max(self._rested[name], ended + self._every)
        return content

    def _pause(self, name: str, seconds: float) -> bool:
        stop = self._stopped.wait(seconds)
        self._looking = (name, clock.monotonic())
        return stop


def content_of(source: Path, pause: Callable[[float], bool] = lambda _: False) -> str:
    """16 hex digits of the names, sizes and times of all files of a source, hidden ones left out.

    Empty where ``pause``, which is given the seconds to rest, says that it is enough. What cannot
    be looked at counts as such.
    """
    total, began = 0, clock.monotonic()
    for number, what in enumerate(_files(source), 1):
        digest = blake2b(what, digest_size=8).digest()
        total = (total + int.from_bytes(digest, "little")) % _MODULUS
        if number % _AT_ONCE == 0:
            if pause(_REST * (clock.monotonic() - began)):
                return ""
            began = clock.monotonic()
    return f"{total:016x}"


def bytes_of(source: Path) -> Iterator[tuple[str, int]]:
    """Name and bytes of each file of a source, hidden ones left out."""
    for what in _files(source):
        name, _, rest = os.fsdecode(what).partition("\0")
        size, told, _ = rest.partition("\0")
        if told:  # what cannot be looked at has none
            yield name or source.name, int(size)


def _files(source: Path) -> Iterator[bytes]:
    """What identifies each file, by its path below the source; in no order."""
    folders = [""]
    while folders:
        below = folders.pop()
        try:
            with os.scandir(source / below) as entries:
                for entry in entries:
                    name = below + entry.name
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{name}/")
                    else:
                        yield _file(name, entry.stat)
        except NotADirectoryError:
            yield _file("", source.stat)
        except OSError as error:
            yield os.fsencode(f"{below}\0{error.errno}")


def _file(name: str, look: Callable[[], os.stat_result]) -> bytes:
    try:
        facts = look()
    except OSError as error:
        return os.fsencode(f"{name}\0{error.errno}")
    return os.fsencode(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}")


def _is_there(source: Path) -> bool:
    """A source that cannot be looked at, on a server that is gone perhaps, is not there."""
    try:
        return source.exists()
    except OSError:
        return False
