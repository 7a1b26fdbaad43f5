"""``stepkeeper prove``: that a resume is exact, with a control that has to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli import printing
from supervisor.cli.parameters import Json
from supervisor.cli.proving_exercise import prove_exercise
from supervisor.errors import UnknownError, UsageError

Word = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", help="The run whose own trainer is proved.", show_default=False
    ),
]
Exercise = Annotated[
    bool, typer.Option("--exercise", help="Prove a small training that needs no run.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="A directory that is not there yet; else one named by the time.",
        show_default=False,
    ),
]


def prove(
    run: Word = None,
    *,
    exercise: Exercise = False,
    output: Output = None,
    as_json: Json = False,
) -> int:
    """Train, cut, resume in new processes, and compare to the last bit.

    Exit 0 where it is proved, 1 where a comparison failed, 2 where it could not be determined.
    """
    if (run is None) is not exercise:
        raise UsageError("cannot tell what to prove: give either a RUN or --exercise")
    if run is not None:
        what = printing.plain(run)
        raise UnknownError(
            f"cannot prove {what}: this version proves the exercise alone; give --exercise"
        )
    return prove_exercise(output, as_json=as_json)
