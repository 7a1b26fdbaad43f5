"""Orders of the supervisor: a file that is looked at, at every step's end.

A look costs one stat; the file is read only when its stamp has changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from trainer.contract.wire import Orders, WireError, read_orders

NO_ORDERS = Orders(0, (), None, None)


class OrderBook(Protocol):
    """Where orders come from; ``now`` holds those in force."""

    now: Orders

    def look(self) -> str:
        """Bring ``now`` up to date; return a line for the operator, or nothing."""


class OrdersFile:
    """``orders.json``; while it is missing or broken, the former orders stay in force."""

    def __init__(self, path: Path | None) -> None:
        self.now = NO_ORDERS
        self._path = path
        self._stamp: tuple[int, int, int] | None = None

    def look(self) -> str:
        """One stat, and a read where the stamp is new; a broken file is spoken of once."""
        if self._path is None:
            return ""
        try:
            status = os.stat(self._path)  # noqa: PTH116 - paid at every step
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp == self._stamp:
                return ""
            self._stamp = stamp
            self.now = read_orders(self._path.read_bytes())
        except FileNotFoundError:
            return ""
        except (OSError, WireError) as error:
            return f"cannot use {self._path}: {error}; going on with the former orders"
        return ""
