"""What somebody who may write all files can do to a run: chains and seals computed anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

START = "0" * 32
Record = dict[str, Any]
Change = Callable[[Record], None]


def chained(records: Iterable[Record], chain: str = START) -> tuple[bytes, str]:
    """These records as lines whose chains follow from each other, and the last chain."""
    lines = []
    for record in records:
        fields = {key: value for key, value in record.items() if key != "chain"}
        body = json.dumps(fields, separators=(",", ":"))[:-1].encode()
        chain = sha256(chain.encode() + body).hexdigest()[:32]
        lines.append(body + b',"chain":"' + chain.encode() + b'"}\n')
    return b"".join(lines), chain


def rewrite(path: Path, change: Change) -> None:
    """Change records of a chained file, and compute every chain anew."""
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    for record in records:
        change(record)
    path.write_bytes(chained(records)[0])


def reseal(path: Path, change: Change) -> None:
    """Change a seal, and write it as a seal is written."""
    seal = json.loads(path.read_bytes())
    change(seal)
    path.write_bytes(json.dumps(seal).encode() + b"\n")


def rewrite_everything(run: Path, change: Change) -> None:
    """Change the ledger, and make seals, marks and journal agree with it.

    For a run of one attempt, whose seals nothing else speaks of.
    """
    ledger = [json.loads(line) for line in (run / "demo.loss.json").read_bytes().splitlines()]
    events = [json.loads(line) for line in (run / "events.jsonl").read_bytes().splitlines()]
    for record in ledger:
        change(record)
    paths = sorted((run / "checkpoints").glob("step_*.seal.json"))
    digests: dict[str, str] = {}
    heads: dict[str, str] = {}
    previous = ""
    for path in paths:
        before = sha256(path.read_bytes()).hexdigest()
        seal = json.loads(path.read_bytes())
        _rename(ledger, events, digests, heads)
        for part, records in (("ledger", ledger), ("events", events)):
            data, chain = chained(records[: seal[part]["entries"]])
            seal[part] |= {"bytes": len(data), "chain": chain}
        seal["previous"] = previous
        path.write_bytes(json.dumps(seal).encode() + b"\n")
        previous = digests[before] = sha256(path.read_bytes()).hexdigest()
        place = f"{seal['ledger']['entries']}:{seal['ledger']['chain']}"
        heads[previous] = f"{place}:{previous[:32]}"
    _rename(ledger, events, digests, heads)
    (run / "demo.loss.json").write_bytes(chained(ledger)[0])
    (run / "events.jsonl").write_bytes(chained(events)[0])


def _rename(
    ledger: list[Record], events: list[Record], digests: dict[str, str], heads: dict[str, str]
) -> None:
    """Speak of the new seals where the old ones were spoken of."""
    short = {f"seal:{old[:32]}": f"seal:{new[:32]}" for old, new in digests.items()}
    for line in ledger:
        line["mark"] = short.get(line["mark"], line["mark"])
    for event in events:
        facts = event["facts"]
        if event["event"] == "sealed" and facts["seal"] in digests:
            facts["seal"] = digests[facts["seal"]]
            facts["head"] = heads[facts["seal"]]
