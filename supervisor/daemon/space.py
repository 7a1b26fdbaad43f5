"""Room on the run's file systems: watched each second, and said in words where there is none.

Whatever keeps the disk from taking what is written is one text, the same as long as it lasts.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from supervisor import clock
from supervisor.config import Config
from supervisor.core.messages import DiskSeen
from supervisor.core.state import State
from supervisor.perform import Performer, say
from supervisor.perform.reserve import SHARE, Reserve
from supervisor.perform.trimming import trim
from supervisor.sidecars import attempts
from trainer.contract.checkpoint_format import room_for

BELOW = 16 << 20  # bytes, on a large file system
INODES = 64
_SLICE = 4 << 20
_SLICE_SECONDS = 0.02
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def make_room(config: Config) -> None:
    """Before anything is written: give the ballast back where there is little room."""
    with contextlib.suppress(OSError):
        facts = os.statvfs(config.run)
        if facts.f_bavail * facts.f_frsize < _below(config, facts) or (
            facts.f_files and not facts.f_favail
        ):
            Reserve(config.run, config.disk.reserve).give_back()


def _below(config: Config, facts: os.statvfs_result) -> int:
    """Bytes that are to be free."""
    given = config.disk.hold_below
    most = min(BELOW, facts.f_blocks * facts.f_frsize // SHARE)
    return max(facts.f_frsize, most if given is None else given)


class Space:
    """``performer`` says what the disk refused; ``put`` receives DiskSeen when that changes.

    The ballast is given back and taken again here.
    """

    def __init__(
        self, config: Config, performer: Performer, put: Callable[[DiskSeen], None]
    ) -> None:
        self._config = config
        self._performer = performer
        self._put = put
        self._reserve = performer.parts.reserve
        self._over = 0  # refusals that are over
        self._low = self._told = self._warned = ""
        self._trims = config.disk.output_log > 0

    def look(self, state: State) -> None:
        """Once a second: tell the core of trouble that began or is over."""
        self._told = self._told or state.trouble
        trouble = self._look(state)
        if trouble != state.trouble:
            self._put(DiskSeen(trouble))

    def _look(self, state: State) -> str:
        """What keeps the disk from taking what is written; empty where nothing does."""
        count, text = self._performer.refused
        self._low = next(self._too_low(), "")
        if self._low:
            with contextlib.suppress(OSError):
                self._reserve.give_back()
        elif not self._performer.waiting and self._grow():
            self._over = count  # where the ballast finds room, so does all else
        refused = text if count != self._over else ""
        trouble = refused or self._low or self._no_room_to_save(state)
        if not trouble:
            self._told = ""
        elif not self._told:
            self._told = trouble
        self._trim(state)
        return self._told

    def _too_low(self) -> Iterator[str]:
        for folder, own in self._places():
            try:
                facts = os.statvfs(folder)
                missing = self._reserve.wanted - self._reserve.held if own and self._told else 0
            except OSError as error:
                yield f"cannot look at {folder}: {error.strerror}"
                continue
            if facts.f_flag & os.ST_RDONLY:
                yield f"{folder} is read-only"
            below = _below(self._config, facts)
            few = min(INODES, facts.f_files // SHARE + 2)
            slack = 2 if self._told else 1  # more is asked for before it is over
            free = facts.f_bavail * facts.f_frsize
            if free - max(0, missing) < slack * below:
                yield f"{_size(free)} are free in {folder}"
            if facts.f_files and facts.f_favail < slack * few:
                yield f"{facts.f_favail} inodes are free in {folder}"

    def _places(self) -> Iterator[tuple[Path, bool]]:
        """One folder for each file system, and whether the ballast lies there."""
        run = self._config.run
        yield run, True
        checkpoints = run / "checkpoints"
        with contextlib.suppress(OSError):
            if checkpoints.stat().st_dev != run.stat().st_dev:
                yield checkpoints, False

    def _grow(self) -> bool:
        """Take some ballast where there is room for it; False only while it finds none."""
        until = clock.monotonic() + _SLICE_SECONDS
        try:
            if not self._told and not self._has_room():
                return True
            while not self._reserve.grow(_SLICE):
                if clock.monotonic() > until:
                    return not self._told
        except OSError:
            return not self._told
        return True

    def _has_room(self) -> bool:
        """Whether taking the whole ballast would leave enough."""
        facts = os.statvfs(self._config.run)
        below = _below(self._config, facts)
        missing = self._reserve.wanted - self._reserve.held
        return facts.f_bavail * facts.f_frsize - missing >= 2 * below

    def _no_room_to_save(self, state: State) -> str:
        """The trainer waits, and its checkpoint would not fit; before that, it is warned of."""
        attempt = state.attempt
        if attempt is None or not attempt.n_params:
            return ""
        need = room_for(attempt.n_params, self._performer.parts.newest_bytes)
        text = next(self._too_small(need), "")
        if not text:
            self._warned = ""
            return ""
        if not self._warned:
            self._warned = text
            say(text, alarm=True)
        known = (*(p.step for p in state.pending), *(s.point.step for s in state.seals))
        waits = attempt.doing == "wait" and attempt.last_step not in known
        return text if waits and (self._told or state.orders.hold is None) else ""

    def _too_small(self, need: int) -> Iterator[str]:
        """In words, where a checkpoint of so many bytes would not fit; some of it in each root."""
        sharded = self._config.file.checkpoint.format == "sharded"
        roots = self._config.shard_roots.values() if sharded else ()
        shares = [(self._config.run / "checkpoints", room_for(0) if roots else need)]
        for folder, share in [*shares, *((root, need // len(roots)) for root in roots)]:
            try:
                facts = os.statvfs(folder)
            except OSError:
                continue
            free = facts.f_bavail * facts.f_frsize
            if free < share:
                yield f"a checkpoint needs {_size(share)}, and {_size(free)} are free in {folder}"

    def _trim(self, state: State) -> None:
        if state.attempt is None or not self._trims:
            return
        folder = attempts.folder(self._config.run, state.attempt.number)
        try:
            trim(folder / "output.log", self._config.disk.output_log)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                self._trims = False
            say(f"cannot bound output.log: {error.strerror}", alarm=True)


def _size(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 10 * 1024:
            return f"{count:,} {unit}"
        count //= 1024
    return f"{count:,} GiB"
