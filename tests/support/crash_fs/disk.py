"""A disk that follows a recording and keeps apart what is durable and what is only in memory.

Nothing is assumed of a file system but this: what fsync of a file returned for is in the file,
what fsync of a folder returned for is in the folder, and a rename is done or not done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from tests.support.crash_fs.operations import Operation

TEMPORARY = re.compile(r"(?:.*/)?\..+\.[0-9a-f]{12}\.tmp(?:/.*)?")
NAME = -1  # of a choice: it is about a name
FIRST_FOLDER = -2  # every folder has a number of its own, from here down

Content = dict[str, bytes | None]


@dataclass
class File:
    """One inode: what it holds, what of that is durable, and where each write since then began."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    starts: list[int] = field(default_factory=list)
    version: int = 0

    @property
    def pending(self) -> bool:
        """Whether a power cut may take something of it."""
        return bool(self.starts)

    def write(self, offset: int, data: bytes) -> None:
        """One write; a gap before it is zeros."""
        if offset > len(self.data):
            self.data.extend(bytes(offset - len(self.data)))
        self.data[offset : offset + len(data)] = data
        self.starts.append(offset)
        self.version += 1

    def resize(self, size: int) -> None:
        """Cut or extend."""
        self.data = self.data[:size] + bytes(max(0, size - len(self.data)))
        self.starts.append(size)
        self.version += 1

    def sync(self) -> None:
        """All of it is durable now."""
        self.durable = bytes(self.data)
        self.starts.clear()
        self.version += 1


class Disk:
    """``now`` is what a reader sees; ``bindings`` what each name has meant since its folder's sync.

    A binding is the number of a file or a folder, or None for nothing. The first one is durable.
    What is in a folder that was renamed has both paths until the old name is durably gone.
    """

    def __init__(self, start: Content) -> None:
        self.files: dict[int, File] = {}
        self.now: dict[str, int] = {}
        self.durable: dict[str, int] = {}
        self.bindings: dict[str, list[int | None]] = {}
        self.known: dict[tuple[int, int, str], tuple[bytes, bytes]] = {}
        self._inodes: dict[int, int] = {}
        self._folders = FIRST_FOLDER
        for path, data in start.items():
            number = self._new_folder() if data is None else self._new(data)
            self.now[path] = self.durable[path] = number

    def _new(self, data: bytes = b"") -> int:
        number = len(self.files)
        self.files[number] = File(bytearray(data), data)
        return number

    def _new_folder(self) -> int:
        self._folders -= 1
        return self._folders + 1

    def apply(self, done: Operation) -> str:
        """Follow one operation; the path that it touched, empty for a file without a name."""
        match done.kind:
            case "C":
                number = self._new()
                self._inodes[done.inode] = number
                self._bind(done.path, number)
            case "W" | "T" | "F":
                return self._on_file(done)
            case "R":
                number = self.now[done.path]
                if is_folder(number):
                    self._move_inside(done.path, done.to)
                self._bind(done.to, number)
                self._bind(done.path, None)
                return done.to
            case "L":
                self._bind(done.to, self.now[done.path])
                return done.to
            case "U" | "X":
                self._bind(done.path, None)
            case "M":
                self._bind(done.path, self._new_folder())
            case "D":
                self._sync_folder(done.path)
        return done.path

    def _on_file(self, done: Operation) -> str:
        number = self._inodes.get(done.inode)
        if number is None:
            raise ValueError(f"cannot follow the recording: nobody created inode {done.inode}")
        file = self.files[number]
        if done.kind == "W":
            file.write(done.offset, done.data)
        elif done.kind == "T":
            file.resize(done.offset)
        else:
            file.sync()
        return next((path for path, bound in self.now.items() if bound == number), "")

    def _bind(self, path: str, number: int | None) -> None:
        self.bindings.setdefault(path, [self.durable.get(path)]).append(number)
        if number is None:
            del self.now[path]
        else:
            self.now[path] = number

    def _move_inside(self, source: str, target: str) -> None:
        """What is in a folder is found under its new name; under the old one, if that stays."""
        inside = {path: target + path.removeprefix(source) for path in below(source, self.now)}
        for path, moved in inside.items():
            self.now[moved] = self.now.pop(path)
            if path in self.durable:
                self.durable[moved] = self.durable[path]
            if path in self.bindings:
                self.bindings[moved] = list(self.bindings[path])

    def _sync_folder(self, folder: str) -> None:
        for path in [path for path in self.bindings if parent_of(path) == folder]:
            last = self.bindings.pop(path)[-1]
            if last is None:
                self.durable.pop(path, None)
                for gone in [*below(path, self.durable), *below(path, self.bindings)]:
                    self.durable.pop(gone, None)
                    self.bindings.pop(gone, None)
            else:
                self.durable[path] = last

    def content(self) -> Content:
        """What a reader sees now."""
        return {
            path: None if is_folder(number) else bytes(self.files[number].data)
            for path, number in self.now.items()
        }


def parent_of(path: str) -> str:
    """The folder of a relative path, empty for the root."""
    return path.rpartition("/")[0]


def below(folder: str, paths: Iterable[str]) -> list[str]:
    """Those of the paths that lead into a folder."""
    return [path for path in paths if path.startswith(f"{folder}/")]


def is_folder(number: int) -> bool:
    """Whether that is the number of a folder."""
    return number <= FIRST_FOLDER


@cache
def is_temporary(path: str) -> bool:
    """Whether this is a name of a file or folder on its way to another name, or in such a one."""
    return TEMPORARY.fullmatch(path) is not None
