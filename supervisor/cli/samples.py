"""The command ``samples``: what the model said, with scores and verdicts.

A sample's text is data: it is cut to a line, and what a terminal would act on becomes ``?``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.errors import UnknownError
from supervisor.sidecars.checkpoints.seals import SealRecord

SHOWN = 60  # characters of a text, in a line
_HEAD = ("step", "attempt", "score", "verdict", "prompt", "text")
_JUDGED = ("pass", "fail")

Record = dict[str, Any]


def samples(
    run: Run,
    *,
    number: Annotated[
        int, typer.Option("-n", min=1, metavar="N", help="So many of the newest.")
    ] = 10,
    as_json: Json = False,
) -> int:
    """List the newest samples: step, score from 0 to 100, the gate's verdict, and the text.

    Works on the file alone, also while the run goes on. With --json the whole of what is kept.
    """
    path = existing(run)
    found = (record(path) or {}).get("samples", [])[-number:]
    if as_json:
        printing.emit({"run": str(path), "gate": standing_of(path), "samples": found})
        return 0
    if not found:
        raise UnknownError(
            f"cannot show samples of {path}: none was drawn since its policy began; see "
            "samples.every, or stepkeeper save --sample"
        )
    printing.say(printing.table(_HEAD, [_cells(sample) for sample in found]))
    return 0


def record(run: Path) -> Record | None:
    """The samples' file, or None where there is none. Raises UnknownError."""
    return standing.record(run / f"{standing.name_of(run)}.samples.json")


def standing_of(run: Path) -> Record | None:
    """Where the gate stands by the samples' file, or None. Raises UnknownError."""
    return ((record(run) or {}).get("gate") or {}).get("standing") or None


def of_seal(run: Path, seal: SealRecord) -> Record | None:
    """Step, score and verdict of a checkpoint's sample, or None: the seal's word, or the file's.

    A checkpoint that was there before its sample was asked for has no word on it in its seal.
    """
    if seal.verdict is not None:
        return dict(seal.verdict)
    drawn = [
        sample
        for sample in (record(run) or {}).get("samples", [])
        if (sample["step"], sample["attempt"]) == (seal.step, seal.attempt)
    ]
    judged = [sample for sample in drawn if sample["verdict"] in _JUDGED]
    if not drawn:
        return None
    failed = sum(sample["verdict"] == "fail" for sample in judged)
    scores = [sample["scores"]["score"] for sample in judged]
    return {
        "step": seal.step,
        "score": sum(scores) / len(scores) if scores else None,
        "verdict": ("fail" if 2 * failed > len(judged) else "pass") if judged else "cannot judge",
    }


def line(sample: Record | None) -> str:
    """What ``save --sample`` says of the sample, or that there is none."""
    if sample is None:
        return "no sample: the trainer drew none"
    score = "no score" if sample["score"] is None else f"score {sample['score']:.1f}"
    return f"sample    step {sample['step']}, {score}: {sample['verdict']}"


def _cells(sample: Record) -> tuple[str, ...]:
    score = sample.get("scores", {}).get("score")
    return (
        str(sample["step"]),
        str(sample["attempt"]),
        "-" if score is None else f"{score:.1f}",
        printing.plain(sample.get("verdict") or "not judged"),
        _short(sample["prompt"], SHOWN // 3),
        _short(sample["text"], SHOWN),
    )


def _short(text: str, most: int) -> str:
    """One line of it; spaces stand for what breaks lines, ``?`` for what a terminal acts on."""
    joined = " ".join(text[: 4 * most].split())
    plain = printing.plain(joined)
    return plain if len(plain) <= most and len(text) <= 4 * most else plain[: most - 1] + "\u2026"
