"""``python -m trainer.proof``: import what is slow as fast as it goes, then carry out a command.

Such a process ends within seconds; the collector of garbage would only walk over what torch's
import builds for good, and that is a quarter of its time.
"""

from __future__ import annotations

import gc
import sys

from trainer.errors import TrainerError

_UNKNOWN = 2
_INTERRUPTED = 130


def main() -> int:
    """The exit code of ``trainer.proof.commands``."""
    gc.disable()
    try:
        from trainer.proof import commands  # noqa: PLC0415 - imports torch

        return commands.main(sys.argv[1:])
    except (ImportError, TrainerError) as error:  # no torch, or one that is too old to load with
        sys.stderr.write(
            f"{error}\n" if isinstance(error, TrainerError) else f"cannot begin: {error}\n"
        )
        return _UNKNOWN
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
