"""The command that makes a service of a run: ``install-unit``."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Annotated

import typer

from supervisor import environment
from supervisor.cli import printing
from supervisor.cli.parameters import Json
from supervisor.errors import UsageError
from supervisor.perform import service_unit


def install_unit(
    *,
    user: Annotated[
        bool, typer.Option("--user", help="For your own user manager, not the system's.")
    ] = False,
    state: Annotated[str, typer.Option("--state", metavar="DIR", help="Where the runs lie.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be written.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that differ.")] = False,
    as_json: Json = False,
) -> int:
    """Write stepkeeper@.service, so that systemd keeps runs by their names.

    The unit calls the program by the path that it was called by now, links included, so that an
    upgrade is another virtual environment behind the link. Exits 1 where a file differs.
    """
    folder = environment.user_units() if user else None
    place = Path(state).expanduser().absolute() if state else _state(user=user)
    program = _program()
    texts = service_unit.files(program, place, user_folder=folder)
    warnings = [] if user else _warnings(program)
    if dry_run:
        return _show(texts, warnings, as_json=as_json)
    if not user and os.geteuid() != 0:
        raise UsageError(
            "cannot write to /etc: not root; use sudo, or --user for your own user manager"
        )
    written = service_unit.install(texts, force=force)
    following = _following(user=user, state=place)
    if as_json:
        facts = {str(path): new for path, new in written.items()}
        printing.emit({"written": facts, "warnings": warnings, "next": following})
        return 0
    for path, new in written.items():
        printing.say(f"{'wrote' if new else 'there already:'} {path}")
    for warning in warnings:
        printing.say(f"warning: {warning}")
    printing.say("next:")
    for line in following:
        printing.say(f"  {line}")
    return 0


def _show(texts: dict[Path, str], warnings: list[str], *, as_json: bool) -> int:
    if as_json:
        printing.emit({"files": {str(p): t for p, t in texts.items()}, "warnings": warnings})
        return 0
    for path, text in texts.items():
        printing.say(f"# {path}\n{text}")
    for warning in warnings:
        printing.say(f"# warning: {warning}")
    return 0


def _state(*, user: bool) -> Path:
    return environment.state_folder() if user else Path(service_unit.STATE)


def _program() -> str:
    """How this program was called, as an absolute command line; links stay links."""
    called = Path(sys.argv[0])
    if called.name != "__main__.py":
        found = shutil.which(sys.argv[0]) or sys.argv[0]
        return str(Path(found).absolute())
    beside = Path(sys.executable).absolute().parent / "stepkeeper"
    return str(beside) if beside.exists() else f"{Path(sys.executable).absolute()} -m supervisor"


def _warnings(program: str) -> list[str]:
    """What would keep the unit's user, with a /tmp of its own, from the program."""
    path = Path(program.split(" ", maxsplit=1)[0])
    warnings = []
    if path.is_relative_to("/tmp") or path.is_relative_to("/var/tmp"):  # noqa: S108 - no file of ours
        warnings.append(f"{path} is not to be seen from the unit, which has a /tmp of its own")
    for folder in {*path.parents, *path.resolve().parents}:
        if not folder.stat().st_mode & stat.S_IXOTH:
            warnings.append(
                f"user stepkeeper cannot reach {path} through {folder}; a virtual environment "
                "under /opt can be reached"
            )
            break
    return warnings


def _following(*, user: bool, state: Path) -> list[str]:
    if user:
        return [
            "systemctl --user daemon-reload",
            "loginctl enable-linger    # so that it runs while you are logged out",
            f"stepkeeper init {state}/NAME --sources DIR    # or move a run there",
            "systemctl --user enable --now stepkeeper@NAME",
        ]
    return [
        "systemd-sysusers && systemd-tmpfiles --create stepkeeper.conf && systemctl daemon-reload",
        f"sudo -u stepkeeper stepkeeper init {state}/NAME --sources DIR    # or move a run there",
        "systemctl enable --now stepkeeper@NAME",
    ]
