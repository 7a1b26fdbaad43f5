"""What a unit does when its supervisor is gone: end the trainer where a stop is wanted."""

from __future__ import annotations

from pathlib import Path

from supervisor import environment
from supervisor.cli import asking, printing, standing


def end_what_is_left(run: Path) -> int:
    """Adopt a trainer that is left, stop it with a checkpoint, seal it; the exit code.

    Then what the trainer itself left behind is ended, so that no GPU stays taken. A stop is wanted
    where the intent says so, where the service ended well, or where someone waits for the manager
    to stop it. After anything else the manager starts the service again, which adopts the trainer.
    Raises StepkeeperError where the trainer cannot be stopped.
    """
    if standing.supervised(run):
        return 0
    if not (_by_intent(run) or environment.service_result() in ("", "success") or _by_manager()):
        if standing.trained(run):
            printing.say("the trainer goes on alone until the service starts again")
        return 0
    if standing.unfinished(run):
        printing.say("the service ended and a trainer is left: stopping it with a checkpoint")
        asking.visit(run, "stop", {"hold": False, "now": False}, environment.own())
        seals = standing.seals(run)
        printing.say(f"stopped; sealed after step {seals[0].step}" if seals else "stopped; no seal")
    # Imported here: most of it is needed nowhere else in this command.
    from supervisor.perform import unattended  # noqa: PLC0415 - see above

    if ended := unattended.end_left(run):
        printing.say(f"ended what the trainer left behind: pid {', '.join(map(str, ended))}")
    return 0


def _by_intent(run: Path) -> bool:
    return (standing.record(run / "intent.json") or {}).get("want") == "stop"


def _by_manager() -> bool:
    # Imported here: it is seldom needed, and the start of this command is waited for.
    from supervisor.process import systemd  # noqa: PLC0415 - see above

    return systemd.stop_wanted()
