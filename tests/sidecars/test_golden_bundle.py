"""The records of a resume bundle, as they are promised; an unknown form is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.errors import RefusedError
from supervisor.sidecars import bundle

MANIFEST = """{
 "schema": "stepkeeper.bundle/1",
 "run": "0123456789abcdef",
 "name": "andrea",
 "step": 112700,
 "n_params": 12780288,
 "seal": "BBBB",
 "head": "112700:CCCC:BBBB",
 "policy": 3,
 "stepkeeper": "0.5.0",
 "made": "2026-01-31T12:00:00.123Z",
 "files": [
  {
   "name": "checkpoints/step_112700.bin",
   "bytes": 153363464,
   "sha256": "AAAA"
  }
 ]
}
"""
EVIDENCE = """{
 "schema": "stepkeeper.resume-evidence/1",
 "run": "0123456789abcdef",
 "step": 112700,
 "seal": "BBBB",
 "manifest": "DDDD",
 "commands": {
  "export": [
   "stepkeeper",
   "export",
   "/data/runs/andrea",
   "/backup/andrea",
   "--step",
   "112700",
   "--bundle"
  ],
  "trainer": [
   "/usr/bin/python3",
   "-m",
   "trainer"
  ]
 },
 "resumed": {
  "name": "checkpoints/step_112700.bin",
  "bytes": 153363464,
  "sha256": "AAAA"
 },
 "restored": {
  "step": 112700,
  "n_params": 12780288,
  "companion": true
 },
 "checks": [
  {
   "check": "sizes",
   "passed": true,
   "what": "12 files, 179144708 bytes"
  }
 ],
 "versions": {
  "stepkeeper": "0.5.0",
  "python": "3.11.2"
 },
 "host": "node-7",
 "seconds": 3.25,
 "time": "2026-01-31T12:00:00.123Z"
}
"""


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        (bundle.MANIFEST, MANIFEST, bundle.read_manifest),
        (bundle.EVIDENCE, EVIDENCE, bundle.read_evidence),
    ],
)
def test_a_record_is_written_as_it_was_and_no_other_is_taken(
    tmp_path: Path, name: str, text: str, read: Callable[[Path], Any]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    record = read(tmp_path)
    assert bundle.encode(record).decode() == text
    known = json.loads(text)
    newer = known["schema"][:-1] + "2"
    for change in ({"schema": newer}, {"more": 1}, {"step": None}):
        path.write_text(json.dumps(known | change))
        with pytest.raises(RefusedError, match=rf"^cannot read {path}"):
            read(tmp_path)


def test_evidence_can_only_say_that_what_was_looked_at_holds(tmp_path: Path) -> None:
    path = tmp_path / bundle.EVIDENCE
    path.write_text(EVIDENCE.replace('"passed": true', '"passed": false'))
    with pytest.raises(RefusedError, match="cannot read"):
        bundle.read_evidence(tmp_path)


def test_a_bundle_is_known_by_its_manifest_of_any_version(tmp_path: Path) -> None:
    assert not bundle.is_bundle(tmp_path)
    for text, known in (
        (MANIFEST, True),
        (MANIFEST.replace("bundle/1", "bundle/2"), True),
        (MANIFEST.replace("stepkeeper.bundle", "other.bundle"), False),
        ("[]", False),
        ("no JSON", False),
    ):
        (tmp_path / bundle.MANIFEST).write_text(text)
        assert bundle.is_bundle(tmp_path) is known
