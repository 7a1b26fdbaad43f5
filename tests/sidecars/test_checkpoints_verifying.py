"""Reading a checkpoint back: every kind of damage is refused with what was expected and found."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from supervisor.core.messages import Verdict
from supervisor.sidecars.checkpoints.verify_child import verify
from supervisor.sidecars.checkpoints.verify_companion import Expected
from supervisor.sidecars.checkpoints.verifying import Verifier
from tests.sidecars.sealing import companion, content
from tests.support.runs import ROOT
from tests.support.waiting import wait_until
from trainer.contract.checkpoint_format import companion_of, name_of

NAN, INF = float("nan"), float("inf")
GOOD = content(100)
DIGEST = sha256(GOOD).hexdigest()


def result(verifier: Verifier, descriptor: int) -> Verdict:
    verdict: list[Verdict] = []

    def ended() -> bool:
        select.select([descriptor], [], [], 5)
        found = verifier.result()
        verdict.extend([found] if found else [])
        return bool(verdict)

    wait_until(ended, "the verdict")
    return verdict[0]


def in_child(folder: Path, name: str = name_of(100), digest: str = DIGEST, **more: int) -> Verdict:
    """The verdict of the real child process; ``companion`` is not required unless given."""
    verifier = Verifier()
    more = {"companion": False, **more}
    return result(verifier, verifier.start(folder, name, digest, **more))  # type: ignore[arg-type] # of bools and ints


def verdict(folder: Path, data: bytes, *, name: str = name_of(100), **expected: object) -> str:
    """The problem with that content, found in this process."""
    (folder / name).write_bytes(data)
    found = verify(folder / name, Expected(**expected))  # type: ignore[arg-type] # as given
    assert set(found) == set(Verdict._fields)
    return str(found["problem"])


def test_a_good_checkpoint_is_good(tmp_path: Path) -> None:
    (tmp_path / name_of(100)).write_bytes(GOOD)
    assert in_child(tmp_path) == Verdict(100, name_of(100), DIGEST, len(GOOD), "", "")
    # A trainer that gives no digest has it told.
    assert in_child(tmp_path, digest="").sha256 == DIGEST


def test_a_good_companion_is_part_of_the_verdict(tmp_path: Path) -> None:
    beside = companion(100, GOOD)
    (tmp_path / name_of(100)).write_bytes(GOOD)
    (tmp_path / companion_of(100)).write_bytes(beside)
    found = in_child(tmp_path, companion=True, n_params=4)
    assert found.problem == ""
    assert found.companion == sha256(beside).hexdigest()


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda data: data[:0], "size: expected at least 8 bytes, found 0 bytes"),
        (lambda data: data[:7], "size: expected at least 8 bytes, found 7 bytes"),
        (lambda data: data[:-1], "size for 4 parameters: expected 56 bytes, found 55 bytes"),
        (lambda data: data[:-4], "size for 4 parameters: expected 56 bytes, found 52 bytes"),
        (lambda data: data + b"\0", "size for 4 parameters: expected 56 bytes, found 57 bytes"),
        (lambda data: b"\0" * len(data), "n_params in the header: expected 1 or more, found 0"),
        (lambda data: struct.pack("<ii", 101, 4) + data[8:], "expected 100 as in the name"),
        (lambda data: struct.pack(">ii", 100, 4) + data[8:], "expected"),  # the wrong way round
        (lambda data: struct.pack("<ii", 100, -4) + data[8:], "found -4"),
        (lambda data: struct.pack("<ii", 100, 5) + data[8:], "expected 68 bytes, found 56"),
        (lambda data: data[:-1] + b"\x7f", f"sha256: expected {DIGEST}, found"),
    ],
    ids=range(11),
)
def test_a_spoilt_file_is_refused(
    tmp_path: Path, spoil: Callable[[bytes], bytes], problem: str
) -> None:
    found = verdict(tmp_path, spoil(GOOD), sha256=DIGEST)
    assert found.startswith(f"cannot use {tmp_path / name_of(100)}: ")
    assert problem in found


def test_every_single_bit_that_flips_is_found(tmp_path: Path) -> None:
    for at in range(len(GOOD)):
        for bit in (0, 7):
            spoilt = bytearray(GOOD)
            spoilt[at] ^= 1 << bit
            assert verdict(tmp_path, bytes(spoilt), sha256=DIGEST)


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"weights": [0.5, NAN, 0.5, 0.5]}, "weights[1]: expected a finite number, found nan"),
        ({"weights": [0.5, 0.5, 0.5, INF]}, "weights[3]: expected a finite number, found inf"),
        ({"m": [-INF, 0.5, 0.5, 0.5]}, "m[0]: expected a finite number, found -inf"),
        ({"v": [0.5, 0.5, NAN, 0.5]}, "v[2]: expected a finite number, found nan"),
        ({"v": [0.5, 0.5, 0.5, -0.25]}, "v[3]: expected 0 or more, found -0.25"),
        ({"m": [0.0] * 4}, "m: expected numbers other than zero after step 100, found only zeros"),
        ({"v": [0.0] * 4}, "v: expected numbers other than zero after step 100, found only zeros"),
        ({"m": [-0.0] * 4}, "m: expected numbers other than zero after step 100"),
    ],
    ids=range(8),
)
def test_numbers_that_cannot_be_are_refused(
    tmp_path: Path, arrays: dict[str, list[float]], problem: str
) -> None:
    data = content(100, **arrays)
    assert problem in verdict(tmp_path, data, sha256=sha256(data).hexdigest())


@pytest.mark.parametrize(
    "arrays",
    [
        {"weights": [0.0] * 4},
        {"m": [-0.5, 0.0, 0.0, 0.0]},
        {"v": [0.0, -0.0, 0.0, 1e-45]},
        {"weights": [3.4e38, -3.4e38, 1e-45, -0.0]},
    ],
    ids=["zero weights", "negative m", "small v", "extremes"],
)
def test_numbers_that_may_be_are_not_refused(
    tmp_path: Path, arrays: dict[str, list[float]]
) -> None:
    assert verdict(tmp_path, content(100, **arrays)) == ""


def test_moments_may_be_zero_at_step_0_only(tmp_path: Path) -> None:
    zeros = {"m": [0.0] * 4, "v": [0.0] * 4}
    assert verdict(tmp_path, content(0, **zeros), name=name_of(0)) == ""
    assert verdict(tmp_path, content(1, **zeros), name=name_of(1)) != ""


def test_a_fault_in_a_later_piece_is_found_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays are read in pieces; the last one is shorter."""
    monkeypatch.setattr("supervisor.sidecars.checkpoints.verify_stream.PIECE", 12)
    for at in range(10):
        for array in ("weights", "m", "v"):
            numbers = [0.5] * 10
            numbers[at] = INF
            data = content(100, 10, **{array: numbers})
            assert f"{array}[{at}]: expected a finite number" in verdict(tmp_path, data)
    only_the_last = [0.0] * 9 + [0.5]
    assert verdict(tmp_path, content(100, 10, m=only_the_last, v=only_the_last)) == ""
    data = content(100, 10)
    assert verdict(tmp_path, data, sha256=sha256(data).hexdigest()) == ""


