"""The files of marks beside the checkpoints: their forms are promises, and bad ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.errors import RefusedError
from supervisor.sidecars.checkpoints import lift, quarantine, quarantined, skip, skips

SEAL, OTHER = "a" * 64, "b" * 64


def test_a_quarantine_is_written_as_promised_and_lifted(tmp_path: Path) -> None:
    quarantine(tmp_path, SEAL, "the loss of step 9 is nan (arm a)")
    quarantine(tmp_path, OTHER, "a spike")
    assert (tmp_path / "quarantine.json").read_text() == (
        '{\n "schema": "stepkeeper.quarantine/1",\n "marks": {\n'
        f'  "{SEAL}": "the loss of step 9 is nan (arm a)",\n  "{OTHER}": "a spike"\n }}\n}}\n'
    )
    lift(tmp_path, SEAL)
    assert quarantined(tmp_path) == {OTHER: "a spike"}


def test_skips_are_written_as_promised_and_said_twice_are_one(tmp_path: Path) -> None:
    for _ in range(2):
        skip(tmp_path, SEAL, 7, 80)
    skip(tmp_path, SEAL, 12, 95)
    assert (tmp_path / "skips.json").read_text() == (
        '{\n "schema": "stepkeeper.skips/1",\n "marks": {\n'
        f'  "{SEAL}:7": "80",\n  "{SEAL}:12": "95"\n }}\n}}\n'
    )
    assert skips(tmp_path) == {SEAL: ((7, 80), (12, 95))}
    assert skips(tmp_path / "nothing") == {}


@pytest.mark.parametrize("text", ["", "[]", '{"schema":"stepkeeper.skips/2","marks":{}}'])
def test_what_this_program_did_not_write_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "skips.json").write_text(text)
    with pytest.raises(RefusedError, match="mend it or move it away"):
        skips(tmp_path)


def test_a_skip_that_is_no_number_is_refused(tmp_path: Path) -> None:
    marks = f'{{"schema":"stepkeeper.skips/1","marks":{{"{SEAL}:x":"80"}}}}'
    (tmp_path / "skips.json").write_text(marks)
    with pytest.raises(RefusedError):
        skips(tmp_path)
