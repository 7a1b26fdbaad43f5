"""What ``status`` says of the settings in force, and of a run.toml that is another text by now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor.sidecars import kept_settings


def settings_in_force(run: Path) -> dict[str, Any]:
    """Their number, 0 before the first start, and whether run.toml differs from them or is gone."""
    numbers = kept_settings.numbers(run)
    try:
        edited = bool(numbers) and (run / "run.toml").read_bytes() != kept_settings.newest(run)
    except OSError:
        edited = bool(numbers)
    return {"number": numbers[-1] if numbers else 0, "edited": edited}


def line(settings: dict[str, Any], *, supervised: bool) -> str:
    """The same for people."""
    wait = "a reload" if supervised else "the next start"
    number = settings["number"]
    return (
        f"settings  {number}; run.toml is not that of settings/{number:04d}.toml, without effect "
        f"before {wait}"
    )
