"""The files of a move, as they are promised: read for ever, an unknown form refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from supervisor.errors import RefusedError
from supervisor.sidecars import place, rewinds

PLACE = """{
 "schema": "stepkeeper.place/1",
 "run": "0123456789abcdef",
 "machine": "00112233445566778899aabbccddeeff",
 "host": "node-7",
 "path": "/data/runs/andrea",
 "device": 2049,
 "inode": 131,
 "time": "2026-01-31T12:00:00.123Z"
}
"""
REWIND = """{
 "schema": "stepkeeper.rewind/1",
 "stage": "done",
 "to": {
  "step": 112600,
  "sha256": "AAAA",
  "seal": "BBBB"
 },
 "sealed": 112700,
 "attempt": 7,
 "ledger": {
  "entries": 112719,
  "bytes": 25811251,
  "chain": "CCCC",
  "step": 112719
 },
 "by": "uid 1000 pid 4711",
 "time": "2026-01-31T12:00:00.123Z"
}
"""


@pytest.mark.parametrize(
    ("name", "text", "module"), [("place.json", PLACE, place), ("rewind.json", REWIND, rewinds)]
)
def test_a_file_is_written_as_it_was_and_no_other_is_taken(
    tmp_path: Path, name: str, text: str, module: ModuleType
) -> None:
    path = tmp_path / name
    read: Callable[[Path], Any] = module.read
    assert read(tmp_path) is None
    path.write_text(text)
    record = read(tmp_path)
    path.unlink()
    module.write(tmp_path, record)
    assert path.read_text() == text
    known = json.loads(text)
    newer = known["schema"][:-1] + "2"
    for change in ({"schema": newer}, {"more": 1}, {"time": None}):
        path.write_text(json.dumps(known | change))
        with pytest.raises(RefusedError, match=rf"^cannot read {path}"):
            read(tmp_path)
