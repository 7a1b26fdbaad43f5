"""The checkpoint on disk: the five regions of ``step_NNNNNN.bin`` and the companion beside it.

Pure: from bytes to values and back. Whoever reads or writes the files hands the bytes in, and
the path only for the messages.
"""

from trainer.contract.checkpoint_format.companion import (
    COMPANION_SCHEMA,
    REASONS,
    Companion,
    format_companion,
    read_companion,
)
from trainer.contract.checkpoint_format.layout import (
    HEADER_BYTES,
    MOST_PARAMETERS,
    CheckpointFormatError,
    Header,
    companion_of,
    n_params_of,
    name_of,
    pack_header,
    read_header,
    room_for,
    seal_of,
    size_of,
    step_of,
)

__all__ = [
    "COMPANION_SCHEMA",
    "HEADER_BYTES",
    "MOST_PARAMETERS",
    "REASONS",
    "CheckpointFormatError",
    "Companion",
    "Header",
    "companion_of",
    "format_companion",
    "n_params_of",
    "name_of",
    "pack_header",
    "read_companion",
    "read_header",
    "room_for",
    "seal_of",
    "size_of",
    "step_of",
]
