"""What is streamed is written whole and hashed right, past the page cache or through it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.crash_fs import CrashFs, Killed, crash_fs
from trainer.direct import BLOCK, Streamed, aligned_memory, stream, stream_image

MIB = 1 << 20
SIZES = [1, MIB, 3 * BLOCK * 100, 8 * MIB, 9 * MIB + 5, 33 * MIB + BLOCK + 8]


def filled(size: int) -> memoryview:
    """Page-aligned bytes that repeat nowhere near a block's length."""
    memory = aligned_memory(size)
    generator = np.random.default_rng(size)
    memory[:] = generator.integers(0, 256, size, dtype=np.uint8).tobytes()
    return memory


def parts_of(image: memoryview) -> Iterator[memoryview]:
    """The same bytes in pieces as a model's arrays are: an odd beginning, then unequal lengths."""
    at, length = 0, 8
    while at < len(image):
        yield image[at : at + length]
        at, length = at + length, length * 3 + 4


def written(path: Path, image: memoryview, how: str, short: int = 0) -> Streamed:
    """Stream into a new file, and hold the file against the bytes."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with crash_fs(CrashFs(short=short)):
            if how == "image":
                result = stream_image(descriptor, image)
            else:
                result = stream(descriptor, parts_of(image), len(image))
    finally:
        os.close(descriptor)
    assert path.read_bytes() == image
    assert result.sha256 == hashlib.sha256(image).hexdigest()
    return result


@pytest.mark.parametrize("how", ["image", "parts"])
@pytest.mark.parametrize("size", SIZES)
def test_the_file_holds_every_byte_and_the_digest_is_its_own(
    tmp_path: Path, size: int, how: str
) -> None:
    written(tmp_path / "file", filled(size), how)


@pytest.mark.parametrize("short", [BLOCK, 1_000_000])
def test_short_writes_are_gone_on_with_in_whole_blocks_or_not(tmp_path: Path, short: int) -> None:
    """After a piece that is no multiple of a block the kernel refuses to go on directly."""
    result = written(tmp_path / "file", filled(2 * MIB + 8), "parts", short=short)
    assert result.direct == (short == BLOCK) or not refuses_odd_lengths(tmp_path)


def refuses_odd_lengths(folder: Path) -> bool:
    """Whether O_DIRECT on this file system is more than a word."""
    descriptor = os.open(folder / "probe", os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
    try:
        os.write(descriptor, b"odd")
    except OSError as error:
        return error.errno == errno.EINVAL
    finally:
        os.close(descriptor)
    return False


@pytest.fixture
def ramfs(tmp_path: Path) -> Iterator[Path]:
    """A file system that refuses O_DIRECT."""
    folder = tmp_path / "ramfs"
    folder.mkdir()
    command = ["mount", "-t", "ramfs", "ramfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs root, to mount a ramfs")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("how", ["image", "parts"])
def test_a_file_system_that_refuses_is_written_through_the_cache(ramfs: Path, how: str) -> None:
    assert not written(ramfs / "file", filled(9 * MIB + 5), how).direct


def test_the_flag_is_gone_before_the_last_part_of_a_block(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
    stream_image(descriptor, filled(2 * MIB + 8))
    assert not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT
    os.close(descriptor)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_refused_write_is_raised_and_ends_the_threads(tmp_path: Path, number: int) -> None:
    image = filled(30 * MIB)
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT, 0o600)
    plan = CrashFs(at=2, error=number)
    with crash_fs(plan), pytest.raises(OSError, match=os.strerror(number)):
        stream(descriptor, parts_of(image), len(image))
    assert plan.trace == ["write", "write"]
    with crash_fs(CrashFs(at=1)), pytest.raises(Killed):
        stream_image(descriptor, image)
    os.close(descriptor)


class Swallowing(CrashFs):
    """A disk so fast that the digest comes behind."""

    def write(self, descriptor: int, data: bytes) -> int:
        del descriptor
        return len(data)


def test_memory_is_used_again_only_when_its_digest_is_taken(tmp_path: Path) -> None:
    image = filled(96 * MIB)
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT, 0o600)
    with crash_fs(Swallowing()):
        result = stream(descriptor, parts_of(image), len(image))
    os.close(descriptor)
    assert result.sha256 == hashlib.sha256(image).hexdigest()
