"""A receiver of webhooks in a thread: notes what it gets, answers as it is told, and is ended."""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

SECRET = b"0123456789abcdef-of-this-test"
PATIENCE = 30.0  # seconds: how long a held request waits to be let go


class Got(NamedTuple):
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """The body as JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    def is_signed_with(self, secret: bytes) -> bool:
        """Whether whoever has this secret sent this body at the time that the headers tell."""
        signed = f"{self.headers['stepkeeper-timestamp']}.".encode() + self.body
        expected = hmac.new(secret, signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(f"sha256={expected}", self.headers["stepkeeper-signature"])


class Receiver:
    """Listens while entered. ``answers`` are statuses for the first requests; then 204.

    While ``held`` is set requests are noted and not answered. With a ``certificate`` and its key in
    one file it speaks TLS.
    """

    def __init__(self, *answers: int, certificate: Path | None = None) -> None:
        self.answers = list(answers)
        self.got: list[Got] = []
        self.held = threading.Event()
        self.let_go = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._scheme = "http"
        if certificate is not None:
            self._scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.handle_error = self._is_quiet  # type: ignore[method-assign] # nobody reads it
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def _is_quiet(self, *_: object) -> None:
        """A client that breaks off a handshake is what some tests are about."""

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}/events?of=run"

    def events(self) -> list[str]:
        """The names of the events that came, in order."""
        return [got.event["event"] for got in self.got]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def _handler(receiver) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - self is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.append(Got(self.path, headers, body))
                if receiver.held.is_set():
                    receiver.let_go.wait(PATIENCE)
                    return
                status = receiver.answers.pop(0) if receiver.answers else 204
                self.send_response(status)
                if status in (301, 302, 307, 308):
                    self.send_header("Location", receiver.url)
                self.send_header("Content-Length", "0" if status == 204 else "5")
                self.end_headers()
                if status != 204:
                    self.wfile.write(b"hello")

            def log_message(self, *_: object) -> None:
                """Nothing: what came is in ``got``."""

        return Handler
