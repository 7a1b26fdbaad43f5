"""The order of one epoch after another, and where in it training stands.

The permutation itself is part of the state, so a resume in mid-epoch neither skips an input nor
sees one twice, and the generator's own state, so the next epoch is the one that would have come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trainer.full_state.errors import SchemaError, StructureError
from trainer.full_state.rng import check_state, put_state, state_of

_NAME = "of the order of epochs"
_KEYS = {"items", "batch", "epoch", "position", "permutation", "generator"}


class EpochOrder:
    """Batches of indices 0 to ``items`` - 1; the last one of an epoch may be shorter.

    An epoch's permutation is drawn from ``generator`` when its first batch is asked for, and by
    nothing else. Give it as ``loader`` when saving and loading.
    """

    def __init__(
        self, items: int, batch: int, generator: np.random.Generator | torch.Generator
    ) -> None:
        """Raises ValueError unless both numbers are 1 or more."""
        if items < 1 or batch < 1:
            raise ValueError(f"cannot order {items} items in batches of {batch}: 1 or more of each")
        self.items, self.batch = items, batch
        self.epoch = 0
        self.position = 0
        self._generator = generator
        self._permutation = torch.empty(0, dtype=torch.int64)

    @property
    def batch_in_epoch(self) -> int:
        """Batches of this epoch that are consumed."""
        return -(-self.position // self.batch)

    def next_batch(self) -> list[int]:
        """The next indices; behind the last ones of an epoch the next epoch begins."""
        if self.position >= self.items:
            self.epoch, self.position = self.epoch + 1, 0
        if self.position == 0:
            self._permutation = self._draw()
        end = min(self.position + self.batch, self.items)
        indices: list[int] = self._permutation[self.position : end].tolist()
        self.position = end
        return indices

    def rest_of_epoch(self) -> list[list[int]]:
        """The batches that ``next_batch`` gives before the next epoch begins; takes none of them.

        At an epoch's border it is the whole next epoch. Give it to a loader that reads ahead, and
        call ``next_batch`` for each batch that was trained on.
        """
        permutation, position = self._permutation, self.position
        if position in (0, self.items):
            before, position = state_of(self._generator), 0
            permutation = self._draw()
            put_state(self._generator, before, _NAME)
        rest: list[int] = permutation[position:].tolist()
        return [rest[at : at + self.batch] for at in range(0, len(rest), self.batch)]

    def _draw(self) -> torch.Tensor:
        if isinstance(self._generator, torch.Generator):
            return torch.randperm(self.items, generator=self._generator)
        return torch.from_numpy(self._generator.permutation(self.items))

    def state_dict(self) -> dict[str, Any]:
        """Numbers, the permutation as an int64 tensor (of ``items``, or empty), the generator."""
        return {
            "items": self.items,
            "batch": self.batch,
            "epoch": self.epoch,
            "position": self.position,
            "permutation": self._permutation,
            "generator": state_of(self._generator),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there. Raises SchemaError, StructureError for another number of items."""
        self.check_state_dict(state_dict)
        put_state(self._generator, state_dict["generator"], _NAME)
        self.epoch, self.position = state_dict["epoch"], state_dict["position"]
        self._permutation = state_dict["permutation"].clone()

    def check_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Raise what ``load_state_dict`` would, and change nothing."""
        if set(state_dict) != _KEYS:
            wrong = ", ".join(sorted(map(str, _KEYS ^ set(state_dict))))
            raise SchemaError(f"cannot restore the order of epochs: missing or unknown: {wrong}")
        for name, own in (("items", self.items), ("batch", self.batch)):
            if state_dict[name] != own:
                raise StructureError(
                    f"cannot restore the order of epochs: it had {name} = {state_dict[name]} and "
                    f"has {own}: inputs would be skipped or seen twice"
                )
        permutation, position = state_dict["permutation"], state_dict["position"]
        begun = position > 0
        whole = torch.equal(torch.sort(permutation).values, torch.arange(self.items))
        if not 0 <= position <= self.items or (begun and not whole):
            raise SchemaError("cannot restore the order of epochs: its permutation is none")
        check_state(self._generator, state_dict["generator"], _NAME)
