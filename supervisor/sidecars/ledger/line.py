"""The one layout of a ledger line: its text from a step, and the facts that a replay must repeat.

``{"step":…,"loss":…,"nonfinite":"","arm":"…","lr":…,"policy":…,"attempt":…,"data":"…"`` then the
trainer's numeric extras, ``"mark":"…","time":"…","chain":"…"}``. ASCII, floats always with point
or exponent, the same fields on every line of an attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from trainer.contract.wire import Step, number

BEFORE_EXTRAS = ("step", "loss", "nonfinite", "arm", "lr", "policy", "attempt", "data")
AFTER_EXTRAS = ("mark", "time", "chain")
FIELDS = frozenset((*BEFORE_EXTRAS, *AFTER_EXTRAS))

_TIME = b',"time":"'
# Digits that complete a torn time: the first set is the lowest one unless the day would be a 31st
# of a short month.
_FILLS = ("0001-01-01T00:00:00.000Z", "0000-10-10T00:00:00.000Z")


def written_name(extra: str) -> str:
    """An extra's name on the line; one of the ledger's own names gets an underscore."""
    return extra + "_" if extra in FIELDS else extra


def extra_names(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The extras' written names on a parsed line, in order."""
    return tuple(name for name in record if name not in FIELDS)


class Layout:
    """Composes the lines of one attempt, whose extras are fixed."""

    __slots__ = ("_attempt", "_keys", "_policy", "names")

    def __init__(self, attempt: int, policy: int, names: Sequence[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._attempt = attempt
        self._policy = policy
        self._keys = [(name, f",{quoted(name)}:") for name in self.names]

    def body(self, step: Step, mark: str, wall: str) -> bytes:
        """The line up to its chain."""
        extras = ""
        if self._keys:
            values = {written_name(name): value for name, value in reversed(step.extras)}
            extras = "".join([key + number(values.get(name)) for name, key in self._keys])
        text = (
            f"{facts(step, self._policy)}{self._attempt}{data(step)}{extras}"
            f',"mark":{quoted(mark)},"time":{quoted(wall)}'
        )
        return text.encode("ascii")


def facts(step: Step, policy: int) -> str:
    """The line's beginning, up to the attempt's number: loss, arm, learning rate and policy."""
    return (
        f'{{"step":{step.step},"loss":{number(step.loss)},"nonfinite":{quoted(step.nonfinite)}'
        f',"arm":{quoted(step.arm)},"lr":{number(step.lr)},"policy":{policy},"attempt":'
    )


def data(step: Step) -> str:
    """The field that follows the attempt's number: the digest of the documents consumed."""
    return f',"data":{quoted(step.data)}'


def difference(record: Mapping[str, Any], step: Step, policy: int) -> str:
    """Which facts of a line a step does not repeat, in words."""
    said = {
        "loss": (record.get("loss"), step.loss),
        "nonfinite": (record.get("nonfinite"), step.nonfinite),
        "arm": (record.get("arm"), step.arm),
        "lr": (record.get("lr"), step.lr),
        "policy": (record.get("policy"), policy),
        "data": (record.get("data"), step.data),
    }
    parts = [f"{name} {new!r}, was {old!r}" for name, (old, new) in said.items() if old != new]
    return "; ".join(parts) or "the same values in another text"


def cut(region: bytes) -> tuple[bytes, bytes]:
    """A torn region's closed lines, newlines included, and the open piece behind them."""
    end = region.rfind(b"\n") + 1
    return region[:end], region[end:]


def torn_time(fragment: bytes, wall: str) -> str:
    """The time that a torn line holds, completed if need be; ``wall`` where it holds none."""
    _, found, rest = fragment.rpartition(_TIME)
    if not found:
        return wall
    text, closed, _ = rest.partition(b'"')
    begun = text.decode("ascii", "replace")
    if closed or wall.startswith(begun):
        return begun if closed else wall
    for fill in _FILLS:
        whole = begun + fill[len(begun) :]
        try:
            datetime.fromisoformat(whole)
        except ValueError:
            continue
        return whole
    return wall
