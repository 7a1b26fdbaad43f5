"""A minute of every fault that we know on a real run; ``python -m tests.chaos`` takes longer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.runs import ROOT

pytestmark = [pytest.mark.system, pytest.mark.torch, pytest.mark.slow]

SEED = 20260731


@pytest.mark.timeout(900)
def test_a_minute_of_chaos_loses_nothing_and_ends_with_the_weights_of_an_undisturbed_run(
    *, thorough: bool
) -> None:
    minutes = 10 if thorough else 1
    command = [sys.executable, "-m", "tests.chaos", "--minutes", str(minutes), "--seed", str(SEED)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "weights equal" in done.stdout
