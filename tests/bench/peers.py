"""Other ways of saving the same state, each as durable as ours: synced, renamed, folder synced."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from tests.bench.beside import Rig
from trainer.checkpoint import bytes_of
from trainer.contract import durable
from trainer.state import State

_CHUNK = 16 << 20


class AtOnce:
    """Training waits while ``write`` writes the state to a path, which is then made durable."""

    def __init__(self, rig: Rig, name: str, write: Callable[[dict[str, Any], Path], None]) -> None:
        self.files = rig.folder / name
        self.files.mkdir()
        self.wait = self.seconds = 0.0
        self._rig = rig
        self._write = write

    def begin(self) -> None:
        began = time.perf_counter()
        path = self.files / "temporary"
        self._write(self._rig.tensors(), path)
        if path.is_file():  # a folder's files are synced by what wrote them
            descriptor = os.open(path, os.O_RDONLY)
            durable.finish(descriptor, path, self.files / "saved")
            os.close(descriptor)
        else:
            durable.publish(path, self.files / "saved")
        self.wait = self.seconds = time.perf_counter() - began

    def done(self) -> bool:
        return True

    def close(self) -> None:
        """It holds nothing."""


class Raw:
    """A thread writes the bytes through the page cache and syncs them: no digest, no order."""

    def __init__(self, rig: Rig) -> None:
        self.files = rig.folder / "raw"
        self.files.mkdir()
        self.wait = self.seconds = 0.0
        self._thread = threading.Thread()
        self._rig = rig

    def begin(self) -> None:
        # On a GPU the bytes are fetched first, and that is not counted.
        views = [bytes_of(tensor.cpu()) for tensor in self._rig.tensors().values()]
        self._thread = threading.Thread(target=self._write, args=(views,))
        self._thread.start()

    def _write(self, views: list[memoryview]) -> None:
        began = time.perf_counter()
        path = self.files / "temporary"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o640)
        for view in views:
            for start in range(0, len(view), _CHUNK):
                durable.write_all(descriptor, view[start : start + _CHUNK])
        durable.finish(descriptor, path, self.files / "saved")
        os.close(descriptor)
        self.seconds = time.perf_counter() - began

    def done(self) -> bool:
        return not self._thread.is_alive()

    def close(self) -> None:
        self._thread.join()


class Async:
    """DCP's ``async_save``, its staged copy kept between saves as it can be on this device."""

    def __init__(self, rig: Rig, kind: AsyncCheckpointerType, threads: int) -> None:
        self.files = rig.folder / f"dcp-{kind.value}-{threads}"
        self.files.mkdir()
        self.wait = self.seconds = 0.0
        self._rig = rig
        self._kind = kind
        self._threads = threads
        pinned = torch.cuda.is_available()
        shared = kind is AsyncCheckpointerType.PROCESS
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=pinned,
                use_shared_memory=shared,
                use_async_staging=pinned,
                use_non_blocking_copy=pinned,
            )
        )
        self._over = threading.Event()
        self._staging: Future[None] | None = None
        self._idle = rig.run.keeper

    def begin(self) -> None:
        self._over.clear()
        began = time.perf_counter()
        answer: Any = dcp.async_save(
            self._rig.tensors(),
            storage_writer=writer(self.files / "saved", self._threads),
            async_checkpointer_type=self._kind,
            async_stager=self._stager,
        )
        self.wait = time.perf_counter() - began
        upload: Future[Any] = getattr(answer, "upload_completion", answer)

        def over(result: Future[Any]) -> None:
            self.seconds = time.perf_counter() - began
            result.result()
            self._over.set()

        upload.add_done_callback(over)
        self._staging = getattr(answer, "staging_completion", None)
        self._rig.run.keeper = self

    def before_update(self, _state: State) -> None:
        """The state must not change before it is staged."""
        if self._staging is not None:
            began = time.perf_counter()
            self._staging.result()
            self.wait += time.perf_counter() - began

    def collect(self) -> None:
        """Nothing is reported."""

    def done(self) -> bool:
        if not self._over.is_set():
            return False
        self._rig.run.keeper = self._idle
        return True

    def close(self) -> None:
        self._stager.close()


def writer(path: Path, threads: int) -> dcp.FileSystemWriter:
    """A folder of DCP, its files synced."""
    return dcp.FileSystemWriter(path, thread_count=threads, sync_files=True)


def torch_save(tensors: dict[str, Any], path: Path) -> None:
    """One file of torch.save."""
    torch.save(tensors, path)


def dcp_save(tensors: dict[str, Any], path: Path) -> None:
    """A folder of DCP."""
    dcp.save(tensors, storage_writer=writer(path, 1))


def safetensors_save(tensors: dict[str, Any], path: Path) -> None:
    """One file of safetensors."""
    save_file(tensors, path)


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """A group of this process alone, which DCP wants for its background process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        for child in psutil.Process().children(recursive=True):  # before its files are removed
            child.kill()
            child.wait()
        dist.destroy_process_group()


@contextlib.contextmanager
def quiet_error_output() -> Iterator[None]:
    """What is started meanwhile, as DCP's background process, does not chat between the tables."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def clear(folder: Path) -> None:
    """Remove what was saved, so that the disk holds one at a time."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
