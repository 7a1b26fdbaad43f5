"""Measure the project on this machine: ``python -m tests.bench NAME [--quick]``, or ``all``."""

from __future__ import annotations

import signal
import sys
from importlib import import_module

NAMES = (
    "trainer",
    "audit",
    "supervisor",
    "sealing",
    "restart",
    "status",
    "hang",
    "storm",
    "checkpoint",
    "gate",
    "bounds",
    "policies",
    "report",
    "explain",
)
ALONE = ("ablation",)  # trains for an hour, so "all" leaves it out


def main(words: list[str]) -> int:
    """Run the benches named first, each with the rest of the words; 1 where a target is missed."""
    if not words or words[0] not in (*NAMES, *ALONE, "all"):
        names = "|".join((*NAMES, *ALONE, "all"))
        sys.stderr.write(f"usage: python -m tests.bench {names} [--quick]\n")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    chosen = NAMES if words[0] == "all" else (words[0],)
    return max([import_module(f"tests.bench.{name}").main(words[1:]) for name in chosen])


sys.exit(main(sys.argv[1:]))
