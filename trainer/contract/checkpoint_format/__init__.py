"""The checkpoint on disk: its names, the five regions of a ``.bin``, the companion beside it.

Pure: from bytes to values and back. Whoever reads or writes the files hands the bytes in, and
the path only for the messages.
"""

from trainer.contract.checkpoint_format.companion import (
    COMPANION_SCHEMA,
    MOST_LOSSES,
    REASONS,
    Companion,
    format_companion,
    migrate_v1_to_v2,
    read_companion,
)
from trainer.contract.checkpoint_format.layout import (
    FORMATS,
    HEADER_BYTES,
    MOST_PARAMETERS,
    CheckpointFormatError,
    Header,
    companion_of,
    form_of,
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
    "FORMATS",
    "HEADER_BYTES",
    "MOST_LOSSES",
    "MOST_PARAMETERS",
    "REASONS",
    "CheckpointFormatError",
    "Companion",
    "Header",
    "companion_of",
    "form_of",
    "format_companion",
    "migrate_v1_to_v2",
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
