"""Hooks of a run with real receivers and commands: in order, bounded, and nobody waits for them."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor import clock
from supervisor.config.hook_settings import Hook
from supervisor.core.messages import HookSeen
from supervisor.perform.hook_delivery import Origin
from supervisor.perform.hooks import QUEUE, Hooks, leave
from supervisor.sidecars.events import Events
from tests.support.receiver import SECRET, Receiver
from tests.support.waiting import wait_until

WALL = "2026-01-31T12:00:00.000Z"


class Life:
    """A journal and its hooks, as a supervisor has them."""

    def __init__(self, folder: Path, calm: float = 0.2) -> None:
        self.folder = folder
        self.calm = calm
        self.news: list[HookSeen] = []
        self.events = Events.open(folder / "events.jsonl")
        self.hooks = Hooks()

    def begin(self, *hooks: Hook) -> None:
        self.hooks = Hooks(hooks, self.calm)
        self.events.tell = self.hooks.tell
        self.hooks.begin(Origin("0123456789abcdef", "demo", self.folder), self.news.append)

    def happens(self, event: str, **facts: object) -> None:
        self.events.append(event, facts, WALL)

    def lines(self) -> list[str]:
        return (self.folder / "events.jsonl").read_text().splitlines()

    def facts(self, name: str = "one") -> dict[str, Any]:
        found: dict[str, Any] = self.hooks.facts()[name]
        return found

    def until(self, **facts: object) -> None:
        wait_until(lambda: facts.items() <= self.facts().items(), f"{facts}", 20, self._describe)

    def _describe(self) -> str:
        return f"{self.hooks.facts()} {self.news}"


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path)
    yield life
    life.hooks.close(0.0)
    life.events.close()


def to(receiver: Receiver, folder: Path, **more: object) -> Hook:
    secret = folder / "secret"
    secret.write_bytes(SECRET + b"\n")
    secret.chmod(0o600)
    hook = Hook("one", frozenset("*"), url=receiver.url, secret_file=secret, timeout=5.0, tries=3)
    return replace(hook, **more)  # type: ignore[arg-type] # a field of it


def running(code: str, **more: object) -> Hook:
    command = (sys.executable, "-S", "-c", code)
    return replace(Hook("one", frozenset("*"), command, env={"PATH": os.defpath}), **more)  # type: ignore[arg-type] # a field of it


def test_a_receiver_gets_each_line_once_in_order_and_signed(life: Life) -> None:
    with Receiver() as receiver:
        life.begin(to(receiver, life.folder))
        for step in range(3):
            life.happens("clock-stepped", seconds=step + 0.5, left=None)
        life.events.append("clock-stepped", {"seconds": 2.5, "left": None}, WALL, once=True)
        life.until(delivered=3, waiting=0)
        written = [json.loads(line) for line in life.lines()]
        told = [got.event for got in receiver.got]
        assert [event["chain"] for event in told] == [line["chain"] for line in written]
        assert told[2] == {
            "schema": "stepkeeper.event/1",
            "run": "0123456789abcdef",
            "name": "demo",
            "path": str(life.folder),
            "event": "clock-stepped",
            "facts": {"seconds": 2.5, "left": None},
            "checkpoint": None,
            "time": WALL,
            "entry": 3,
            "chain": written[2]["chain"],
        }
        assert all(got.is_signed_with(SECRET) for got in receiver.got)
        assert not any(got.is_signed_with(b"another secret of 16") for got in receiver.got)
        stamp = int(receiver.got[0].headers["stepkeeper-timestamp"])
        assert abs(clock.unix() - stamp) < 60
        assert receiver.got[2].headers["stepkeeper-delivery"] == "0123456789abcdef:3"


def test_a_receiver_that_cannot_now_is_asked_again_and_one_that_refuses_is_not(life: Life) -> None:
    with Receiver(503, 200, 403, 307) as receiver:
        life.begin(to(receiver, life.folder))
        life.happens("hang")
        life.until(delivered=1)
        assert receiver.events() == ["hang", "hang"]
        assert life.news == []
        life.happens("gave-up")
        life.until(failed=1, problem="HTTP 403: hello")
        life.happens("gave-up")
        life.until(failed=2, problem="HTTP 307: hello; a redirect is not followed")
        assert receiver.events() == ["hang", "hang", "gave-up", "gave-up"]


def test_one_that_fails_is_told_of_once_and_again_when_it_is_well(life: Life) -> None:
    with Receiver(400, 400, 500) as receiver:
        life.begin(to(receiver, life.folder))
        for _ in range(3):  # while it fails, each line is tried once
            life.happens("hang")
        life.until(failed=3)
        assert life.news == [HookSeen("one", "HTTP 400: hello", 1, 0, 0)]
        life.happens("hang")
        life.until(delivered=1, problem="")
        assert life.news[1:] == [HookSeen("one", "", 4, 3, 0)]
        assert len(receiver.got) == 4


def test_what_a_failing_hook_has_journaled_fires_none(life: Life) -> None:
    with Receiver(400) as receiver:
        life.begin(to(receiver, life.folder))
        life.happens("hook-failing", hook="one", problem="x", entry=1)
        life.happens("hook-well", hook="one", failed=1, dropped=0, entry=1)
        life.happens("hook-left", hook="one", left=1, entry=1)
        life.happens("hang")
        life.until(failed=1)
        assert receiver.events() == ["hang"]


def test_a_full_queue_drops_its_oldest_lines_and_holds_nobody_up(life: Life) -> None:
    with Receiver() as receiver:
        receiver.held.set()
        life.begin(to(receiver, life.folder, timeout=60.0))
        life.happens("first")
        wait_until(lambda: receiver.events() == ["first"], "the first line")
        began = time.perf_counter()
        for step in range(QUEUE + 7):
            life.happens("evaluation", step=step)
        assert time.perf_counter() - began < 5
        assert life.facts()["dropped"] == 7
        assert [seen.problem for seen in life.news] == [f"its queue of {QUEUE} lines is full"]
        began = time.perf_counter()
        leave(life.hooks, life.events, 0.3)
        assert time.perf_counter() - began < 8
        left = json.loads(life.lines()[-1])
        assert left["facts"] == {"hook": "one", "left": QUEUE + 1, "entry": QUEUE + 8}


def test_what_waits_at_an_end_is_still_told(life: Life) -> None:
    with Receiver() as receiver:
        life.begin(to(receiver, life.folder))
        for _ in range(5):
            life.happens("sealed", step=1)
        assert life.hooks.close(20.0) == []
        assert receiver.events() == ["sealed"] * 5


def test_what_fails_at_an_end_counts_as_not_told(life: Life) -> None:
    life.begin(running("import os\nwhile not os.path.exists('go'): pass\nraise SystemExit(1)"))
    [caller] = life.hooks._callers

    def when_it_closes() -> None:
        wait_until(lambda: caller._closing, "the close")
        (life.folder / "go").touch()

    thread = threading.Thread(target=when_it_closes)
    thread.start()
    life.happens("hang")
    assert [(one.left, one.entry) for one in life.hooks.close(20.0)] == [(1, 1)]
    thread.join()


def test_lines_from_before_the_beginning_are_told(life: Life) -> None:
    code = f"import sys; open({str(life.folder / 'got')!r}, 'a').write(sys.stdin.read())"
    life.hooks = Hooks([running(code)])
    life.events.tell = life.hooks.tell
    life.happens("moved", why="x")
    assert life.facts()["waiting"] == 1
    life.hooks.begin(Origin("r", "demo", life.folder), life.news.append)
    life.until(delivered=1)
    assert json.loads((life.folder / "got").read_text())["event"] == "moved"


def test_a_command_that_fails_is_quoted_and_another_hook_does_not_wait_for_it(life: Life) -> None:
    slow = running("import time; time.sleep(100)", name="two")
    life.begin(running("print('no route'); raise SystemExit(1)"), slow)
    life.happens("hang")
    life.until(failed=1, problem="exit status 1: no route")
    assert life.facts("two")["waiting"] == 1
    left = life.hooks.close(0.2)
    assert [(one.hook, one.left) for one in left] == [("two", 1)]


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (SECRET, 0o640, "others than its owner may use it; chmod 600 it"),
        (b"short\n", 0o600, "5 bytes, where 16 to 4096 are wanted"),
        (None, 0o600, "No such file or directory"),
    ],
)
def test_a_secret_that_others_may_know_is_not_used(
    life: Life, content: bytes | None, mode: int, problem: str
) -> None:
    with Receiver() as receiver:
        life.begin(to(receiver, life.folder))
        secret = life.folder / "secret"
        if content is None:
            secret.unlink()
        else:
            secret.write_bytes(content)
            secret.chmod(mode)
        life.happens("hang")
        life.until(failed=1)
        assert life.facts()["problem"].endswith(problem)
        assert receiver.got == []
