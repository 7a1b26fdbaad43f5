"""Start the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``stepkeeper``."""
    try:
        # Imported here: an interrupt in the middle of it is no reason for a traceback either.
        from supervisor.cli import run  # noqa: PLC0415 - see above

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("cannot go on: interrupted\n")
        code = 2
    sys.exit(code)


if __name__ == "__main__":
    main()
