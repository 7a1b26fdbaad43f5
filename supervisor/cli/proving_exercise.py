"""``prove --exercise``: four lives in each format, every one a new process, and their verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from supervisor import clock
from supervisor.cli import printing
from supervisor.cli.interrupts import ends_are_interrupts
from supervisor.cli.proving_children import Answer, Children, Task
from supervisor.cli.proving_words import introduction, life_line, verdict_lines
from supervisor.errors import UsageError

FORMATS: Final = ("pt", "sharded", "bin")
UPDATES: Final = 10
CUT: Final = 5
_PROGRAM: Final = "trainer.proof"
_PROVED, _FAILED = 0, 1


def prove_exercise(output: Path | None, *, as_json: bool) -> int:
    """Carry out the protocol and print its verdict. Raises UsageError, UnknownError."""
    folder = _make(output)
    if not as_json:
        printing.say(introduction(folder, UPDATES, CUT))

    def tell(answer: Answer) -> None:
        if not as_json:
            printing.say(life_line(answer.task.what, answer.facts))

    with ends_are_interrupts(), Children() as children:
        saved: dict[str, str] = {}
        verdicts: list[Answer] = []

        def note(answer: Answer) -> None:
            saved[answer.task.what] = answer.facts["checkpoint"]
            tell(answer)

        begin = [_life(folder, form, name, n) for form in FORMATS for name, n in _BEGIN.items()]
        children.run(begin, note)
        resume = [
            _life(folder, form, name, UPDATES - CUT, *more, "--resume", _cut(folder, form, saved))
            for form in FORMATS
            for name, more in _RESUME.items()
        ]
        children.run(resume, tell)
        verify = ("verify", str(folder), *(w for form in FORMATS for w in ("--format", form)))
        words = (_PROGRAM, *verify)
        children.run([Task("comparing the lives", words, (_PROVED, _FAILED))], verdicts.append)
    [verdict] = verdicts
    if as_json:
        printing.emit({"output": str(folder), **verdict.facts})
    else:
        printing.say("\n".join(verdict_lines(verdict.facts, folder)))
    return verdict.code


_BEGIN: Final = {"continuous": UPDATES, "cut": CUT}
_RESUME: Final = {"resumed": (), "without-rng": ("--omit-rng-restore",)}


def _life(folder: Path, form: str, name: str, updates: int, *more: str) -> Task:
    place = str(folder / form / name)
    words = ("train", "--steps", str(updates), "--format", form, "--output", place, *more)
    return Task(f"{form}: {name}", (_PROGRAM, *words))


def _cut(folder: Path, form: str, saved: dict[str, str]) -> str:
    """The checkpoint at the cut, which bears the name that its life gave it."""
    return str(folder / form / "cut" / saved[f"{form}: cut"])


def _make(output: Path | None) -> Path:
    """The folder of this proof. Raises UsageError where it is there already: it is evidence."""
    wall = clock.wall()
    day, time = wall[:10].replace("-", ""), wall[11:19].replace(":", "")
    folder = (output or Path(f"stepkeeper-proof-{day}-{time}")).absolute()
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(
            f"cannot write the proof to {folder}: it is there already; give a directory that is "
            "not there"
        ) from None
    return folder
