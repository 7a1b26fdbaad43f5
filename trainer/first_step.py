"""Hold the first step after a resume against what the checkpoint's companion says it has to find.

So a constructor that reseeds after the restore, a cursor that moved or a schedule that began anew
is caught before it changes a weight. What the operator has changed since is named instead.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer import rng
from trainer.errors import RefusedError
from trainer.state import State

_OTHER_LIBM = 1e-12  # another machine's cosine may differ in its last digit
_OF_RATE = ("lr", "warmup_steps", "final_lr_share", "steps")
_OF_ORDER = ("train.seed", "evaluate.holdout")


@dataclass(frozen=True)
class Expected:
    """What the first step after the resume from ``name`` has to find; None or absent: anything.

    ``generators`` are states as the companion has them, ``lr`` is the rate of the first update,
    ``places`` say where each arm goes on. ``rate_changed`` says that settings of the rate are not
    those of the checkpoint; ``arms_changed`` names the arms whose order or data are not.
    """

    name: str
    generators: Mapping[str, Any] | None = None
    lr: float | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    rate_changed: bool = False
    arms_changed: Collection[str] = ()

    def check_generators(self, state: State) -> None:
        """Right before the first draw. Raises RefusedError where anything moved a generator."""
        if self.generators is None:
            return
        moved = rng.moved(self.generators)
        if self.generators.get("mixer", now := state.mixer.generator_state()) != now:
            moved.append("the mixer")
        if moved:
            raise RefusedError(
                f"cannot resume from {self.name}: something moved the generators of "
                f"{', '.join(moved)} after they were put back"
            )

    def check_update(self, lr: float, places: Mapping[str, str]) -> list[str]:
        """Right before the first update; ``places`` say where each arm drawn began.

        Returns what differs because the operator changed it. Raises RefusedError for any other
        difference.
        """
        remarks = []
        if self.lr is not None and not math.isclose(lr, self.lr, rel_tol=_OTHER_LIBM):
            what = "the learning rate of the first update"
            remarks.append(self._difference(what, self.lr, lr, allowed=self.rate_changed))
        for arm, place in places.items():
            saved = self.places.get(arm, place)
            if place != saved:
                what = f"the next document of arm {arm} (epoch, number, offset)"
                allowed = arm in self.arms_changed
                remarks.append(self._difference(what, saved, place, allowed=allowed))
        return remarks

    def _difference(self, what: str, saved: object, now: object, *, allowed: bool) -> str:
        if allowed:
            return f"{what} was to be {saved} and is {now}, as settings or data have changed"
        raise RefusedError(
            f"cannot resume from {self.name}: {what} was to be {saved} and is {now}, and no "
            "setting or data of it has changed; choose another checkpoint, or look for what "
            "changes it after the resume"
        )


def expect(
    name: str,
    generators: Mapping[str, Any],
    following: dict[str, Any] | None,
    made_by: dict[str, Any],
    now: dict[str, Any],
) -> Expected:
    """From a companion's ``rng``, ``next`` and identities, and the identities of this life.

    Raises ValueError for a ``next`` that is not one of ours.
    """
    lr, places = _read_next(following)
    arms = {*made_by.get("data", {}), *now["data"]}
    order = any(_differs(made_by, now, f"settings.{key}") for key in _OF_ORDER)
    return Expected(
        name=name,
        generators=generators,
        lr=lr,
        places=places,
        rate_changed=any(_differs(made_by, now, f"settings.train.{key}") for key in _OF_RATE),
        arms_changed={arm for arm in arms if order or _differs(made_by, now, "data", arm)},
    )


def _read_next(record: dict[str, Any] | None) -> tuple[float | None, dict[str, str]]:
    match record:
        case None:
            return None, {}
        case {"lr": float(lr), "arms": dict(arms)} if all(type(v) is str for v in arms.values()):
            return lr, arms
        case _:
            raise ValueError(f"cannot use its next step {record!r}")


def _differs(saved: dict[str, Any], now: dict[str, Any], path: str, *names: str) -> bool:
    return _at(saved, path, names) != _at(now, path, names)


def _at(tree: Any, path: str, names: tuple[str, ...]) -> object:  # noqa: ANN401 - any JSON
    for key in (*path.split("."), *names):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
