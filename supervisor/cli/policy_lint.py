"""The command ``policy``: look at a data policy by itself, without touching any run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, existing
from supervisor.config import Config, load, read_text, recorded_policy
from supervisor.core.epochs import by_size
from supervisor.core.linting import Finding, Mixing, Outlook, exploration, lint
from supervisor.core.policy import Policy
from supervisor.errors import RefusedError, SettingsError, UnknownError, UsageError
from supervisor.process.sources import bytes_of
from supervisor.sidecars import bandit_state, mixing

_TOKEN_BYTES = 2  # of a shard of tokens; all else is a token for each byte, at most


def policy(
    what: Annotated[str, typer.Argument(metavar="lint", help="lint: name what is wrong in FILE.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A policy.toml.")],
    *,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .state.json, of any mixing program.")
    ] = None,
    run: Annotated[
        str, typer.Option(metavar="RUN", help="Its sources, steps and, without --state, its state.")
    ] = "",
    as_json: Json = False,
) -> int:
    """Name what is wrong or pointless in a policy, and in the state of a mix under it.

    Zombies, missing arms, weights outside their bounds, dead exploration, bounds that cannot be
    kept or never bind, and sources that would be read too often. Changes nothing.

    Exits 0 where nothing of weight is found, 1 where something is, 2 where it cannot be told.
    """
    if what != "lint":
        raise UsageError(f"cannot do policy {what!r}: there is policy lint FILE")
    checked = recorded_policy(read_text(file), 0, file)
    config = _config(run) if run else None
    if state is None and config is not None and config.bandit.exists():
        state = config.bandit
    mix = _mixing(state) if state is not None else None
    ahead = outlook(config) if config is not None else None
    findings = lint(checked, mix, ahead)
    facts = _facts(file, state, checked, mix, findings)
    if as_json:
        printing.emit(facts)
    else:
        _tell(facts)
    return 1 if facts["bad"] else 0


def policy_warnings(run: Path, config: Config) -> list[str]:
    """What lint finds in the bounds of a policy that holds: they say nothing, or force too much."""
    edited = run / "policy.toml"
    try:
        policy = recorded_policy(read_text(edited), 0, edited)
    except SettingsError:  # named as a problem already
        return []
    findings = lint(policy, None, outlook(config))
    return [f"policy.toml: {f.text}" for f in findings if f.kind in ("pointless", "forced")]


def _config(run: str) -> Config:
    """The run's settings. Raises UnknownError."""
    try:
        return load(existing(run))
    except SettingsError as error:
        raise UnknownError(f"cannot tell what run {run} trains on: {error}") from None


def _mixing(path: Path) -> Mixing:
    """Ours where its schema says so, else as far as it is recognised. Raises UnknownError."""
    record = mixing.read_json(path)
    schema = record.get("schema") if isinstance(record, dict) else None
    if not str(schema).startswith("stepkeeper."):
        return mixing.of_others(record, path)
    try:
        return mixing.of_bandit(bandit_state.from_record(record, str(path)))
    except RefusedError as error:
        raise UnknownError(str(error)) from None


def outlook(config: Config) -> Outlook:
    """Pulls until the run ends, and about how much of each source a pull reads."""
    file = config.file
    line = standing.last_line(config.run)
    left = max(0, config.steps - (int(line["step"]) if line else 0))
    sequences = file.train.batch * file.train.accumulate
    each = sequences if file.data.mix == "step" else 1
    rates = {
        name: by_size(
            _tokens(source, file.sources[name].kind) * (1.0 - file.evaluate.holdout),
            each * (file.model.shape.context + 1),
        )
        for name, source in config.sources.items()
    }
    return Outlook(float(left * (sequences // each)), rates)


def _tokens(source: Path, kind: str) -> float:
    total = 0.0
    for name, size in bytes_of(source):
        shard = kind == "tokens" or (kind == "auto" and name.endswith(".bin"))
        total += size / _TOKEN_BYTES if shard else size
    return total


def _facts(
    file: Path,
    state: Path | None,
    checked: Policy,
    mix: Mixing | None,
    findings: tuple[Finding, ...],
) -> dict[str, Any]:
    numbers = exploration(checked, mix) if mix is not None else None
    return {
        "policy": str(file),
        "state": str(state) if state is not None else None,
        "exploration": None if numbers is None else {"spread": numbers[0], "bonus": numbers[1]},
        "findings": [finding._asdict() for finding in findings],
        "bad": sum(finding.bad for finding in findings),
    }


def _tell(facts: dict[str, Any]) -> None:
    for finding in facts["findings"]:
        mark = "BAD " if finding["bad"] else "look"
        printing.say(f"{mark}  {finding['kind']:<11} {printing.plain(finding['text'])}")
    if facts["exploration"]:
        spread, bonus = facts["exploration"]["spread"], facts["exploration"]["bonus"]
        printing.say(
            f"mean rewards differ by {spread:.4g}; the bonus of the arm pulled least is {bonus:.4g}"
        )
    count, bad = len(facts["findings"]), facts["bad"]
    printing.say(f"{count} finding{'s' * (count != 1)}, {bad} of weight" if count else "no finding")
