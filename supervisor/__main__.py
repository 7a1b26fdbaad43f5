"""Start the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``stepkeeper``."""
    from supervisor.cli import run  # noqa: PLC0415  the daemon's child must not pay for the CLI

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
