"""Serve the operator's socket without ever blocking the loop."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from supervisor import clock
from supervisor.control.verbs import LIMIT, NAME, READING, BadRequestError, address, parse
from supervisor.errors import RefusedError

if TYPE_CHECKING:
    from supervisor.core.messages import Asked

PATIENCE: Final = 10.0  # seconds a client may take over its line, or over taking the answer
CLIENTS: Final = 32
_CREDENTIALS = struct.Struct("3i")


class Listener(NamedTuple):
    """A listening socket handed on, and the inode of its file."""

    descriptor: int
    inode: int


@dataclass(slots=True)
class _Client:
    """One connection: its request comes in, the core thinks, its answer goes out."""

    link: socket.socket
    serial: int
    uid: int
    pid: int
    since: float
    incoming: bytes = b""
    outgoing: bytes = b""
    asked: bool = False


class Server:
    """Listens on ``control.sock`` in the run directory; nothing a client does blocks the loop.

    One descriptor, ``fileno()``, turns readable when ``ready()`` has something to do; it stays
    the same when the socket is bound anew. Only the holder of the run lock may serve. Raises
    RefusedError where something that is not our socket stands under the name.
    """

    def __init__(self, run: Path, left: Listener | None = None) -> None:
        self._folder = os.open(run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._owner = os.fstat(self._folder).st_uid
        self._path = run / NAME
        self._events = select.epoll()
        self._clients: dict[int, _Client] = {}
        self._listener: socket.socket | None = None
        self._inode = 0
        self._serial = 0
        try:
            if left is None or not self._take_over(left):
                self._bind()
        except BaseException:
            self.close()
            raise

    @property
    def busy(self) -> bool:
        """Whether a client is in the middle of asking, waits for its answer, or takes it."""
        return bool(self._clients)

    def pause(self, *, paused: bool) -> None:
        """Accept no more connections, or again: they wait in the kernel meanwhile."""
        if self._listener is not None:
            self._events.modify(self._listener.fileno(), 0 if paused else select.EPOLLIN)

    def hand_over(self) -> Listener | None:
        """Give the listening socket away for the next life; ``close`` then leaves its file."""
        listener, self._listener = self._listener, None
        if listener is None:
            return None
        self._events.unregister(listener.fileno())
        return Listener(listener.detach(), self._inode)

    def fileno(self) -> int:
        """The one descriptor to wait on."""
        return self._events.fileno()

    def ready(self) -> list[Asked]:
        """Take in what clients have sent; the valid requests, to be answered by ``answer``.

        ``reply`` numbers the connection; ``fields`` are complete, with ``by`` telling who asked.
        Call it at least once a second too: it drops clients that are too slow.
        """
        asked: list[Asked] = []
        for descriptor, events in self._events.poll(0):
            if self._listener is not None and descriptor == self._listener.fileno():
                self._accept()
            elif descriptor in self._clients:
                asked += self._serve(self._clients[descriptor], events)
        late = clock.monotonic() - PATIENCE
        for client in list(self._clients.values()):
            thinking = client.asked and not client.outgoing
            if client.since < late and not thinking:
                self._drop(client)
        return asked

    def answer(self, reply: int, fields: dict[str, Any]) -> None:
        """Send the answer to a request; a client that has left is not an error."""
        # By number, since a descriptor may have come to be another client's in the meantime.
        for client in self._clients.values():
            if client.serial == reply and not client.outgoing:
                self._reply(client, fields)
                return

    def renew(self) -> bool:
        """Bind again where the socket's file has vanished; whether that was needed."""
        with contextlib.suppress(OSError):
            if os.stat(NAME, dir_fd=self._folder, follow_symlinks=False).st_ino == self._inode:
                return False
        self._bind()
        return True

    def close(self) -> None:
        """Drop every client and remove the socket, if it still is ours."""
        for client in list(self._clients.values()):
            self._drop(client)
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            with contextlib.suppress(OSError):
                facts = os.stat(NAME, dir_fd=self._folder, follow_symlinks=False)
                if facts.st_ino == self._inode:
                    os.unlink(NAME, dir_fd=self._folder)
        self._events.close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _bind(self) -> None:
        self._remove_stale()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listener.settimeout(0)
            # The mode of an unbound socket becomes that of its file, from its first moment on;
            # the umask, which every thread shares, need not be touched.
            os.fchmod(listener.fileno(), 0o600)
            listener.bind(address(self._folder))
            listener.listen(CLIENTS)
            self._inode = os.stat(NAME, dir_fd=self._folder, follow_symlinks=False).st_ino
            self._events.register(listener.fileno(), select.EPOLLIN)
        except OSError as error:
            listener.close()
            raise RefusedError(f"cannot listen on {self._path}: {error.strerror}") from None
        if self._listener is not None:
            self._listener.close()
        self._listener = listener

    def _take_over(self, left: Listener) -> bool:
        """Listen on where an earlier life in this process did, if the socket's file is still it."""
        try:
            fcntl.fcntl(left.descriptor, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
            facts = os.stat(NAME, dir_fd=self._folder, follow_symlinks=False)
            listener = socket.socket(fileno=left.descriptor)
        except OSError:
            return False
        listening = (
            listener.family == socket.AF_UNIX
            and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            and stat.S_ISSOCK(facts.st_mode)
            and facts.st_ino == left.inode
        )
        if not listening:
            listener.close()
            return False
        listener.settimeout(0)
        self._listener, self._inode = listener, left.inode
        self._events.register(listener.fileno(), select.EPOLLIN)
        return True

    def _remove_stale(self) -> None:
        try:
            facts = os.stat(NAME, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(facts.st_mode) or facts.st_uid not in (os.geteuid(), self._owner):
            raise RefusedError(
                f"cannot listen on {self._path}: what stands there is no socket of this run's "
                "owner; move it away"
            )
        os.unlink(NAME, dir_fd=self._folder)

    def _accept(self) -> None:
        if self._listener is None:
            return
        with contextlib.suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                if len(self._clients) >= CLIENTS:
                    link.close()
                    continue
                self._admit(link)

    def _admit(self, link: socket.socket) -> None:
        link.settimeout(0)
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _gid = _CREDENTIALS.unpack(credentials)
        self._serial += 1
        client = _Client(link, self._serial, uid, pid, clock.monotonic())
        self._clients[link.fileno()] = client
        self._events.register(link.fileno(), select.EPOLLIN)

    def _serve(self, client: _Client, events: int) -> Iterator[Asked]:
        if client.outgoing:
            self._send(client)
        elif not client.asked:
            yield from self._receive(client)
        elif events & (select.EPOLLHUP | select.EPOLLERR):
            self._drop(client)

    def _receive(self, client: _Client) -> Iterator[Asked]:
        # Imported here: a command that only asks shall not pay for the core's vocabulary.
        from supervisor.core.messages import Asked  # noqa: PLC0415 - import time, see above

        try:
            piece = client.link.recv(LIMIT + 1)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)
            return
        client.incoming += piece
        try:
            line = _line(client.incoming, ended=not piece)
            if line is None:
                return
            verb, fields = parse(line)
            self._authorize(verb, client)
        except BadRequestError as error:
            self._reply(client, {"error": str(error)})
            return
        client.asked = True
        client.incoming = b""
        # Only its going away is of interest now; that it may have sent its last is not.
        self._events.modify(client.link.fileno(), 0)
        yield Asked(client.serial, verb, {**fields, "by": f"uid {client.uid} pid {client.pid}"})

    def _authorize(self, verb: str, client: _Client) -> None:
        if verb not in READING and client.uid not in (0, self._owner):
            raise BadRequestError(
                f"cannot {verb}: uid {client.uid} is not the owner of this run, uid {self._owner}"
            )

    def _reply(self, client: _Client, fields: dict[str, Any]) -> None:
        client.outgoing = json.dumps(fields, allow_nan=False).encode("ascii") + b"\n"
        client.asked = True
        client.since = clock.monotonic()
        self._events.modify(client.link.fileno(), select.EPOLLOUT)
        self._send(client)

    def _send(self, client: _Client) -> None:
        try:
            sent = client.link.send(client.outgoing, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)
            return
        client.outgoing = client.outgoing[sent:]
        if not client.outgoing:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        del self._clients[client.link.fileno()]
        self._events.unregister(client.link.fileno())
        client.link.close()


def _line(data: bytes, *, ended: bool) -> bytes | None:
    """The request line in what has come so far; None where more may come."""
    line, newline, rest = data.partition(b"\n")
    if len(line) > LIMIT:
        raise BadRequestError(f"cannot read the request: it has more than {LIMIT} bytes")
    if rest:
        raise BadRequestError("cannot read the request: one line for each connection")
    if ended and not newline:
        raise BadRequestError("cannot read the request: it ends before its newline")
    return line if newline else None
