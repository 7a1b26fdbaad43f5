"""``[hooks.NAME]`` of ``run.toml``: what is called when the journal gets a line, and for which."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, model_validator

from supervisor import environment
from supervisor.config.parsing import Section
from supervisor.core.alarms import is_alarm

ALL, ALARM = "*", "alarm"

HookName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
_EventName = Annotated[str, StringConstraints(pattern=r"^(\*|[a-z][a-z0-9-]{0,63})$")]
_VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_LONGEST_URL: Final = 2000


class HookSettings(Section):
    """``[hooks.NAME]``: a ``command`` or a ``url``, and the ``events`` for which it is called."""

    events: tuple[_EventName, ...] = Field(min_length=1, strict=False)
    command: tuple[str, ...] | None = Field(default=None, min_length=1, strict=False)
    url: str | None = Field(default=None, max_length=_LONGEST_URL)
    secret_file: str | None = Field(default=None, min_length=1)
    timeout: float = Field(default=10.0, gt=0, le=600)
    tries: int = Field(default=4, ge=1, le=10)  # of a url; a command is started once
    env: dict[_VariableName, str] = Field(default_factory=dict)
    pass_env: tuple[_VariableName, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _is_one_of_two(self) -> HookSettings:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command or a url")
        if self.command is not None and self.secret_file is not None:
            raise ValueError("secret_file is for a url: a command is given no secret")
        if self.url is not None and (self.env or self.pass_env):
            raise ValueError("env and pass_env are for a command")
        if self.url is not None and self.secret_file is None:
            raise ValueError("a url needs a secret_file, with which its requests are signed")
        if self.url is not None:
            _check_url(self.url)
        return self


def _check_url(url: str) -> None:
    """Raise ValueError for one that cannot be posted to, or that would show a password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"url: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("url must be http://HOST/... or https://HOST/...")
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise ValueError("url must be printable ASCII without spaces: percent-encode the rest")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url must hold no user or password: settings are kept and shown")


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook, ready to be called: ``command`` or, where that is empty, ``url``.

    ``env`` is the command's whole environment. ``timeout`` is in seconds: of a command's life,
    and of each of the ``tries`` of a url.
    """

    name: str
    events: frozenset[str]
    command: tuple[str, ...] = ()
    url: str = ""
    secret_file: Path | None = None
    timeout: float = 10.0
    tries: int = 1
    env: Mapping[str, str] | None = None

    def is_for(self, event: str, facts: Mapping[str, object]) -> bool:
        """Whether it is called for a line of the journal."""
        named = ALL in self.events or event in self.events
        return named or (ALARM in self.events and is_alarm(event, facts))


def hooks_of(settings: Mapping[str, HookSettings], run: Path) -> tuple[Hook, ...]:
    """The hooks of a run, ``{python}`` and ``{run}`` replaced in their commands."""
    words = {"{python}": sys.executable, "{run}": str(run)}
    return tuple(
        Hook(
            name=name,
            events=frozenset(one.events),
            command=tuple(words.get(word, word) for word in one.command or ()),
            url=one.url or "",
            secret_file=None if one.secret_file is None else run / one.secret_file,
            timeout=one.timeout,
            tries=one.tries if one.url else 1,
            env={**environment.for_hook(one.pass_env), **one.env},
        )
        for name, one in settings.items()
    )
