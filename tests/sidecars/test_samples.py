"""The samples' file: its form, its migrations, and bounds that hold whatever a trainer says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.coherence.gate import GateState, Outcome
from supervisor.core.coherence.judging import Judged
from supervisor.core.messages import KeepSamples
from supervisor.errors import RefusedError
from supervisor.sidecars.samples import SCHEMA, Samples, read

OUTCOME = Outcome(100, 1, 1, 1, 4.5, "fail", True, 1.5, "7 of 25", ((1, 2), ()))  # noqa: FBT003 - counts
GATE = GateState((OUTCOME,), None, 300)
SAID = Judged(100, "say", "said\0\ud7ff", 6, 0.8, (("score", 4.5), ("run", 3.0)), "fail")
GOLDEN_1: dict[str, Any] = {
    "schema": "stepkeeper.samples/1",
    "samples": [
        {
            "step": 100,
            "attempt": 1,
            "policy": 2,
            "prompt": "say",
            "text": "said",
            "temperature": 0.8,
            "scores": {},
            "verdict": "",
        }
    ],
}
GOLDEN_2: dict[str, Any] = {
    "schema": "stepkeeper.samples/2",
    "samples": [
        {
            "step": 100,
            "attempt": 1,
            "policy": 2,
            "prompt": "say",
            "text": "said\0\ud7ff",
            "characters": 6,
            "temperature": 0.8,
            "scores": {"score": 4.5, "run": 3.0},
            "verdict": "fail",
        }
    ],
    "gate": {
        "outcomes": [
            {
                "step": 100,
                "attempt": 1,
                "judged": 1,
                "failed": 1,
                "score": 4.5,
                "verdict": "fail",
                "counts": True,
                "sum": 1.5,
                "firing": "7 of 25",
                "sketches": [[1, 2], []],
            }
        ],
        "missing": 300,
        "standing": {"firing": "7 of 25"},
    },
}


def keep(*said: Judged, gate: GateState = GATE) -> KeepSamples:
    return KeepSamples(1, 2, said, gate, {"firing": gate.firing})


def opened(folder: Path, **bounds: int) -> Samples:
    return Samples(folder / "demo.samples.json", folder / "archive", **bounds)


def test_the_form_is_what_it_was_and_reads_back_equal(tmp_path: Path) -> None:
    opened(tmp_path).keep(keep(SAID))
    path = tmp_path / "demo.samples.json"
    assert json.loads(path.read_bytes()) == GOLDEN_2
    assert list(json.loads(path.read_bytes())["gate"]["outcomes"][0]) == list(Outcome._fields)
    assert opened(tmp_path).gate == GATE


def test_the_first_schema_is_migrated_by_name(tmp_path: Path) -> None:
    path = tmp_path / "demo.samples.json"
    path.write_text(json.dumps(GOLDEN_1))
    samples = opened(tmp_path)
    assert samples.gate == GateState()
    samples.keep(keep(SAID))
    kept = json.loads(path.read_bytes())
    assert kept["schema"] == SCHEMA
    assert [(s["text"], s["characters"]) for s in kept["samples"]] == [("said", 4), (SAID.text, 6)]


@pytest.mark.parametrize(
    "record",
    [
        {**GOLDEN_2, "schema": "stepkeeper.samples/3"},
        {**GOLDEN_2, "more": 1},
        {**GOLDEN_1, "samples": [{**GOLDEN_1["samples"][0], "text": None}]},
        {**GOLDEN_1, "samples": None},
        {**GOLDEN_2, "gate": {**GOLDEN_2["gate"], "outcomes": [{}]}},
        [],
    ],
    ids=["newer", "unknown key", "no text", "no list", "no outcome", "no object"],
)
def test_what_is_not_understood_is_refused_by_name(tmp_path: Path, record: object) -> None:
    path = tmp_path / "demo.samples.json"
    path.write_text(json.dumps(record))
    with pytest.raises(RefusedError, match=r"^cannot use .*; move it away to begin anew$"):
        read(path)


def test_a_repeated_fold_adds_nothing_twice(tmp_path: Path) -> None:
    samples = opened(tmp_path)
    other = SAID._replace(text="another draw of the same prompt")
    for _ in range(3):
        samples.keep(keep(SAID, SAID, other))
    kept = json.loads((tmp_path / "demo.samples.json").read_bytes())["samples"]
    assert [sample["text"] for sample in kept] == [SAID.text, other.text]


def test_what_is_evicted_is_kept_beside_in_order(tmp_path: Path) -> None:
    samples = opened(tmp_path, kept=5, characters=10_000)
    for step in range(8):
        samples.keep(keep(SAID._replace(step=step, text="x")))
    samples.keep(keep(SAID._replace(step=8, text="x" * 9_995)))
    kept = json.loads((tmp_path / "demo.samples.json").read_bytes())["samples"]
    assert [sample["step"] for sample in kept] == [8]
    lines = (tmp_path / "archive" / "samples-evicted.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(8))


def test_after_a_pivot_it_begins_empty(tmp_path: Path) -> None:
    samples = opened(tmp_path)
    samples.keep(keep(SAID))
    samples.forget()
    assert samples.gate == GateState()
