"""``proof.json`` as it is promised: read for ever, an unknown form refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.errors import RefusedError
from supervisor.sidecars import resume_proof

GOLDEN = Path(__file__).parent / "golden/proof.json"


def test_the_file_is_written_as_it_was(tmp_path: Path) -> None:
    assert resume_proof.read(tmp_path) is None
    (tmp_path / "proof.json").write_bytes(GOLDEN.read_bytes())
    record = resume_proof.read(tmp_path)
    assert record is not None
    assert (record.verdict, record.steps.cut, record.controls[0].without) == ("proved", 180, "rng")
    (tmp_path / "proof.json").unlink()
    resume_proof.write(tmp_path, record)
    assert (tmp_path / "proof.json").read_bytes() == GOLDEN.read_bytes()


@pytest.mark.parametrize(
    "change",
    [{"schema": "stepkeeper.proof/2"}, {"more": 1}, {"time": None}, {"steps": {"start": 1}}],
)
def test_another_form_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(json.loads(GOLDEN.read_bytes()) | change))
    with pytest.raises(RefusedError, match=rf"^cannot read {path}: .*; prove the run again$"):
        resume_proof.read(tmp_path)
