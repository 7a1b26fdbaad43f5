"""Children of a proof never outlive it, whenever the interrupt comes."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from supervisor.cli.proving_children import Children, Task


class Interrupted(subprocess.Popen[bytes]):
    """A child whose start is interrupted as soon as it lives, before anybody has noted it."""

    made: list[subprocess.Popen[bytes]]

    def __init__(self, *words: Any, **options: Any) -> None:  # noqa: ANN401 - Popen's own
        super().__init__(*words, **options)
        self.made.append(self)
        os.kill(os.getpid(), signal.SIGINT)


def test_a_child_that_is_interrupted_at_its_start_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Interrupted.made = []
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    task = Task("a life", ("timeit", "-n", "1", "-r", "1", "import time; time.sleep(60)"))
    try:
        with pytest.raises(KeyboardInterrupt), Children() as children:
            children.run([task], lambda _: None)
        assert [child.poll() for child in Interrupted.made] == [-signal.SIGKILL]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        for child in Interrupted.made:
            child.kill()
            child.wait()
