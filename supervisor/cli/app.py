"""Build the one command that is asked for, run it, and turn whatever happens into an exit code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

import supervisor
from supervisor import environment
from supervisor.cli import printing
from supervisor.cli.registry import COMMANDS
from supervisor.errors import StepkeeperError

UNKNOWN = 2
# Older typers take the class of usage errors from click, newer ones bring it along.
_WrongUse: Any = typer.BadParameter.__base__


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    word = arguments[0] if arguments else "--help"
    if not word.startswith("-") and word not in COMMANDS:
        printing.complain(f"cannot do {word!r}: the commands are {', '.join(COMMANDS)}")
        return UNKNOWN
    try:
        result = _build(word)(arguments or ["--help"], "stepkeeper", standalone_mode=False)
    except _WrongUse as error:
        path = error.ctx.command_path if error.ctx else "stepkeeper"
        text = " ".join(error.format_message().split()).rstrip(".")
        printing.complain(f"cannot run {path}: {text}; see {path} --help")
        return UNKNOWN
    except (typer.Abort, BrokenPipeError):
        printing.silence()
        return UNKNOWN
    if not arguments:
        return UNKNOWN
    return result if isinstance(result, int) else 0


def _build(word: str) -> Any:  # noqa: ANN401 - a command of whichever click typer brings along
    """The program with the command asked for, or with all of them where help is."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    # The list of commands is shown from the registry alone; nothing of them is imported.
    for name, command in COMMANDS.items():
        known = _guarded(name, command.load()) if name == word else _listed
        app.command(name, help=command.help)(known)
    return typer.main.get_command(app)


def _listed() -> int:
    """What stands for a command in the list of all."""
    return UNKNOWN


def _show_version(asked: bool) -> None:  # noqa: FBT001 - the form of a typer callback
    if asked:
        printing.say(f"stepkeeper {supervisor.__version__}")
        raise typer.Exit


def _root(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Keep a long training run: never lose a step, change the data policy in mid-run."""


def _guarded(name: str, function: Callable[..., int]) -> Callable[..., int]:
    """The same command, whose failures are one line on stderr and an exit code."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - whatever typer parsed
        try:
            result = function(*args, **kwargs)
            sys.stdout.flush()
        except StepkeeperError as error:
            printing.complain(error)
            # What systemd must not start again is the business of ``run`` alone.
            return error.exit_code if name == "run" or error.exit_code <= UNKNOWN else 1
        except KeyboardInterrupt:
            printing.complain(f"cannot finish {name}: interrupted")
            return UNKNOWN
        except BrokenPipeError:
            printing.silence()
            return UNKNOWN
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            printing.complain(f"cannot finish {name}: {where}{error.strerror or error}")
            return UNKNOWN
        except Exception as error:  # noqa: BLE001 - a fault of ours is no reason for a traceback
            if environment.traceback_wanted():
                sys.excepthook(type(error), error, error.__traceback__)
            printing.complain(
                f"cannot finish {name}: a fault in stepkeeper itself, {type(error).__name__}: "
                f"{error}; STEPKEEPER_TRACEBACK=1 shows where"
            )
            return UNKNOWN
        return result

    return guarded
