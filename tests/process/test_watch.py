"""Settings and sources are noticed when they change, with and without the kernel's hints."""

from __future__ import annotations

import os
import select
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from watchdog.events import FileClosedEvent, FileModifiedEvent, FileOpenedEvent

from supervisor.process.watch import Watch
from tests.support.waiting import wait_until

NEVER = 1e6


def edit(path: Path) -> None:
    path.write_text("changed")


def replace(path: Path) -> None:
    """As most editors save."""
    new = path.with_name("new")
    new.write_text("same size and age, another file")
    before = path.stat()
    path.write_text("same size and age, another file")
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.rename(path)


def remove(path: Path) -> None:
    path.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text("as it was")
    return path


@pytest.mark.parametrize("change", [edit, replace, remove])
def test_the_poll_alone_finds_every_change_once(
    path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watch, "_start_observer", lambda _: None)
    with Watch([path], every=0.0) as watch:
        assert watch.changed() == set()
        change(path)
        assert watch.changed() == {path}
        assert watch.changed() == set()


def test_the_poll_is_not_made_before_it_is_due(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "_start_observer", lambda _: None)
    with Watch([path], every=NEVER) as watch:
        edit(path)
        assert watch.changed() == set()


def test_a_hint_comes_without_waiting_for_the_poll(tmp_path: Path) -> None:
    source = tmp_path / "chat"
    source.mkdir()
    with Watch([source], every=NEVER) as watch:
        for name in ("a.txt", "b.txt"):
            (source / name).write_text("text")
            assert select.select([watch.fileno()], [], [], 10)[0]
            wait_until(lambda: source in watch.changed(), "the change")


def test_a_source_that_was_replaced_gives_hints_again(tmp_path: Path) -> None:
    source = tmp_path / "chat"
    source.mkdir()
    with Watch([source], every=0.0) as watch:
        source.rename(tmp_path / "old")
        source.mkdir()
        assert watch.changed() == {source}
        watch._hinted()  # what the old folder had to say
        (source / "a.txt").write_text("text")
        assert select.select([watch.fileno()], [], [], 10)[0]


def test_a_file_that_comes_back_is_noticed(path: Path) -> None:
    with Watch([path], every=0.0) as watch:
        path.unlink()
        assert watch.changed() == {path}
        path.write_text("again")
        assert watch.changed() == {path}
        assert watch.changed() == set()


def test_a_source_folder_that_disappears_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "chat"
    source.mkdir()
    (source / "a.txt").write_text("a")
    with Watch([source], every=0.0) as watch:
        (source / "b.txt").write_text("b")
        wait_until(lambda: source in watch.changed(), "a new file in the source")
        shutil.rmtree(source)
        wait_until(lambda: source in watch.changed(), "the end of the source")


def test_what_is_written_beside_a_watched_file_gives_no_hint(path: Path, tmp_path: Path) -> None:
    """The run directory holds the ledger and the reports, which are written all the time."""
    source = tmp_path / "chat"
    source.mkdir()
    with Watch([path, source], every=NEVER) as watch:
        edit(path)
        for _ in range(100):
            path.with_name("name.loss.json").write_text("a line")
        (source / "a.txt").write_text("text")  # its hint comes after all that came before
        wait_until(lambda: select.select([watch.fileno()], [], [], 0)[0], "the hint")
        assert [watched.path for watched in watch._watches.values()] == [str(source)]


def test_reading_a_document_is_no_hint(tmp_path: Path) -> None:
    """A trainer reads its sources at every step, which must not wake the supervisor."""
    text = str(tmp_path / "text.txt")
    with Watch([tmp_path], every=NEVER) as watch:
        watch._handler.dispatch(FileOpenedEvent(text))
        watch._handler.dispatch(FileClosedEvent(text))
        assert not watch._hinted()
        watch._handler.dispatch(FileModifiedEvent(text))
        assert watch._hinted()
