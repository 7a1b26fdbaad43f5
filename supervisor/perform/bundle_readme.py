"""The page that a resume bundle carries: what it holds, and how training goes on from it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from supervisor.config import RunFile
from supervisor.sidecars.checkpoints.seals import SealRecord
from trainer.contract.checkpoint_format import companion_of, seal_of

_PAGE: Final = """\
# Resume bundle of {name}, step {step}

Everything that training needs to go on from step {step} of run `{run}`, as it was when that step
was sealed: no later line of its history is here.

## Go on from it

```sh
stepkeeper fork . NEW
stepkeeper run NEW
```

`.` is this folder and `NEW` the run to make. It has an identity, a ledger and a policy of its own
and names this one in its first line. The bundle itself is only read, and never kept as a run.

It trains on the sources below. Where they lie elsewhere now, put them into one folder under their
last names and add `--sources FOLDER` to the first line.

| arm | was at | kind |
| --- | --- | --- |
{arms}

The trainer is started by `{command}`.{others}

## What is here

| file | what it is |
| --- | --- |
| `checkpoints/{checkpoint}` | weights and the optimizer's moments |
{companion}| `checkpoints/{seal}` | the supervisor's word on it: digests, place in the history |
| `run.toml` | the settings that its trainer was started with, sources as absolute paths |
| `origin/run.toml` | the same, byte for byte as they were |
| `policy.toml`, `policies/` | the data policy that it was sealed under |
| `{ledger}` | the ledger up to the seal: {entries} lines |
| `events.jsonl` | the journal up to the seal |
| `metrics.csv` | the loss of every step that counts |
| `data.json` | sources, their identities, and how far each was read |
| `MANIFEST.json` | size and SHA-256 of each file |
| `SHA256SUMS` | the same for `sha256sum -c SHA256SUMS` |
| `RESUME-EVIDENCE.json` | what loading these very files proved; without it, none were loaded |
"""


class Facts(NamedTuple):
    """What the page speaks of. ``others`` stand in the run directory and are not ours."""

    name: str
    run_id: str
    seal: SealRecord
    file: RunFile
    others: tuple[Path, ...]


def readme(facts: Facts) -> bytes:
    """The page."""
    seal = facts.seal
    beside = f"| `checkpoints/{companion_of(seal.step)}` | generators, data cursors, schedule |\n"
    names = ", ".join(f"`{path.name}`" for path in facts.others)
    page = _PAGE.format(
        name=facts.name,
        step=seal.step,
        run=facts.run_id,
        arms="\n".join(
            f"| {arm} | `{source.path}` | {source.kind} |"
            for arm, source in facts.file.sources.items()
        ),
        command=" ".join(facts.file.trainer.command),
        others=f" Not copied, though they stood in its directory: {names}." if names else "",
        checkpoint=seal.bin.name,
        companion=beside if seal.companion else "",
        seal=seal_of(seal.step),
        ledger=f"{facts.name}.loss.json",
        entries=seal.ledger.entries,
    )
    return page.encode("utf-8")
