"""Which policy is in force: the newest of policies/, never an edited ``policy.toml``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from supervisor import clock
from supervisor.config import Config, read_policy, read_text
from supervisor.core.policy import Policy
from supervisor.errors import RefusedError
from supervisor.perform import Parts, say
from supervisor.sidecars import archive
from supervisor.sidecars.checkpoints import scan


def policy_in_force(
    config: Config, parts: Parts, journal: archive.PivotModel | None, *, fresh: bool
) -> Policy:
    """The newest of policies/; a run without one takes policy.toml as its first."""
    run = config.run
    numbers = archive.policies(run)
    edited = run / "policy.toml"
    if not numbers and not fresh:
        raise RefusedError(
            f"cannot tell which policy is in force: {run / 'policies'} holds none, and this run is "
            "not new; put it back"
        )
    if not numbers:
        text = read_text(edited)
        policy = read_policy(text, 1, edited, config)
        archive.install_policy(run, 1, text)
        return policy
    number = numbers[-1]
    if journal is not None and journal.stage != "installed" and number >= journal.policy:
        number = journal.policy - 1  # installed, but the stage is not durable: it is done again
    path = archive.policy_path(run, number)
    text = path.read_bytes()
    if not fresh and journal is None and not config.bandit.exists():
        number = _reset_by_hand(parts, number, text)
    elif edited.exists() and edited.read_bytes() != text and journal is None:
        say(
            f"cannot use policy.toml: it differs from policy {number} in force; "
            f"run stepkeeper pivot {shlex.quote(str(run))} --policy {shlex.quote(str(edited))}",
            alarm=True,
        )
    return read_policy(text, number, path, config)


def _reset_by_hand(parts: Parts, number: int, text: bytes) -> int:
    """A bandit state that was moved away while nothing ran is a reset of the same policy.

    Where no seal is of the policy, its state is empty already: so a reset that a crash cut short
    after the policy was installed stays the one that it was.
    """
    newest = scan(parts.checkpoints).newest()
    if not newest or newest[0].policy != number:
        return number
    parts.events.append("pivot-by-hand", {"policy": number + 1}, clock.wall(), once=True)
    parts.events.sync()
    archive.install_policy(parts.run, number + 1, text)
    say(f"{parts.config.bandit.name} was moved away: reset as policy {number + 1}", alarm=True)
    return number + 1


def settings_files(run: Path) -> tuple[Path, Path]:
    """What the operator edits: no change of it takes effect by itself."""
    return run / "run.toml", run / "policy.toml"


def settings_news(run: Path, changed: set[Path]) -> Iterator[str]:
    """A line for each settings file that changed and is not in force; a pivot's own is."""
    for path in settings_files(run):
        if path not in changed or (path.name == "policy.toml" and _is_in_force(run, path)):
            continue
        yield (
            f"{path.name} changed: what is in force stays as it is; see stepkeeper check "
            f"{shlex.quote(str(run))}"
        )


def _is_in_force(run: Path, edited: Path) -> bool:
    try:
        newest = archive.policy_path(run, archive.policies(run)[-1])
        return newest.read_bytes() == edited.read_bytes()
    except (OSError, IndexError):
        return False
