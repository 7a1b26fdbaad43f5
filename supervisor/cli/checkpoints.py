"""The command ``checkpoints``: which there are, which can be resumed from, and why others not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.errors import UsageError
from supervisor.sidecars.checkpoints import Catalogue, SealRecord, marks, scan
from supervisor.sidecars.checkpoints.superseding import SUPERSEDED
from trainer.contract.checkpoint_format import CheckpointFormatError, size_of, step_of

HEAD = ("step", "state", "size", "policy", "attempt", "reason", "sealed at", "note")


def checkpoints(  # noqa: PLR0913 - each an option of the command
    run: Run,
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every one back and hold it against its seal.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Verify every number too, and losses by the ledger.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="What fits on this disk, and which cadence pays.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="What the next seal deletes, and why others stay.")
    ] = False,
    size: Annotated[
        int | None, typer.Option(metavar="N_PARAMS", help="What a checkpoint of so many takes.")
    ] = None,
    as_json: Json = False,
) -> int:
    """List the checkpoints of a run, the newest first; the first sealed one is resumed from.

    Exits 1 where --verify finds one that is not as its seal says, or --full one that holds other
    losses than the ledger, 2 where it cannot be told.
    """
    path = existing(run)
    verify = verify or full
    if sum((verify, plan, dry_run, size is not None)) > 1:
        raise UsageError("cannot show all at once: give one of --verify, --plan, --dry-run, --size")
    if size is not None:
        return _tell_size(path, size, as_json=as_json)
    if plan:
        # Imported here: listing needs neither settings nor archive.
        from supervisor.cli import checkpoint_plan  # noqa: PLC0415 - see above

        return checkpoint_plan.plan(path, as_json=as_json)
    if dry_run:
        # Imported here: listing needs neither settings nor archive.
        from supervisor.cli import retention  # noqa: PLC0415 - see above

        return retention.tell(path, as_json=as_json)
    folder = path / "checkpoints"
    catalogue = scan(folder)
    found = rows(catalogue, marks.pins(folder))
    superseded = [
        path for path in (folder / SUPERSEDED).glob("*/step_*") if step_of(path.name) is not None
    ]
    if verify:
        # Imported here: only those who ask for it pay for it.
        from supervisor.cli import checkpoint_verify  # noqa: PLC0415 - see above

        checkpoint_verify.verify(path, catalogue.sealed, found, full=full)
    bad = [row for row in found if row["state"] == "BAD"]
    unknown = [row for row in found if row["state"] == "unknown"]
    differ = [row for row in found if row.get("losses") is False]
    code = 1 if bad or differ else 2 if unknown else 0
    if as_json:
        printing.emit({"checkpoints": found, "superseded": len(superseded), "bad": len(bad)})
        return code
    if not found:
        printing.say("no checkpoint yet")
    else:
        printing.say(printing.table(HEAD, [_cells(row) for row in found]))
    if superseded:
        printing.say(f"{len(superseded)} superseded, never resumed from: {folder / SUPERSEDED}")
    if verify and (read := sum("verified" in row for row in found)):
        doubt = f", {len(unknown)} cannot be told" if unknown else ""
        verdict = f"{len(bad)} of them not as sealed" if bad else "all as sealed"
        losses = f", {len(differ)} with other losses than the ledger" if differ else ""
        printing.say(f"{read} read back, {verdict}{losses}{doubt}")
    return code


def rows(catalogue: Catalogue, pins: dict[int, str]) -> list[dict[str, Any]]:
    """Every checkpoint as JSON values, newest first."""
    found: list[dict[str, Any]] = []
    for state, seals in (("sealed", catalogue.sealed), ("deleted", catalogue.retired)):
        found += [_row(seal, state, pins) for seal in seals]
    found += [
        {"step": c.step, "name": c.name, "state": "unsealed", "note": "never resumed from"}
        for c in catalogue.unsealed
    ]
    found += [
        {"step": c.step, "name": c.name, "state": "refused", "note": c.reason}
        if c.seal is None
        else {**_row(c.seal, "quarantined", pins), "note": c.reason}
        for c in catalogue.refused
    ]
    found += [
        {"step": gap.step, "name": "", "state": "gap", "note": "the seal before this is missing"}
        for gap in catalogue.gaps
    ]
    return sorted(found, key=lambda row: int(row["step"]), reverse=True)


def _row(seal: SealRecord, state: str, pins: dict[int, str]) -> dict[str, Any]:
    note = pins.get(seal.step)
    return {
        "step": seal.step,
        "name": seal.bin.name,
        "state": state,
        "bytes": seal.bin.bytes,
        "policy": seal.policy,
        "attempt": seal.attempt,
        "reason": seal.reason,
        "time": seal.time,
        "sha256": seal.bin.sha256,
        "companion": bool(seal.companion),
        "pinned": note is not None,
        "note": note or "",
    }


def _cells(row: dict[str, Any]) -> list[str]:
    pinned = "pinned" if row.get("pinned") else ""
    note = ", ".join(part for part in (pinned, str(row.get("note", ""))) if part)
    state = "verified" if row.get("verified") else str(row["state"])
    size = printing.bytes_text(row["bytes"]) if "bytes" in row else "-"
    plain = [str(row.get(key, "-")) for key in ("policy", "attempt", "reason", "time")]
    return [str(row["step"]), state, size, *plain, note]


def _tell_size(run: Path, n_params: int, *, as_json: bool) -> int:
    try:
        size = size_of(n_params)
    except CheckpointFormatError as error:
        raise UsageError(f"cannot tell the size: {error}") from None
    free = shutil.disk_usage(run).free
    if as_json:
        printing.emit({"n_params": n_params, "bytes": size, "free": free, "fit": free // size})
    else:
        printing.say(
            f"{size} bytes ({printing.bytes_text(size)}) a checkpoint; {free // size} more fit on "
            f"the disk of {run}"
        )
    return 0
