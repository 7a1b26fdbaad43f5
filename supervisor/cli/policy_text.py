"""A policy as TOML: what an override changes in the policy in force, written out in full."""

from __future__ import annotations

import json
from collections.abc import Sequence

from supervisor.config import ArmBounds, PolicyFile, parse_policy
from supervisor.errors import UsageError


def emit(file: PolicyFile) -> str:
    """TOML that reads back as the very same policy, every value spelled out."""
    settings = file.model_dump(by_alias=True, exclude={"arms"})
    lines = [f"{key} = {_value(v)}" for key, v in settings.items() if v is not None]
    for name, bounds in file.arms.items():
        lines += ["", f"[arms.{json.dumps(name)}]"]
        values = bounds.model_dump().items()
        lines += [f"{key} = {_value(value)}" for key, value in values if value is not None]
    return "\n".join(lines) + "\n"


def override(text: str, floors: Sequence[str], caps: Sequence[str]) -> str:
    """The policy with other floors and caps, each given as ``arm=number``. Raises UsageError."""
    file = parse_policy(text.encode("utf-8"), "the policy in force")
    arms: dict[str, ArmBounds] = dict(file.arms)
    for key, words in (("floor", floors), ("cap", caps)):
        for word in words:
            name, bound = _pair(key, word)
            if name not in arms:
                raise UsageError(
                    f"cannot set the {key} of {name!r}: the policy's arms are {', '.join(arms)}"
                )
            arms[name] = arms[name].model_copy(update={key: bound})
    return emit(file.model_copy(update={"arms": arms}))


def _pair(key: str, word: str) -> tuple[str, float]:
    name, equals, number = word.partition("=")
    try:
        bound = float(number)
    except ValueError:
        bound = -1.0
    if not equals or not 0 <= bound < float("inf"):
        raise UsageError(f"cannot use --{key} {word}: give it as arm=number, as in chat=0.25")
    return name.strip(), bound


def _value(value: object) -> str:
    if isinstance(value, str | tuple):
        return json.dumps(value)
    return repr(value)
