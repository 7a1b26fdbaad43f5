"""``output.log`` is bounded while the trainer appends to it, and shown around what is not kept."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from pathlib import Path

import pytest

from supervisor.cli.reading_holes import last_whole, pass_on
from supervisor.perform.trimming import trim
from tests.support.daemon import Daemon
from tests.support.runs import make_run, scripted
from tests.support.volumes import MIB

KIB = 1024


def lines(count: int, first: int = 0) -> bytes:
    return b"".join(b"line %09d %s\n" % (n, b"x" * 84) for n in range(first, first + count))


@pytest.fixture
def trimmed(tmp_path: Path) -> Path:
    """A log of 1 MB of which 256 KiB are kept."""
    path = tmp_path / "output.log"
    path.write_bytes(lines(10_000))
    try:
        freed = trim(path, 256 * KIB)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        pytest.skip(f"needs a file system that can punch holes: {error}")
    assert freed > 512 * KIB
    return path


def shown(path: Path, start: int = 0) -> bytes:
    out = io.BytesIO()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        pass_on(descriptor, start, out)
    finally:
        os.close(descriptor)
    return out.getvalue()


def test_its_beginning_and_its_end_stay_where_they_are(trimmed: Path) -> None:
    whole, found = lines(10_000), trimmed.read_bytes()
    assert len(found) == len(whole)
    assert found[: 64 * KIB] == whole[: 64 * KIB]
    assert found[-64 * KIB :] == whole[-64 * KIB :]
    assert trimmed.stat().st_blocks * 512 <= 256 * KIB
    assert trim(trimmed, 256 * KIB) == 0


def test_what_is_appended_meanwhile_goes_behind_it(trimmed: Path) -> None:
    with trimmed.open("ab") as trainer:
        trainer.write(lines(5_000, 10_000))
        trainer.flush()
        trim(trimmed, 256 * KIB)
        trainer.write(b"the end\n")
    assert trimmed.read_bytes().endswith(b"the end\n")
    assert trimmed.stat().st_blocks * 512 <= 260 * KIB


def test_it_is_shown_around_the_hole_in_whole_lines(trimmed: Path) -> None:
    text = shown(trimmed)
    assert b"\0" not in text
    head, border, tail = re.split(rb"\n(==> \d+ bytes are not kept <==)\n", text)
    assert border.count(b"==>") == 1
    assert lines(10_000).startswith(head)
    assert lines(10_000).endswith(tail)
    assert tail.startswith(b"line ")
    assert len(tail) > 60 * KIB


def test_following_goes_on_where_it_was(trimmed: Path) -> None:
    size = trimmed.stat().st_size
    assert shown(trimmed, size) == b""
    with trimmed.open("ab") as trainer:
        trainer.write(b"more\n")
    assert shown(trimmed, size) == b"more\n"


def test_a_log_without_a_hole_is_passed_on_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    for data in (b"", b"one", b"one\ntwo\n"):
        path.write_bytes(data)
        assert shown(path) == data
    descriptor = os.open(path, os.O_RDONLY)
    assert last_whole(descriptor) == 0
    os.close(descriptor)


TALKS = """
import sys
sys.argv = sys.argv[1:]
import tests.support.scripted_life as life
turn = life.Trainer.turn
def loud(self):
    turn(self)
    sys.stdout.write("y" * 8191 + chr(10))
    sys.stdout.flush()
life.Trainer.turn = loud
sys.exit(life.main(0.0))
"""


@pytest.mark.system
def test_a_trainer_that_prints_without_end_does_not_fill_the_disk(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words = scripted(steps=700, rate=200, every=100)
    root = str(request.config.rootpath)
    command = ["env", f"PYTHONPATH={root}", sys.executable, "-c", TALKS, *words[2:]]
    settings = "[disk]\nreserve = 0.0\noutput_log = 1.0\n"
    daemon = Daemon(make_run(tmp_path / "run", command, settings=settings))
    log = daemon.run.path / "attempts/000001/output.log"
    try:
        daemon.start()
        daemon.until(
            lambda: log.exists() and log.stat().st_size > 3 * MIB > log.stat().st_blocks * 512,
            "a log that is bounded",
        )
        assert daemon.wait(30) == 0
    finally:
        daemon.finish()
    assert len(daemon.run.canonical()) == 700
    out = daemon.cli("logs", "{run}").stdout
    assert "bytes are not kept <==" in out
    assert "\0" not in out
    last = daemon.cli("logs", "{run}", "-n", "2").stdout
    assert last == ("y" * 8191 + "\n") * 2
