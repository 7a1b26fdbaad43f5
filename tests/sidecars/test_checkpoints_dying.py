"""Whoever dies while folders are moved or deleted leaves nothing half under a checkpoint's name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.sidecars.checkpoints import (
    scan,
)
from supervisor.sidecars.checkpoints.presence import measure
from supervisor.sidecars.checkpoints.superseding import supersede
from tests.sidecars.sealing import bytes_in, checkpoint, lineage, snapshot
from tests.support.runs import ROOT
from trainer.contract import durable
from trainer.contract.checkpoint_format import name_of, seal_of

# Moving or deleting in a process of its own that dies at the n-th call that changes a folder.
DYING = """
import os, signal, sys
from pathlib import Path
left = int(sys.argv[3])
def audit(event, arguments):
    global left
    if event in ("os.link", "os.remove", "os.mkdir", "os.rename", "os.rmdir"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
from supervisor.sidecars.checkpoints.superseding import supersede
from supervisor.sidecars.checkpoints.holdings import delete, holdings
sys.addaudithook(audit)
folder = Path(sys.argv[1])
if sys.argv[2] == "supersede":
    supersede(folder, 7, 100)
else:
    delete(folder, next(one for one in holdings(folder) if one.step == 100), {})()
"""


def died(folder: Path, what: str, calls: int) -> bool:
    words = [sys.executable, "-c", DYING, folder, what, str(calls)]
    code = subprocess.run(words, cwd=ROOT, check=False, timeout=30).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


def test_killed_between_any_two_changes_a_move_of_folders_is_completed(tmp_path: Path) -> None:
    whole: dict[str, bytes] = {}
    for calls in range(40):
        folder = tmp_path / str(calls)
        folder.mkdir()
        lineage(folder, 100, 200, form="sharded")
        checkpoint(folder, 300, form="sharded", beside=True)
        whole = whole or {
            name if "000100" in name else f"superseded/attempt-000007/{name}": data
            for name, data in snapshot(folder).items()
        }
        killed = died(folder, "supersede", calls)
        # Each is where it was or where it goes, whole; and what is left still resumes.
        assert all(measure(p) == bytes_in(300, "sharded") for p in folder.rglob("*.sharded"))
        assert scan(folder).newest(3)[-1].step == 100
        supersede(folder, 7, 100)
        assert snapshot(folder) == whole
        if not killed:
            assert calls == 2 + 2 + 2 * 1 + 2
            break
    else:
        pytest.fail("it never came to its end")


def test_killed_at_any_moment_of_a_deletion_nothing_half_has_the_name(tmp_path: Path) -> None:
    for calls in range(20):
        folder = tmp_path / str(calls)
        folder.mkdir()
        lineage(folder, 100, 200, form="sharded")
        killed = died(folder, "delete", calls)
        steps = [seal.step for seal in scan(folder).sealed]
        assert steps == ([200, 100] if calls == 0 else [200])
        assert scan(folder).refused == ()
        durable.remove_temporaries(folder)
        names = {seal_of(100), seal_of(200), name_of(200, "sharded")}
        names |= {name_of(100, "sharded")} if calls == 0 else set()
        assert set(os.listdir(folder)) == names  # noqa: PTH208 - names only
        if not killed:
            assert calls == 6
            break
    else:
        pytest.fail("it never came to its end")
