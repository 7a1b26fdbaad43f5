"""What was said about a checkpoint: pinned, rejected, quarantined, or with data to skip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from supervisor.errors import RefusedError
from trainer.contract import durable

PINS: Final = "pins.json"
REJECTIONS: Final = "rejected.json"
QUARANTINE: Final = "quarantine.json"
SKIPS: Final = "skips.json"
_SCHEMAS: Final = {
    PINS: "stepkeeper.pins/1",
    REJECTIONS: "stepkeeper.rejected/1",
    QUARANTINE: "stepkeeper.quarantine/1",
    SKIPS: "stepkeeper.skips/1",
}


def pins(folder: Path) -> dict[int, str]:
    """Pinned steps and their notes. Raises RefusedError for a file that does not hold."""
    path = folder / PINS
    try:
        return {int(step): note for step, note in _read(path, PINS).items()}
    except ValueError:
        raise _foreign(path) from None


def rejections(folder: Path) -> dict[str, str]:
    """Why seals were rejected, by their digest. Raises RefusedError for a file that does not hold.

    By digest, since a later life makes another checkpoint of the same step.
    """
    return _read(folder / REJECTIONS, REJECTIONS)


def pin(folder: Path, step: int, note: str) -> None:
    """Keep this step's checkpoint for ever; a second pin replaces the note. Raises OSError."""
    _write_pins(folder, {**pins(folder), step: note})


def unpin(folder: Path, step: int) -> None:
    """Leave this step's checkpoint to the retention again. Raises OSError."""
    _write_pins(folder, {key: note for key, note in pins(folder).items() if key != step})


def reject(folder: Path, digest: str, reason: str) -> None:
    """Never resume again from the checkpoint whose seal has this digest. Raises OSError."""
    _write(folder, REJECTIONS, {**rejections(folder), digest: reason})


def quarantined(folder: Path) -> dict[str, str]:
    """Why seals are quarantined, by their digest. Raises RefusedError for a bad file."""
    return _read(folder / QUARANTINE, QUARANTINE)


def quarantine(folder: Path, digest: str, why: str) -> None:
    """Do not choose the checkpoint whose seal has this digest until that is lifted.

    Raises OSError.
    """
    _write(folder, QUARANTINE, {**quarantined(folder), digest: why})


def lift(folder: Path, digest: str) -> None:
    """Trust the checkpoint whose seal has this digest again. Raises OSError."""
    kept = {key: why for key, why in quarantined(folder).items() if key != digest}
    _write(folder, QUARANTINE, kept)


def skips(folder: Path) -> dict[str, tuple[tuple[int, int], ...]]:
    """By the seal's digest: attempts rolled back to it, and the steps whose data later ones skip.

    In the file the marks are ``DIGEST:ATTEMPT`` to the number of steps. Raises RefusedError for a
    bad file.
    """
    path = folder / SKIPS
    found: dict[str, list[tuple[int, int]]] = {}
    try:
        for key, steps in _read(path, SKIPS).items():
            digest, _, attempt = key.partition(":")
            found.setdefault(digest, []).append((int(attempt), int(steps)))
    except ValueError:
        raise _foreign(path) from None
    return {digest: tuple(sorted(marks)) for digest, marks in found.items()}


def skip(folder: Path, digest: str, attempt: int, steps: int) -> None:
    """Attempts after ``attempt`` from this seal skip the data of so many steps. Raises OSError."""
    marks = _read(folder / SKIPS, SKIPS)
    _write(folder, SKIPS, {**marks, f"{digest}:{attempt}": str(steps)})


def _write_pins(folder: Path, marks: dict[int, str]) -> None:
    _write(folder, PINS, {str(step): note for step, note in marks.items()})


def _read(path: Path, name: str) -> dict[str, str]:
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        raise _foreign(path) from None
    match record:
        case {"schema": schema, "marks": dict(marks)} if schema == _SCHEMAS[name]:
            if all(isinstance(text, str) for text in marks.values()):
                return marks
    raise _foreign(path)


def _foreign(path: Path) -> RefusedError:
    return RefusedError(
        f"cannot use {path}: it is not as this program writes it; mend it or move it away"
    )


def _write(folder: Path, name: str, marks: dict[str, str]) -> None:
    record = {"schema": _SCHEMAS[name], "marks": marks}
    durable.write_file(folder / name, json.dumps(record, indent=1).encode("ascii") + b"\n")
