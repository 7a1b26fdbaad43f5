"""Effects that only mirror the fold: while it catches up, the last of each kind waits."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.core.messages import Effect, GiveOrders, KeepBandit, SignalTrainer


class Projections:
    """What was held back; a save is signalled together with its order, after it."""

    _ORDER = (KeepBandit, GiveOrders, SignalTrainer)

    def __init__(self, submit: Callable[[Effect], None]) -> None:
        self._submit = submit
        self._held: dict[type, Effect] = {}

    def hold(self, effect: Effect) -> bool:
        """Keep the effect in place of the one before it; False for one that must not wait."""
        if isinstance(effect, SignalTrainer) and effect.name != "USR1":
            return False
        if not isinstance(effect, self._ORDER):
            return False
        if isinstance(effect, GiveOrders) and effect.orders.hold is not None:
            self._held.pop(GiveOrders, None)  # older than these, which the trainer must see now
            return False
        self._held[type(effect)] = effect
        return True

    def let_go(self) -> None:
        """Submit what was held back, before anything newer."""
        held, self._held = self._held, {}
        for kind in self._ORDER:
            if kind in held:
                self._submit(held[kind])
