"""Any PyTorch model's full state, saved atomically and restored to the bit: a library of its own.

The page is ``README.md`` beside this file.
"""

import torch

from trainer.full_state.checkpoints import (
    load_checkpoint,
    load_sharded_checkpoint,
    save_checkpoint,
    save_sharded_checkpoint,
)
from trainer.full_state.epoch_order import EpochOrder
from trainer.full_state.errors import (
    CorruptError,
    DeviceError,
    FullStateError,
    OldTorchError,
    PathError,
    PayloadError,
    SchemaError,
    StructureError,
    UnsafeError,
)
from trainer.full_state.payload import Objects, Stateful, frozen, new_payload, payload_of
from trainer.full_state.reading import read_one_file
from trainer.full_state.restoring import PARTS, restore
from trainer.full_state.rng import capture_rng_state, generators_moved, restore_rng_state
from trainer.full_state.schema import SCHEMA, Payload, migrate_v1_to_v2
from trainer.full_state.shard_reading import read_sharded
from trainer.full_state.shard_writing import write_sharded
from trainer.full_state.splitting import split_keys
from trainer.full_state.torch_version import refuse_old_torch
from trainer.full_state.train_state import Restored, TrainState
from trainer.full_state.writing import (
    Announce,
    Written,
    atomic_save,
    atomic_write_json,
    write_one_file,
)

__all__ = [
    "PARTS",
    "SCHEMA",
    "Announce",
    "CorruptError",
    "DeviceError",
    "EpochOrder",
    "FullStateError",
    "Objects",
    "OldTorchError",
    "PathError",
    "Payload",
    "PayloadError",
    "Restored",
    "SchemaError",
    "Stateful",
    "StructureError",
    "TrainState",
    "UnsafeError",
    "Written",
    "atomic_save",
    "atomic_write_json",
    "capture_rng_state",
    "frozen",
    "generators_moved",
    "load_checkpoint",
    "load_sharded_checkpoint",
    "migrate_v1_to_v2",
    "new_payload",
    "payload_of",
    "read_one_file",
    "read_sharded",
    "refuse_old_torch",
    "restore",
    "restore_rng_state",
    "save_checkpoint",
    "save_sharded_checkpoint",
    "split_keys",
    "write_one_file",
    "write_sharded",
]

refuse_old_torch(str(torch.__version__))
