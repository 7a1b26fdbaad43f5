"""Arguments in, text out: one line of arguments becomes one exit code.

Exit codes: 0 good, 1 the answer is no, 2 it could not be determined or the arguments are wrong;
``run`` and ``stop`` have some of their own. A new command is a function and a line in
``registry.py``; nothing of it is imported while another one runs.
"""

from supervisor.cli.app import run

__all__ = ["run"]
