"""Checkpoints of one torch file, and of a folder of them, are read back as strictly as a .bin."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

from supervisor.core.messages import LossHistory, Verdict
from supervisor.sidecars.checkpoints.verify_payload import SCHEMAS
from supervisor.sidecars.checkpoints.verify_stream import Manner
from supervisor.sidecars.checkpoints.verifying import Sealed, Verifier
from tests.sidecars.full_states import (
    FORMS,
    LOSSES,
    N_PARAMS,
    PARAMETERS,
    STEP,
    Case,
    own_payload,
    save,
    torch_payload,
    write,
)
from tests.sidecars.test_checkpoints_verifying import result
from tests.support.runs import ROOT
from trainer.contract.checkpoint_format import companion_of, name_of
from trainer.full_state import schema

pytestmark = [pytest.mark.torch, pytest.mark.parametrize("form", FORMS)]

NAN, INF = float("nan"), float("inf")
WEIGHT = PARAMETERS[0][0]


@pytest.mark.parametrize("make", [torch_payload, own_payload])
def test_a_good_one_is_good_whichever_optimizer_it_holds(
    tmp_path: Path, form: str, make: Callable[[], dict[str, Any]]
) -> None:
    case = save(tmp_path, form, make())
    found = case.verdict(
        sha256=case.written.sha256, n_params=N_PARAMS, companion=True, companion_sha256=""
    )
    beside = sha256((tmp_path / companion_of(STEP)).read_bytes()).hexdigest()
    assert found == {
        "step": STEP,
        "name": name_of(STEP, form),
        "sha256": case.written.sha256,
        "bytes": case.written.bytes,
        "companion": beside,
        "problem": "",
        "losses": [[91, LOSSES[90:]]],
    }
    digest_only = case.verdict(Manner(digest_only=True), sha256=case.written.sha256)
    assert digest_only == found | {"losses": []}


def test_the_child_reads_it_and_says_how_far_it_is(tmp_path: Path, form: str) -> None:
    payload = torch_payload()
    payload["model"]["big"] = torch.ones(1_000_000, dtype=torch.uint8)
    case = save(tmp_path, form, payload)
    verifier = Verifier()
    found = result(verifier, verifier.start(tmp_path, case.path.name, case.written.sha256))
    assert found.problem == ""
    assert found.losses == (LossHistory(91, tuple(LOSSES[90:])),)
    sealed = Sealed(case.written.sha256, found.companion)
    again = result(verifier, verifier.start_again(tmp_path, case.path.name, sealed, idle=True))
    assert again == found._replace(losses=())
    assert isinstance(again, Verdict)


SPOILT: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "weight": (lambda p: p["model"][WEIGHT].view(-1)[3:4].fill_(NAN), "0.weight[3]: expected a f"),
    "buffer": (lambda p: p["model"]["1.running_var"].fill_(INF), "model.1.running_var[0]: exp"),
    "moment": (lambda p: moment(p, "exp_avg")[1:2].fill_(-INF), "exp_avg[1]: expected a finite"),
    "below": (lambda p: moment(p, "exp_avg_sq")[2:].fill_(-1.0), "exp_avg_sq[2]: expected 0 or"),
    "greatest": (lambda p: moment(p, "max_exp_avg_sq").fill_(-1.0), "max_exp_avg_sq[0]: expe"),
    "no m": (lambda p: clear(p, "exp_avg"), "the optimizer's m: expected numbers other than zero"),
    "no v": (lambda p: clear(p, "exp_avg_sq", "max_exp_avg_sq"), "the optimizer's v: expected"),
    "step": (lambda p: p["train_state"].update(step=99), "train_state.step: expected 100 as in"),
    "schema": (lambda p: p.update(schema="stepkeeper.full-state/9"), "schema: expected stepkeep"),
    "losses": (lambda p: p["train_state"].update(losses=[1.0, "x"]), "train_state.losses: expe"),
}


def moment(payload: dict[str, Any], name: str) -> torch.Tensor:
    tensor: torch.Tensor = payload["optimizer"]["state"][0][name].view(-1)
    return tensor


def clear(payload: dict[str, Any], *names: str) -> None:
    for entry in payload["optimizer"]["state"].values():
        for name in names:
            entry[name].zero_()


@pytest.mark.parametrize("fault", SPOILT)
def test_what_cannot_be_is_refused_by_its_name(tmp_path: Path, form: str, fault: str) -> None:
    spoil, problem = SPOILT[fault]
    payload = torch_payload()
    spoil(payload)
    found = save(tmp_path, form, payload).problem()
    assert found.startswith(f"cannot use {tmp_path / name_of(STEP, form)}")
    assert problem in found


@pytest.mark.parametrize("name", ["m", "v"])
def test_the_reference_trainers_moments_are_looked_at_too(
    tmp_path: Path, form: str, name: str
) -> None:
    payload = own_payload()
    payload["optimizer"][name][WEIGHT][0, 1] = -INF
    assert f"optimizer.{name}.{WEIGHT}[1]: expected a finite number, found -inf" in (
        save(tmp_path, form, payload).problem()
    )
    for tensor in payload["optimizer"][name].values():
        tensor.zero_()
    (other := tmp_path / "other").mkdir()
    assert f"the optimizer's {name}: expected numbers other" in save(other, form, payload).problem()


def test_moments_may_be_absent_and_what_is_not_an_elements_own_does_not_count(
    tmp_path: Path, form: str
) -> None:
    payload = own_payload()
    payload["optimizer"] = None
    row = torch.full((4, 6), NAN)
    row[:, ::2] = 1.0
    payload["model"]["cache"] = row[:, ::2]
    payload["model"]["half"] = torch.ones(3, dtype=torch.bfloat16)
    payload["model"]["none"] = torch.empty(0)
    assert save(tmp_path, form, payload).problem() == ""
    payload["model"]["cache"][3, 2] = INF
    (other := tmp_path / "other").mkdir()
    assert "model.cache[" in save(other, form, payload).problem()
    payload["model"]["cache"][3, 2] = 1.0
    payload["model"]["half"][1] = -INF
    (third := tmp_path / "third").mkdir()
    assert "model.half[1]: expected a finite number, found -inf" in (
        save(third, form, payload).problem()
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: r.update(step=99), "step: expected 100, found 99"),
        (lambda r: r.update(bytes=7), "bytes: expected"),
        (lambda r: r.update(sha256="0" * 64), "sha256: expected"),
        (lambda r: r.update(format="bin", bytes=188), "format: expected"),
        (
            lambda r: r["parameters"][0].__setitem__(0, "2.weight"),
            "expected the parameter 2.weight",
        ),
        (lambda r: r["parameters"][0].__setitem__(1, [2, 3]), "shape of model.0.weight: expected"),
    ],
    ids=["step", "bytes", "sha256", "format", "name", "shape"],
)
def test_a_companion_that_says_otherwise_is_refused(
    tmp_path: Path, form: str, change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    case = save(tmp_path, form, torch_payload())
    case.rewrite(change)
    assert problem in case.problem()


def test_what_the_trainer_and_the_seal_say_is_held_against_it(tmp_path: Path, form: str) -> None:
    case = save(tmp_path, form, torch_payload())
    assert "sha256: expected 0000" in case.problem(sha256="0" * 64)
    assert "sha256: expected 0000" in case.problem(companion_sha256="0" * 64)
    assert "n_params: expected 16, found 15" in case.problem(n_params=16)
    assert "n_params: expected 99, found" in case.problem(n_params=99)
    (tmp_path / companion_of(STEP)).unlink()
    assert "companion: expected step_000100.json, found none" in case.problem(companion=True)
    assert case.problem() == ""
    assert "cannot read" in Case(tmp_path / name_of(7, form), case.written).problem()


def test_a_loss_history_of_its_own_is_told_beside_the_companions(tmp_path: Path, form: str) -> None:
    payload = torch_payload()
    payload["train_state"]["losses"][95] = NAN
    case = save(tmp_path, form, payload)
    told = case.verdict()["losses"]
    assert told == [[91, LOSSES[90:]], [91, [*LOSSES[90:95], "nan", *LOSSES[96:]]]]
    json.dumps(told, allow_nan=False)
    case.rewrite(lambda record: record.update(losses=None))
    assert case.verdict()["losses"] == [[1, [*LOSSES[:95], "nan", *LOSSES[96:]]]]
    payload["train_state"]["losses"] = torch.tensor(LOSSES, dtype=torch.float64)
    payload["train_state"]["losses"][99] = -INF  # a long history is a tensor
    (third := tmp_path / "third").mkdir()
    assert save(third, form, payload).verdict()["losses"][1] == [91, [*LOSSES[90:99], "-inf"]]
    payload["train_state"]["losses"] = list(LOSSES)
    del payload["train_state"]["losses"][::2]  # of every other step, say
    (another := tmp_path / "another").mkdir()
    case = save(another, form, payload)
    case.rewrite(lambda record: record.update(losses=None))
    assert case.verdict()["losses"] == []
    payload["train_state"]["losses"] = []
    (other := tmp_path / "other").mkdir()
    assert save(other, form, payload).verdict()["losses"] == [[91, LOSSES[90:]]]


def test_every_byte_that_changes_is_found(tmp_path: Path, form: str) -> None:
    case = save(tmp_path, form, torch_payload())
    files = [case.path] if form == "pt" else sorted(case.path.iterdir())
    for file in files:
        whole = file.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 40)):
            spoilt = bytearray(whole)
            spoilt[at] ^= 4
            file.write_bytes(spoilt)
            assert case.problem(sha256=case.written.sha256), (file, at)
        file.write_bytes(whole)
    assert case.problem(sha256=case.written.sha256) == ""


def test_bytes_that_are_no_numbers_have_their_checksum(tmp_path: Path, form: str) -> None:
    if form != "pt":
        return  # there every file has its digest in the index
    payload = torch_payload()
    payload["model"]["mask"] = torch.full((1000,), 77, dtype=torch.uint8)
    case = save(tmp_path, form, payload)
    data = case.path.read_bytes()
    at = data.index(b"M" * 1000)
    case.path.write_bytes(data[: at + 500] + b"N" + data[at + 501 :])
    found = case.problem()
    assert "CRC of data/" in found
    assert found.startswith(f"cannot use {case.path}: ")


def test_it_is_read_in_little_memory_without_torch(tmp_path: Path, form: str) -> None:
    payload = own_payload()
    payload["model"] = {name: torch.ones(4_000_000) for name in "abcd"}
    path = tmp_path / name_of(STEP, form)
    write(path, payload)
    code = (
        "import sys; from pathlib import Path\n"
        "from supervisor.sidecars.checkpoints.verify_child import verify\n"
        "from supervisor.sidecars.checkpoints.verify_companion import Expected\n"
        "assert verify(Path(sys.argv[1]), Expected())['problem'] == ''\n"
        "assert 'torch' not in sys.modules\n"
        "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))\n"
    )
    command = [sys.executable, "-c", code, path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 * 1024


def test_it_says_how_far_it_is_over_all_its_files(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("supervisor.sidecars.checkpoints.verify_stream._TELL", 1000)
    case = save(tmp_path, form, torch_payload())
    for manner in (Manner(progress=True), Manner(progress=True, digest_only=True)):
        assert case.verdict(manner)["problem"] == ""
        told = [int(line) for line in capfd.readouterr().out.split()]
        assert told == sorted(told)
        assert case.written.bytes - 1000 < told[-1] <= case.written.bytes


def test_the_schemas_are_those_of_the_library(form: str) -> None:
    assert SCHEMAS == (schema.SCHEMA_V1, schema.SCHEMA), form
