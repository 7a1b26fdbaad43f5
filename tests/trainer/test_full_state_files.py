"""A file appears whole or not at all; what is not as it was written, or more, is refused."""

from __future__ import annotations

import errno
import os
import pickle  # noqa: TID251 - to make a file that asks for more than it may
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.crash_fs import CrashFs, Killed, crash_fs
from tests.support.runs import ROOT
from tests.support.waiting import wait_until
from tests.trainer.full_state_golden import (
    V1,
    V2,
    WEIGHT,
)
from trainer.contract import durable
from trainer.full_state import (
    CorruptError,
    OldTorchError,
    Payload,
    SchemaError,
    UnsafeError,
    atomic_save,
    read_one_file,
    refuse_old_torch,
    write_one_file,
)

SMALL = {"a": torch.arange(3.0), "b": [1, 2.5, None]}


@pytest.fixture
def payload() -> Payload:
    """The golden one, read anew."""
    return read_one_file(V2)


# Writing.


def test_killed_at_any_write_or_sync_the_old_file_stands_or_the_new_one(
    payload: Payload, tmp_path: Path
) -> None:
    old = write_one_file(tmp_path / "state.pt", payload)
    payload["extra"] = {"note": "new"}
    counting = CrashFs()
    with crash_fs(counting):
        new = write_one_file(tmp_path / "count.pt", payload)
    assert counting.trace[-2:] == ["fsync", "fsync"]  # the file, then its folder
    seen = set()
    for at in range(1, counting.calls + 1):
        with crash_fs(CrashFs(at=at, keep=7)), pytest.raises(Killed):
            write_one_file(tmp_path / "state.pt", payload)
        found = sha256((tmp_path / "state.pt").read_bytes()).hexdigest()
        assert found in (old.sha256, new.sha256)
        seen.add(found)
        read_one_file(tmp_path / "state.pt", sha256=found)
    assert len(seen) == 2


def test_the_digest_and_size_that_writing_returns_are_the_files(
    payload: Payload, tmp_path: Path
) -> None:
    payload["extra"] = {"large": torch.zeros(3 << 18, dtype=torch.float32)}
    written = write_one_file(tmp_path / "state.pt", payload)
    data = (tmp_path / "state.pt").read_bytes()
    assert written == (sha256(data).hexdigest(), len(data))
    assert len(data) > 3 << 20


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_what_the_disk_refuses_is_said_as_it_is_and_leaves_nothing(
    payload: Payload, tmp_path: Path, number: int
) -> None:
    """torch would turn it into an error of its own, by which a full disk cannot be told."""
    payload["extra"] = {"large": torch.zeros(1 << 20)}
    for at in (2, 30):
        plan = CrashFs(at=at, error=number)
        with crash_fs(plan), pytest.raises(OSError, match="Errno") as caught:
            write_one_file(tmp_path / "state.pt", payload)
        assert caught.value.errno == number
    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_file_do_not_meet(payload: Payload, tmp_path: Path) -> None:
    def write(number: int) -> str:
        return write_one_file(tmp_path / "state.pt", {**payload, "extra": {"by": number}}).sha256

    with ThreadPoolExecutor(4) as threads:
        digests = list(threads.map(write, range(24)))
    found = read_one_file(tmp_path / "state.pt")
    assert digests[found["extra"]["by"]] == sha256((tmp_path / "state.pt").read_bytes()).hexdigest()
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]


WRITER = """
import sys
from pathlib import Path
import torch
from trainer.full_state import read_one_file, write_one_file
payload = read_one_file(Path(sys.argv[1]))
for number in range(10_000):
    payload["extra"] = {"number": torch.full((1 << 19,), number), "by": number}
    write_one_file(Path(sys.argv[2]), payload)
"""


