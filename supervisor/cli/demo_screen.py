"""What the demo puts on the terminal: a live bar over the story, or plain lines without one."""

from __future__ import annotations

from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from supervisor import clock
from supervisor.cli import printing
from supervisor.cli.demo_watch import Watch

_PLAIN_SECONDS = 30.0
_SHOWN_SECONDS = 0.1


class Screen(Protocol):
    """Tells a story line by line, and shows between the lines where the run stands."""

    def __enter__(self) -> Self:
        """Take the terminal."""
        ...

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        ...

    def say(self, text: str = "") -> None:
        """One or more lines that stay."""
        ...

    def show(self, watch: Watch, note: str) -> None:
        """Where the run stands now; cheap, and seldom drawn."""
        ...


def screen(steps: int, every: int) -> Screen:
    """The screen that fits stdout; ``every`` is how many steps apart plain lines stand."""
    console = Console(highlight=False)
    return _Bar(console, steps) if console.is_terminal else _Lines(steps, every)


def _facts(watch: Watch) -> str:
    loss = "-" if watch.loss is None else f"{watch.loss:.3f}"
    return f"loss {loss}  {watch.rate:.1f} steps/s"


def _shares(watch: Watch) -> str:
    return "  ".join(f"{arm} {share:.0%}" for arm, share in watch.shares.items())


class _Bar:
    """Two lines that are drawn anew in place: bar and numbers, shares of the arms."""

    def __init__(self, console: Console, steps: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            console=console,
            auto_refresh=False,
        )
        self._task = self._progress.add_task("", total=steps, facts="")
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._due = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str = "") -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, watch: Watch, note: str) -> None:
        now = clock.monotonic()
        if now < self._due:
            return
        self._due = now + _SHOWN_SECONDS
        self._progress.update(self._task, completed=watch.step, facts=_facts(watch))
        below = f"newest steps: {_shares(watch)}  {note}".rstrip()
        lines = Group(
            self._progress.get_renderable(), Text(below, style="dim", overflow="ellipsis")
        )
        self._live.update(lines, refresh=True)


class _Lines:
    """A line every so many steps, and one in a while where there are none."""

    def __init__(self, steps: int, every: int) -> None:
        self._steps = steps
        self._every = every
        self._next_step = 1
        self._due = clock.monotonic() + _PLAIN_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, text: str = "") -> None:
        printing.say(text)

    def show(self, watch: Watch, note: str) -> None:
        if watch.step < self._next_step and clock.monotonic() < self._due:
            return
        self._next_step = (watch.step // self._every + 1) * self._every
        self._due = clock.monotonic() + _PLAIN_SECONDS
        line = f"step {watch.step}/{self._steps}  {_facts(watch)}  {_shares(watch)}  {note}"
        printing.say(line.rstrip())
