"""Which policy and which settings are in force, whatever the operator has edited since."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from supervisor import clock
from supervisor.config import Config, changed, load, read_policy, read_text
from supervisor.core.policy import Policy, problem_of
from supervisor.core.state import State
from supervisor.errors import RefusedError, SettingsError
from supervisor.perform import Parts, say
from supervisor.sidecars import archive, kept_settings
from supervisor.sidecars.attempts import AttemptModel
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
    number = newest_policy(run, journal)
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
    policy = read_policy(text, number, path, config, going_on=not fresh)
    if problem := problem_of(policy, config.live):
        say(
            f"cannot serve policy {number} with the sources there are: {problem}; the mix stays, "
            "and pulls of what is gone fail",
            alarm=True,
        )
    return policy


def newest_policy(run: Path, journal: archive.PivotModel | None) -> int:
    """The number of the policy in force; 1 before the first start."""
    number = max(archive.policies(run), default=1)
    if journal is not None and journal.stage != "installed" and number >= journal.policy:
        return journal.policy - 1  # installed, but the stage is not durable: it is done again
    return number


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


def put_in_force(parts: Parts) -> None:
    """Keep the settings of this life as those in force, and journal what they change.

    A disk that does not take them is no reason to leave a trainer alone: the next life tries again.
    """
    try:
        _put_in_force(parts)
    except OSError as error:
        if parts.events.lost:
            raise
        say(f"cannot keep run.toml as the settings in force: {error}", alarm=True)


def _put_in_force(parts: Parts) -> None:
    config = parts.config
    if kept_settings.newest(config.run) == config.text:
        return
    number = max(kept_settings.numbers(config.run), default=0) + 1
    if number > 1:
        facts = {"settings": number, "changes": [change.facts() for change in changed(config)]}
        parts.events.append("settings-changed", facts, clock.wall(), once=True)
        parts.events.sync()
    mode = (config.run / "run.toml").stat().st_mode
    kept_settings.install(config.run, number, config.text, mode)


def settings_of_attempt(state: State, run: Path, attempt: AttemptModel | None) -> State:
    """A trainer that was started under other settings keeps its cadence until the next attempt."""
    path = kept_settings.find(run, attempt.settings) if attempt is not None else None
    if path is None:
        return state
    try:
        own = load(run, path.read_bytes()).settings
    except (OSError, SettingsError):  # of another version perhaps
        return state
    gate = replace(state.settings.gate, every=own.gate.every)
    settings = replace(state.settings, cadence=own.cadence, boundary=own.boundary, gate=gate)
    if settings == state.settings:
        return state
    return replace(state, settings=settings, next_settings=state.settings)


def settings_files(run: Path) -> tuple[Path, Path]:
    """What the operator edits: no change of it takes effect by itself."""
    return run / "run.toml", run / "policy.toml"


def settings_news(run: Path, edited: set[Path]) -> Iterator[str]:
    """A line for each settings file that changed and is not in force; a pivot's own is."""
    typed = shlex.quote(str(run))
    ways = {
        "run.toml": f"stepkeeper check {typed} shows the difference, stepkeeper reload {typed} "
        "puts it in force",
        "policy.toml": f"see stepkeeper check {typed}",
    }
    for path in settings_files(run):
        if path in edited and not _is_in_force(run, path):
            yield f"{path.name} changed: what is in force stays as it is; {ways[path.name]}"


def _is_in_force(run: Path, edited: Path) -> bool:
    try:
        if edited.name == "run.toml":
            return kept_settings.newest(run) == edited.read_bytes()
        newest = archive.policy_path(run, archive.policies(run)[-1])
        return newest.read_bytes() == edited.read_bytes()
    except (OSError, IndexError):
        return False
