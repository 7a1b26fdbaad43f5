"""Notice that settings or sources changed: a slow poll, with a hint from the kernel beside it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self

from supervisor import clock

_CHANGES = ("created", "deleted", "modified", "moved")


class Stamp(NamedTuple):
    """What a change of a file or folder shows in."""

    inode: int
    size: int
    modified: int


class Watch:
    """Watches single files and folders; never give it reports or the run directory.

    A poll every ``every`` seconds finds every change. Where the kernel gives hints, ``fileno()``
    turns readable as soon as something changes in a folder. Files are left to the poll: watchdog
    watches the folder that a file stands in, and for settings that is the run directory, where
    the ledger and the reports would wake us at every step.
    """

    def __init__(self, paths: Iterable[Path], every: float = 5.0, *, hints: bool = True) -> None:
        self._stamps = {path: _stamp(path) for path in paths}
        self._every = every
        self._polled = clock.monotonic()
        self._reader, self._writer = socket.socketpair()
        self._reader.settimeout(0)
        self._writer.settimeout(0)
        self._observer: Any = None
        self._watches: dict[Path, Any] = {}
        if hints:
            self._start_observer()

    def fileno(self) -> int:
        """A descriptor that turns readable when ``changed`` may have something to say."""
        return self._reader.fileno()

    def changed(self) -> set[Path]:
        """The paths that changed, appeared or went since the last time they were named.

        Looks only after a hint or when the poll is due, so it may be called at every turn.
        """
        now = clock.monotonic()
        if not self._hinted() and now - self._polled < self._every:
            return set()
        self._polled = now
        found = set()
        for path, before in self._stamps.items():
            stamp = _stamp(path)
            if stamp != before:
                self._stamps[path] = stamp
                found.add(path)
                if (stamp and stamp.inode) != (before and before.inode):
                    self._watch_again(path)
        return found

    def close(self) -> None:
        """Stop watching."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
            self._observer = None
        self._reader.close()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _hinted(self) -> bool:
        hinted = False
        with contextlib.suppress(BlockingIOError):
            while self._reader.recv(4096):
                hinted = True
        return hinted

    def _start_observer(self) -> None:
        # Imported here: only the daemon watches, and it can do without.
        try:
            from watchdog.events import FileSystemEventHandler  # noqa: PLC0415 - see above
            from watchdog.observers import Observer  # noqa: PLC0415 - see above

            writer = self._writer

            class Hint(FileSystemEventHandler):
                def dispatch(self, event: Any) -> None:  # type: ignore[explicit-override]  # noqa: ANN401 - typing has override from 3.12 on; an event of watchdog's
                    # A trainer opens and closes documents at every step; that changes nothing.
                    if event.event_type in _CHANGES:
                        with contextlib.suppress(OSError):
                            writer.send(b"!")

            self._handler = Hint()
            self._observer = Observer()
            self._observer.start()
        except (ImportError, OSError):
            self._observer = None
            return
        for path in self._stamps:
            self._watch_again(path)

    def _watch_again(self, path: Path) -> None:
        """Watch what stands under the name now; the poll covers what cannot be watched."""
        if self._observer is None:
            return
        old = self._watches.pop(path, None)
        with contextlib.suppress(OSError, KeyError):
            if old is not None:
                self._observer.unschedule(old)
        with contextlib.suppress(OSError):
            if path.is_dir():
                self._watches[path] = self._observer.schedule(self._handler, str(path))


def _stamp(path: Path) -> Stamp | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return Stamp(facts.st_ino, facts.st_size, facts.st_mtime_ns)