@pytest.mark.parametrize(
    ("beside", "problem"),
    [
        (b"", "content: expected a JSON object"),
        (companion(100, GOOD)[:-20], "content: expected a JSON object"),
        (companion(101, GOOD), "step: expected 100, found 101"),
        (companion(100, GOOD + b"x"), f"sha256: expected {DIGEST}, found"),
        (companion(100, content(100, 5), 5), "n_params: expected 4, found 5"),
        (companion(100, GOOD).replace(b"companion/2", b"companion/3"), "schema: expected"),
    ],
    ids=["empty", "torn", "step", "digest", "size", "schema"],
)
@pytest.mark.parametrize("required", [True, False])
def test_a_companion_that_is_not_its_own_is_refused_whether_or_not_it_is_needed(
    tmp_path: Path,
    beside: bytes,
    problem: str,
    required: bool,  # noqa: FBT001 - a parameter
) -> None:
    (tmp_path / companion_of(100)).write_bytes(beside)
    assert problem in verdict(tmp_path, GOOD, companion=required)


def test_a_missing_companion_is_refused_where_the_trainer_writes_them(tmp_path: Path) -> None:
    wanted = f"companion: expected {companion_of(100)}, found none"
    assert wanted in verdict(tmp_path, GOOD, companion=True)
    assert verdict(tmp_path, GOOD, companion=False) == ""


def test_another_number_of_parameters_than_the_trainer_said_is_refused(tmp_path: Path) -> None:
    assert "n_params: expected 5, found 4" in verdict(tmp_path, GOOD, n_params=5)


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    assert in_child(tmp_path).problem == (
        f"cannot read {tmp_path / name_of(100)}: No such file or directory"
    )
    (tmp_path / name_of(200)).mkdir()
    assert in_child(tmp_path, name_of(200)).problem.startswith("cannot read ")
    assert "name: expected step_NNNNNN.bin" in verdict(tmp_path, GOOD, name="step_1.bin")


def test_a_reader_that_dies_says_nothing_against_the_checkpoint(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name_of(100))  # the reader waits for a writer
    verifier = Verifier()
    descriptor = verifier.start(tmp_path, name_of(100), DIGEST)
    assert verifier.result() is None
    assert verifier._process is not None
    verifier._process.kill()
    found = result(verifier, descriptor)
    assert found.problem.startswith(f"cannot tell whether {name_of(100)} is good: ")
    assert found.step == 100


def test_one_is_read_at_a_time_and_closing_ends_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name_of(100))
    verifier = Verifier()
    assert verifier.result() is None
    assert verifier.fileno() == -1
    verifier.start(tmp_path, name_of(100), "")
    assert verifier._process is not None
    pid = verifier._process.pid
    with pytest.raises(ValueError, match="still being verified"):
        verifier.start(tmp_path, name_of(100), "")
    verifier.close()
    assert not Path(f"/proc/{pid}").exists()
    (tmp_path / name_of(200)).write_bytes(content(200))
    again = verifier.start(tmp_path, name_of(200), "", companion=False)
    assert result(verifier, again).problem == ""


def test_the_reader_needs_little_memory_whatever_the_size(tmp_path: Path) -> None:
    n = 6_000_000  # 72 MB
    with (tmp_path / name_of(100)).open("wb") as file:
        file.write(struct.pack("<ii", 100, n))
        for _ in range(3 * n // 1_000_000):
            file.write(struct.pack("<f", 0.5) * 1_000_000)
    code = (
        "import sys; from pathlib import Path\n"
        "from supervisor.sidecars.checkpoints.verify_child import verify\n"
        "from supervisor.sidecars.checkpoints.verify_companion import Expected\n"
        "assert verify(Path(sys.argv[1]), Expected())['problem'] == ''\n"
        "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))\n"
    )
    command = [sys.executable, "-c", code, tmp_path / name_of(100)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 * 1024


def test_only_the_reader_loads_numpy() -> None:
    code = "import sys, supervisor.sidecars.checkpoints.verifying; print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