def test_a_writer_that_is_killed_leaves_a_valid_file(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    path.write_bytes(V2.read_bytes())

    def amid_the_next_save() -> bool:
        begun = any(found.name.endswith(".tmp") for found in tmp_path.iterdir())
        return begun and path.stat().st_size > 1 << 20

    process = subprocess.Popen([sys.executable, "-c", WRITER, V2, path], cwd=ROOT)
    try:
        wait_until(amid_the_next_save, "a second save under way", 30)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    extra = read_one_file(path)["extra"]
    assert torch.equal(extra["number"], torch.full((1 << 19,), extra["by"]))
    durable.remove_temporaries(tmp_path)
    assert [found.name for found in tmp_path.iterdir()] == ["state.pt"]


# Damage.


def test_no_byte_of_a_file_can_change_unnoticed(tmp_path: Path) -> None:
    """Every byte's neighbourhood: archive headers, pickle, tensors, padding, directory, digest."""
    path = tmp_path / "state.pt"
    atomic_save({"schema": "x", **SMALL}, path)
    whole = path.read_bytes()
    with pytest.raises(SchemaError):  # so the file itself is good
        read_one_file(path)
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(CorruptError, match=r"cannot load .*state\.pt: "):
            read_one_file(path)


@pytest.mark.parametrize("rest", [0, 3, 22, 100, 1000, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, rest: int) -> None:
    path = tmp_path / "state.pt"
    path.write_bytes(V2.read_bytes()[:rest])
    with pytest.raises(CorruptError, match="cannot load"):
        read_one_file(path)


def test_a_file_with_something_behind_its_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    for source in (V1, V2):
        path.write_bytes(source.read_bytes() + b"more")
        with pytest.raises(CorruptError, match="cannot load"):
            read_one_file(path)


def test_a_file_that_torch_wrote_alone_is_checked_by_its_crcs(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    data = bytearray(V1.read_bytes())
    with zipfile.ZipFile(V1) as archive:
        part = max(archive.infolist(), key=lambda part: part.file_size)
    data[data.find(torch.tensor(WEIGHT).numpy().tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=r"/data/\d+ is not as it was written"):
        read_one_file(path)
    assert part.filename.endswith("data.pkl")


def test_a_digest_from_elsewhere_is_held_against_the_file() -> None:
    digest = sha256(V1.read_bytes()).hexdigest()
    read_one_file(V1, sha256=digest)
    with pytest.raises(CorruptError, match=f"SHA-256: expected {'0' * 64}, found {digest}"):
        read_one_file(V1, sha256="0" * 64)


# More than tensors and plain containers.


class Marker:
    """Its unpickling would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_file_that_would_run_code_is_refused_in_one_line_and_runs_nothing(
    tmp_path: Path,
) -> None:
    torch.save({"schema": "x", "model": Marker(tmp_path / "ran")}, tmp_path / "state.pt")
    with pytest.raises(UnsafeError) as caught:
        read_one_file(tmp_path / "state.pt")
    text = str(caught.value)
    assert text.startswith(f"cannot load {tmp_path}/state.pt: it asks for posix.mkdir, and only")
    assert "\n" not in text
    assert caught.value.__cause__ is None
    assert not (tmp_path / "ran").exists()


def test_a_pickle_in_an_older_form_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    path.write_bytes(pickle.dumps(Marker(tmp_path / "ran")))
    with pytest.raises(CorruptError, match=r"no file of torch\.save's present form"):
        read_one_file(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("version", ["2.5.1+cu121", "1.13.0", "unknown"])
def test_an_old_torch_is_refused(version: str) -> None:
    with pytest.raises(OldTorchError, match=f"with torch {version.replace('+', '.')}: before 2.6"):
        refuse_old_torch(version)


@pytest.mark.parametrize("version", ["2.6.0", "2.13.0+cpu", "2.10.0a0+git1", "3.0"])
def test_a_newer_torch_is_not(version: str) -> None:
    refuse_old_torch(version)


def test_the_trainer_says_in_one_line_that_torch_is_too_old(tmp_path: Path) -> None:
    """Without a way to load a checkpoint safely it does not begin."""
    code = (
        "import sys, torch; torch.__version__ = '2.5.1'; from trainer.__main__ import main; "
        f"sys.argv = ['trainer', '--run', {str(tmp_path)!r}]; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("cannot load checkpoints with torch 2.5.1: before 2.6")
    assert "Traceback" not in done.stderr
