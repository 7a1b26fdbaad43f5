"""What is wrong with a full state: a tree under ValueError, every message one line.

    FullStateError
    ├── PayloadError      something in it is neither a tensor nor a plain container: not saved
    ├── CorruptError      the bytes are not those that were saved, or some are missing
    ├── UnsafeError       loading would have to build more than tensors and plain containers
    ├── SchemaError       another schema, or a field is missing, unknown or of another kind
    ├── PathError         a name leads out of the checkpoint's folder and its named roots
    ├── StructureError    it does not fit the objects that it shall be restored into
    ├── DeviceError       it was saved on another kind of device
    └── OldTorchError     this torch cannot load without unpickling

What the disk refuses is an OSError, as everywhere.
"""

from __future__ import annotations

from trainer.errors import SettingsError


class FullStateError(ValueError):
    """Base of all; its message is for an operator and begins with "cannot"."""


class PayloadError(FullStateError):
    """A payload that holds more than tensors and plain containers."""


class CorruptError(FullStateError):
    """Bytes that are not those that were saved."""


class UnsafeError(FullStateError):
    """A file that only unpickling could load."""


class SchemaError(FullStateError):
    """A payload of another schema, or not as its schema says."""


class PathError(FullStateError):
    """A name that leads elsewhere than into the checkpoint's folder or a named root."""


class StructureError(FullStateError):
    """A payload that does not fit model, optimizer or another object."""


class DeviceError(FullStateError):
    """A payload of another kind of device."""


class OldTorchError(FullStateError, SettingsError):
    """A torch whose weights-only loading could be bypassed."""
