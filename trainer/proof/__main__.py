"""``python -m trainer.proof``: import what is slow as fast as it goes, then carry out a command.

Such a process ends within seconds; the collector of garbage would only walk over what torch's
import builds for good, and that is a quarter of its time.
"""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """The exit code of ``trainer.proof.commands``."""
    gc.disable()
    try:
        from trainer.proof import commands  # noqa: PLC0415 - imports torch

        return commands.main(sys.argv[1:])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
