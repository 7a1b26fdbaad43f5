"""What a file of a run is, by its path: the rows of the table."""

from __future__ import annotations

import re

_ROWS = (
    ("ledger", r"demo\.loss\.json"),
    ("reports", r"attempts/\d+/reports\.jsonl"),
    ("attempt records", r"attempts(/\d+(/attempt\.json)?)?"),
    ("checkpoints", r"checkpoints/step_\d+\.(bin|pt|sharded(/.*)?)"),
    ("companions", r"checkpoints/step_\d+\.json"),
    ("seals", r"checkpoints/step_\d+\.seal\.json"),
    ("superseded", r"checkpoints/superseded.*"),
    ("marks (pins)", r"checkpoints/(pins|rejected)\.json"),
    ("journal events.jsonl", r"events\.jsonl"),
    ("samples", r"demo\.samples\.json"),
    ("bandit state", r"demo\.state\.json"),
    ("orders", r"orders\.json"),
    ("intent", r"intent\.json"),
    ("pivot.json", r"pivot\.json"),
    ("pivot archive", r"archive.*"),
    ("policies", r"policies.*|policy\.toml"),
)
OTHER = "folders, locks, output"
ROWS = (*(name for name, _ in _ROWS), OTHER)
_TEMPORARY = re.compile(r"((?:[^/]+/)*)\.(?:deleted\.)?([^/]+)\.[0-9a-f]{12}\.tmp((?:/.*)?)")


def artefact(path: str) -> str:
    """The row that a path belongs to; a temporary name counts as the file it is to become."""
    if found := _TEMPORARY.fullmatch(path):
        path = "".join(found.groups())
    return next((row for row, form in _ROWS if re.fullmatch(form, path)), OTHER)
