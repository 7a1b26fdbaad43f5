"""``stepkeeper prove``: that a resume is exact, with a control that has to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli.parameters import Json, existing
from supervisor.cli.proving_exercise import prove_exercise
from supervisor.cli.proving_run import prove_run
from supervisor.errors import UsageError

Word = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", help="The run whose own trainer is proved.", show_default=False
    ),
]
Exercise = Annotated[
    bool, typer.Option("--exercise", help="Prove a small training that needs no run.")
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        min=2,
        metavar="N",
        help="Steps of the uninterrupted life; else what crosses a phase where that is affordable.",
        show_default=False,
    ),
]
At = Annotated[
    int | None,
    typer.Option(
        "--at",
        min=0,
        metavar="K",
        help="Begin from the newest seal at or below this step; else the newest that leaves room.",
        show_default=False,
    ),
]
Beside = Annotated[
    bool, typer.Option("--beside", help="Share the GPU with the RUN that trains on it.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="A directory that is not there yet, for all that is made; else one named by the time,"
        " or for a RUN one beside it that is removed in the end.",
        show_default=False,
    ),
]


def prove(  # noqa: PLR0913 - each an option of the command
    run: Word = None,
    *,
    exercise: Exercise = False,
    steps: Steps = None,
    at: At = None,
    beside: Beside = False,
    output: Output = None,
    as_json: Json = False,
) -> int:
    """Train, cut, resume in new processes, and compare to the last bit.

    Of a RUN its own trainer, data and device are proved, on copies: it may train meanwhile, and
    only the verdict is kept in it. Exit 0 where it is proved, 1 where a comparison failed, 2 where
    it could not be determined.
    """
    if (run is None) is not exercise:
        raise UsageError("cannot tell what to prove: give either a RUN or --exercise")
    if run is not None:
        return prove_run(existing(run), output, steps=steps, at=at, beside=beside, as_json=as_json)
    if steps is not None or at is not None or beside:
        raise UsageError("cannot use --steps, --at or --beside with --exercise: it has its own")
    return prove_exercise(output, as_json=as_json)
