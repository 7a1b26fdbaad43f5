"""Sources are looked at by a thread: what is there, what it holds, and what does not answer."""

from __future__ import annotations

import os
import select
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.process import sources as looking
from supervisor.process.sources import Seen, Sources, content_of
from supervisor.process.watch import Watch
from tests.support.waiting import wait_until

OFTEN = 0.05


@pytest.fixture
def source(tmp_path: Path) -> Path:
    deep = tmp_path / "chat" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "deep.txt").write_text("deep")
    (tmp_path / "chat" / "top.txt").write_text("top")
    return tmp_path / "chat"


def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the kernel has no watches left, or watchdog is not there."""
    monkeypatch.setattr(Watch, "_start_observer", lambda _: None)


def add(source: Path) -> None:
    (source / "a/b/more.txt").write_text("more")


def remove(source: Path) -> None:
    (source / "a/b/deep.txt").unlink()


def grow(source: Path) -> None:
    with (source / "a/b/deep.txt").open("a") as file:
        file.write("er")


def rewrite(source: Path) -> None:
    """Of the same size, at another time."""
    path = source / "a/b/deep.txt"
    before = path.stat()
    path.write_text("DEEP")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


def rename(source: Path) -> None:
    (source / "a/b").rename(source / "a/c")


CHANGES = [add, remove, grow, rewrite, rename]


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_deep_inside_is_another_content(
    source: Path, change: Callable[[Path], None]
) -> None:
    before = content_of(source)
    assert content_of(source) == before
    change(source)
    assert content_of(source) != before


def test_the_content_does_not_depend_on_where_a_source_lies_or_on_the_order(
    source: Path, tmp_path: Path
) -> None:
    before = content_of(source)
    moved = source.rename(tmp_path / "elsewhere")
    assert content_of(moved) == before
    shutil.copytree(moved, source, copy_function=shutil.copy2)  # listed in another order perhaps
    assert content_of(source) == before


def test_hidden_files_are_no_content_as_for_the_trainer(source: Path) -> None:
    before = content_of(source)
    (source / ".part").write_text("being downloaded")
    assert content_of(source) == before


def test_a_single_file_is_a_source_too(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("text")
    before = content_of(path)
    path.write_text("texts")
    assert content_of(path) != before


def test_looking_through_many_files_rests_and_can_be_stopped(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_AT_ONCE", 1)
    rests: list[float] = []

    def pause(seconds: float) -> bool:
        rests.append(seconds)
        return len(rests) == 2

    assert content_of(source, pause) == ""
    assert len(rests) == 2
    assert all(seconds > 0 for seconds in rests)


@pytest.mark.parametrize("hints", [True, False])
def test_a_source_that_goes_and_comes_back_is_seen(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, hints: bool
) -> None:
    if not hints:
        deaf(monkeypatch)
    monkeypatch.setattr(looking, "_PRESENCE", 1e6 if hints else OFTEN)
    sources = Sources({"chat": source}, every=1e6)
    try:
        wait_until(sources.seen, "the first look")
        content = content_of(source)
        assert sources.seen() == {"chat": Seen(there=True, content=content)}
        away = source.rename(tmp_path / "away")
        if hints:  # the kernel hints at what happens in a folder, not at its own end
            (away / "top.txt").unlink()
        wait_until(lambda: sources.seen() == {"chat": Seen(there=False, content="")}, "its absence")
        if hints:
            return
        away.rename(source)
        wait_until(lambda: sources.seen() == {"chat": Seen(there=True, content=content)}, "it back")
    finally:
        sources.close()


def test_without_hints_a_change_deep_inside_is_found_by_the_poll(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf(monkeypatch)
    sources = Sources({"chat": source}, every=OFTEN)
    try:
        wait_until(sources.seen, "the first look")
        add(source)
        assert select.select([sources], [], [], 10)[0]
        assert (sources.seen() or {})["chat"].content == content_of(source)
    finally:
        sources.close()


def test_a_file_system_that_does_not_answer_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that hangs is told by its age, and closing does not wait for it."""
    reader, writer = os.pipe()
    hung = tmp_path / "hung"

    def hang(path: Path) -> bool:
        return bool(path != hung or os.read(reader, 1))

    monkeypatch.setattr(looking, "_is_there", hang)
    monkeypatch.setattr(looking, "_CLOSING", 0.0)
    sources = Sources({"chat": tmp_path, "hung": hung}, every=OFTEN)
    try:
        wait_until(lambda: (sources.late(0.0) or ("",))[0] == "hung", "the look that hangs")
        assert sources.seen() is None
    finally:
        sources.close()
        os.write(writer, b"x")
        sources._thread.join(10)
        os.close(reader)
        os.close(writer)
        assert not sources._thread.is_alive()
        os.close(sources._news)
        os.close(sources._stop)
