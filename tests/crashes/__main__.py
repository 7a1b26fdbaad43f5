"""Record a life, make every crash of it, recover from each: ``python -m tests.crashes``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from tests.crashes import survey
from tests.crashes.life import Recording, record
from tests.crashes.lives import live_on
from tests.support.crash_fs.operations import NoCompilerError
from trainer.contract.checkpoint_format import FORMATS


def main(words: list[str]) -> int:
    """Print the table; 1 where a state failed or was refused, 2 where nothing could be recorded."""
    given = _parser().parse_args(words)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="stepkeeper-crashes-") as folder:
        try:
            recording = record(Path(folder), given.format)
        except NoCompilerError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        writers = recording.writers()
        _say(f"recorded {len(recording.operations)} operations of {writers} processes")
        total = sum(1 for _ in survey.states(recording, given.depth))
        _say(f"{total:,} distinct states; each {_th(given.part)} is recovered from")
        tally = _in_parts(recording, given, Path(folder))
        lives = survey.Tally()
        if given.lives:
            every = max(1, total // given.lives)
            some = islice(survey.states(recording, given.depth), every // 2, None, every)
            lives = survey.judge(recording, some, live_on)
    _say(f"\n{survey.table(tally)}")
    _say(
        f"\nreal lives from {lives.states[survey.TOTAL]:,} of them to the run's end, audited: "
        f"{lives.recovered[survey.TOTAL]:,} finished, {lives.refused[survey.TOTAL]:,} refused, "
        f"{lives.failed[survey.TOTAL]:,} failed"
    )
    _say(f"{time.perf_counter() - began:.0f} seconds")
    for reason, count in (tally.reasons + lives.reasons).most_common():
        _say(f"refused {count:,} times: {reason}")
    for example in (*tally.examples, *lives.examples):
        _say(f"FAILED {example}")
    both = (tally.failed, tally.refused, lives.failed, lives.refused)
    return 1 if any(count[survey.TOTAL] for count in both) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.crashes", description=__doc__)
    parser.add_argument("--depth", type=int, default=1, help="choices that differ from an anchor")
    parser.add_argument("--part", type=int, default=1, help="recover from each N-th state only")
    parser.add_argument("--format", choices=FORMATS, default="bin", help="of the checkpoints")
    parser.add_argument("--lives", type=int, default=200, help="real lives from so many states")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser


def _in_parts(recording: Recording, given: argparse.Namespace, folder: Path) -> survey.Tally:
    """Side by side in processes of their own, each with its share of the states."""
    pids = []
    for number in range(given.processes):
        pid = os.fork()
        if not pid:
            _one_part(recording, given, number, folder)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    tally = survey.Tally()
    for number in range(given.processes):
        tally.add(survey.Tally.from_json((folder / f"part-{number}").read_text()))
    return tally


def _one_part(recording: Recording, given: argparse.Namespace, number: int, folder: Path) -> None:
    code = 1
    try:
        step = given.part * given.processes
        found = survey.states(recording, given.depth)
        share = islice(found, number * given.part, None, step)
        tally = survey.judge(recording, share)
        (folder / f"part-{number}").write_text(tally.to_json())
        code = 0
    finally:
        os._exit(code)


def _th(part: int) -> str:
    return "one" if part == 1 else f"{part}th"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
