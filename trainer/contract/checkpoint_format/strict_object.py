"""Read one strict JSON object of a checkpoint: no key twice, no number that is not finite."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from trainer.contract.checkpoint_format.layout import CheckpointFormatError


def strict_object(data: bytes, path: str) -> dict[str, Any]:
    """Parse it. Raises CheckpointFormatError that names ``path``."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) != len(pairs):
            raise CheckpointFormatError(path, "keys", "each once", [key for key, _ in pairs])
        return record

    def refuse(word: str) -> NoReturn:
        raise CheckpointFormatError(path, "numbers", "finite ones", word)

    try:
        record = json.loads(data, object_pairs_hook=once, parse_constant=refuse)
    except CheckpointFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointFormatError(path, "content", "a JSON object", f"none ({error})") from None
    if not isinstance(record, dict):
        raise CheckpointFormatError(path, "content", "a JSON object", type(record).__name__)
    return record
