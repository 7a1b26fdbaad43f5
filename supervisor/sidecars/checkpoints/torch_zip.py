"""The zip container of a torch.save file: where each stored entry lies, read without trust.

The container is an uncompressed zip: whatever an entry holds stands in the file as it is, so its
place and its size are all that a reader needs.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from typing import Final, NamedTuple

from trainer.contract.checkpoint_format import CheckpointFormatError

MOST_DIRECTORY: Final = 1 << 24  # bytes of the list of entries: 200,000 of them
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_ENCRYPTED: Final = 0x1
_UTF8: Final = 0x800
# What zipfile raises for content that is no zip, beside BadZipFile.
_ODD: Final = (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, IndexError)
_ODDER: Final = (OverflowError, struct.error, KeyError, RuntimeError)


class Entry(NamedTuple):
    """A stored entry: its name, the byte in the file at which its content begins, size, CRC-32."""

    name: str
    offset: int
    bytes: int
    crc: int


class _Bounded:
    """A file of which no single read takes more memory than the list of entries may take."""

    def __init__(self, file: io.FileIO) -> None:
        self.seek = file.seek
        self.tell = file.tell
        self._read = file.read

    def read(self, size: int = -1, /) -> bytes:
        """At most MOST_DIRECTORY bytes. Raises BadZipFile where more is asked for, OSError."""
        if size > MOST_DIRECTORY:
            raise zipfile.BadZipFile(f"the list of entries has {size} bytes")
        return self._read(MOST_DIRECTORY if size < 0 else size) or b""


def entries(descriptor: int, path: str) -> dict[str, Entry]:
    """Every entry by its name below the one folder that the container holds, in order of place.

    Compressed, encrypted, doubled and overlapping ones are refused. Raises CheckpointFormatError,
    OSError.
    """
    try:
        with io.FileIO(descriptor, closefd=False) as file:
            container = zipfile.ZipFile(_Bounded(file))
            listed, end = container.infolist(), container.start_dir
    except (*_ODD, *_ODDER) as error:
        raise CheckpointFormatError(path, "content", "a torch.save file", error) from None
    found: dict[str, Entry] = {}
    folder, at = "", 0
    for info in sorted(listed, key=lambda info: info.header_offset):
        if info.header_offset < at:
            raise CheckpointFormatError(path, "entries", "one behind the other", info.filename)
        entry = _entry(descriptor, info, path)
        at = entry.offset + entry.bytes
        if at > end:
            raise CheckpointFormatError(
                path, f"entry {entry.name}", f"its end before byte {end}", f"at {at}"
            )
        above, _, name = entry.name.partition("/")
        folder = folder or above
        if above != folder or not name or name in found:
            raise CheckpointFormatError(path, "entries", f"each once, all in {folder}/", entry.name)
        found[name] = entry._replace(name=name)
    return found


def _entry(descriptor: int, info: zipfile.ZipInfo, path: str) -> Entry:
    """The entry as the list and its own header in the file have it. Raises as ``entries``."""
    what = f"entry {info.filename}"
    stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
    if not stored or info.flag_bits & _ENCRYPTED:
        raise CheckpointFormatError(path, what, "stored as it is", "compressed or encrypted")
    head = os.pread(descriptor, _LOCAL.size, info.header_offset)
    if len(head) < _LOCAL.size:
        raise CheckpointFormatError(path, what, "its header", "the file's end")
    magic, _, flags, method, *_, name_bytes, extra_bytes = _LOCAL.unpack(head)
    name = os.pread(descriptor, name_bytes, info.header_offset + _LOCAL.size)
    coding = "utf-8" if info.flag_bits & _UTF8 else "cp437"
    same = name == info.orig_filename.encode(coding, "replace")
    if magic != b"PK\3\4" or method != info.compress_type or flags & _ENCRYPTED or not same:
        raise CheckpointFormatError(path, what, "a header that names it", "another")
    offset = info.header_offset + _LOCAL.size + name_bytes + extra_bytes
    return Entry(info.orig_filename, offset, info.file_size, info.CRC)


def content(descriptor: int, entry: Entry, path: str, most: int) -> bytes:
    """What a small entry holds, its CRC compared. Raises CheckpointFormatError, OSError."""
    if entry.bytes > most:
        raise CheckpointFormatError(
            path, f"size of {entry.name}", f"at most {most} bytes", f"{entry.bytes} bytes"
        )
    data = b""
    while len(data) < entry.bytes:
        piece = os.pread(descriptor, entry.bytes - len(data), entry.offset + len(data))
        if not piece:
            raise CheckpointFormatError(path, "size", f"{entry.name} whole", "the file's end")
        data += piece
    check_crc(entry, zlib.crc32(data), path)
    return data


def check_crc(entry: Entry, crc: int, path: str) -> None:
    """Raise CheckpointFormatError unless ``crc`` is the CRC-32 that the container states."""
    if crc != entry.crc:
        raise CheckpointFormatError(path, f"CRC of {entry.name}", f"{entry.crc:08x}", f"{crc:08x}")
