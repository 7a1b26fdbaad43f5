"""A visible ``.bin`` is complete whatever goes wrong when, and a bad one is refused."""

from __future__ import annotations

import errno
import hashlib
import struct
from pathlib import Path

import pytest
import torch

from tests.support.crash_fs import CrashFs, Killed, crash_fs
from tests.trainer.tiny import Life, live
from trainer.checkpoint import SealedError, write
from trainer.contract.checkpoint_format import read_companion
from trainer.contract.wire import Checkpoint
from trainer.moment import take


@pytest.fixture
def life(run: Path) -> Life:
    """A life that ended with the checkpoint of step 3."""
    return live(run, stop_after=3)


def test_the_file_holds_step_count_weights_m_and_v_in_the_models_order(life: Life) -> None:
    data = life.newest().read_bytes()
    state = life.run.state
    n = state.n_params
    assert len(data) == 8 + 12 * n
    assert struct.unpack_from("<ii", data) == (3, n)
    parameters = [p.detach() for p in state.model.parameters()]
    flat = torch.cat([t.reshape(-1) for t in (*parameters, *state.optimizer.m, *state.optimizer.v)])
    assert data[8:] == flat.numpy().astype("<f4").tobytes()
    names = [name for name, _ in state.model.named_parameters()]
    attention_and_mlp = [f"layers.0.{part}" for part in ("qkv", "out", "up", "down")]
    assert names == ["tokens", "positions", *attention_and_mlp, "head.weight"]


def test_companion_report_and_file_agree(life: Life) -> None:
    path = life.newest()
    companion = read_companion(path.with_suffix(".json").read_bytes(), "x")
    report = life.of(Checkpoint)[-1]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert companion.sha256 == report.sha256 == digest
    assert companion.bytes == report.bytes == path.stat().st_size
    assert companion.step == report.step == 3
    assert report.name == path.name
    assert companion.reason == report.reason == "stop"
    assert report.save is None


def visible(folder: Path) -> set[str]:
    """Names in the folder, temporary ones left out."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_killed_at_any_write_or_sync_the_bin_is_absent_or_complete(
    life: Life, tmp_path: Path
) -> None:
    counting = CrashFs()
    with crash_fs(counting):
        write(tmp_path / "count", take(life.run.state, "cadence", {}))
    whole = (tmp_path / "count" / "step_000003.bin").read_bytes()
    assert counting.trace.count("fsync") == 4  # companion, folder, .bin, folder
    assert counting.trace.index("fsync") == 2  # .bin and companion are written before that
    seen = set()
    for at in range(1, counting.calls + 1):
        folder = tmp_path / str(at)
        with crash_fs(CrashFs(at=at)), pytest.raises(Killed):
            write(folder, take(life.run.state, "cadence", {}))
        names = visible(folder)
        seen.add(frozenset(names))
        if "step_000003.bin" in names:
            assert (folder / "step_000003.bin").read_bytes() == whole
            assert (folder / "step_000003.json").exists()
    assert seen == {
        frozenset(),
        frozenset({"step_000003.json"}),
        frozenset({"step_000003.json", "step_000003.bin"}),
    }


def test_the_bin_gets_its_name_only_when_all_its_bytes_and_its_companion_are_durable(
    life: Life, tmp_path: Path
) -> None:
    calls = CrashFs()
    with crash_fs(calls):
        write(tmp_path / "count", take(life.run.state, "cadence", {}))
    plan = CrashFs(at=calls.calls)  # the folder's sync behind the last rename
    with crash_fs(plan), pytest.raises(Killed):
        write(tmp_path / "x", take(life.run.state, "cadence", {}))
    for name in ("step_000003.bin", "step_000003.json"):
        path = tmp_path / "x" / name
        assert plan.durable(path) == path.stat().st_size


def test_a_failed_sync_discards_the_file_and_another_one_is_written(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = CrashFs()
    failed: list[str] = []

    def fail_next_sync() -> None:
        # Behind the report "save" come the reports' own sync, then two writes and four syncs.
        plan.at, plan.error = plan.calls + 1 + 2 + 3, errno.EIO
        failed.append("armed")

    with crash_fs(plan):
        life = live(run, stop_after=4, acts={("doing", 4): fail_next_sync})
    assert failed
    assert plan.trace[plan.at - 1] == "fsync"
    said = capfd.readouterr().err
    assert "cannot write the checkpoint of step 4: [Errno 5]" in said
    assert "that file is discarded" in said
    assert len(life.of(Checkpoint)) == 1
    assert [path.name for path in life.checkpoints.iterdir() if path.name[0] == "."] == []
    live(run, attempt=2, resume=life.newest(), stop_after=5)


def test_a_sealed_step_is_never_overwritten(life: Life) -> None:
    path = life.newest()
    before = path.read_bytes()
    (path.parent / "step_000003.seal.json").write_text("{}")
    life.run.state.optimizer.m[0].fill_(1.0)
    with pytest.raises(SealedError, match=r"step_000003\.bin: that step is sealed already"):
        write(path.parent, take(life.run.state, "cadence", {}))
    assert path.read_bytes() == before


def test_an_unsealed_rest_of_an_earlier_life_gives_way(life: Life) -> None:
    path = life.newest()
    path.write_bytes(b"torn")
    write(path.parent, take(life.run.state, "cadence", {}))
    assert path.stat().st_size == 8 + 12 * life.run.state.n_params


# What must not be resumed is refused with what was expected and what was found.
