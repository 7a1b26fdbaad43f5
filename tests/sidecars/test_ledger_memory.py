"""The ledger's memory does not grow with the run: appending, replaying, opening, reading."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """
import sys
from pathlib import Path
from supervisor.sidecars.ledger import audit, canonical
from tests.support.steps import again, new, steps, WALL

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4

def batches(last):
    for first in range(1, last, 300):
        yield steps(first, min(first + 299, last))

def go(path, last):
    ledger = new(path)
    for batch in batches(last):
        ledger.record(1, 1, batch, WALL)
    ledger.begin(2, 0, "")
    proved = sum(ledger.record(2, 1, batch, WALL).proved for batch in batches(last))
    ledger.close()
    ledger = again(path)
    assert ledger.position.entries == proved == last
    ledger.close()
    assert sum(1 for _ in canonical(path)) == last
    assert audit(path).entries == last

folder = Path(sys.argv[1])
for name, last in (("small", 10_000), ("large", 150_000)):
    (folder / name).mkdir()
    go(folder / name / "demo.loss.json", last)
    print(resident())
"""


@pytest.mark.slow
def test_memory_is_the_same_for_ten_thousand_steps_and_for_fifteen_times_as_many(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    small, large = map(int, done.stdout.split())
    assert large - small < 2_000, f"from {small} to {large} KiB"
