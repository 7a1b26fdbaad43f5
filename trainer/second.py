"""The second copy of the state: filled while the next forward pass runs, written at leisure.

One memory for the whole life of a trainer, in which the arrays lie as they will in the ``.bin``,
header and all, so that it can be written as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from trainer.contract.checkpoint_format import HEADER_BYTES, MOST_PARAMETERS, pack_header
from trainer.direct import aligned_memory
from trainer.moment import Moment


class Second:
    """Memory for one moment; ``copy`` fills it, and what it returns is good until the next call."""

    def __init__(self) -> None:
        self._memory: memoryview | None = None
        self._stream: torch.cuda.Stream | None = None
        self.fence: torch.cuda.Event | None = None

    def begin(self, moment: Moment) -> None:
        """Called where training runs: what its device has been given so far comes before a copy."""
        self.fence = None
        device = moment.weights[0].device
        if device.type == "cuda":
            if self._stream is None:
                self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call] # torch's own
            self._stream.wait_stream(torch.cuda.current_stream(device))

    def copy(self, moment: Moment) -> Moment:
        """The same moment with copies. Raises OSError or MemoryError where there is no room.

        On a GPU the copies are only begun: ``fence`` is done when they are, and an update has to
        be queued behind it.
        """
        size = HEADER_BYTES + 12 * moment.n_params
        writable = moment.n_params <= MOST_PARAMETERS  # as a .bin
        if self._memory is None:
            self._memory = _memory(size, pinned=self._stream is not None)
        image = self._memory[:size]
        if writable:
            image[:HEADER_BYTES] = pack_header(moment.step, moment.n_params)
        views = tuple(_views(image, moment))
        if self._stream is None:
            for view, tensor in zip(views, moment.arrays(), strict=True):
                # One thread's copy, without the interpreter lock; torch's own would wake as many
                # threads as training uses.
                np.copyto(view.numpy(), tensor.numpy())
        else:
            self._copy_beside(views, moment, self._stream)
        count = len(moment.weights)
        return dataclasses.replace(
            moment,
            weights=views[:count],
            m=views[count : 2 * count],
            v=views[2 * count :],
            image=image if writable else None,
        )

    def _copy_beside(
        self, views: tuple[Tensor, ...], moment: Moment, stream: torch.cuda.Stream
    ) -> None:
        with torch.cuda.stream(stream):
            for view, tensor in zip(views, moment.arrays(), strict=True):
                view.copy_(tensor, non_blocking=True)
            self.fence = torch.cuda.Event()  # type: ignore[no-untyped-call] # torch's own
            self.fence.record(stream)


def _views(image: memoryview, moment: Moment) -> Iterator[Tensor]:
    """A float32 tensor over each array's place in the image."""
    at = HEADER_BYTES
    for tensor in moment.arrays():
        count = tensor.numel()
        view = torch.frombuffer(image, dtype=torch.float32, count=count, offset=at)
        yield view.view(tensor.shape)
        at += 4 * count


def _memory(size: int, *, pinned: bool) -> memoryview:
    memory = aligned_memory(size)
    if pinned:
        # Not torch's pinned allocator, which rounds up to a power of two. Where the kernel locks
        # no more memory, the copies still come, only slower.
        address = torch.frombuffer(memory, dtype=torch.uint8).data_ptr()
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call] # torch's own
        runtime.cudaHostRegister(address, size, 0)
    return memory
