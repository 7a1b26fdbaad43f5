"""A process around one POST of a hook, which can be ended whatever it waits for.

Certificates are verified, with the system's authorities or those of SSL_CERT_FILE. A redirect is
an answer like any other, and no proxy is used: who needs either has a command.
"""

from __future__ import annotations

import json
import signal
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from supervisor.process.hook_call import LATE, MOST


def main() -> None:
    """Answer on stdout: ``status`` and ``output`` of the receiver, or ``error``.

    Behind its ``timeout`` the process is ended by its own alarm: a name that is not resolved and
    an answer that comes byte by byte know no other limit.
    """
    request = json.load(sys.stdin)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.setitimer(signal.ITIMER_REAL, request["timeout"])
    sys.stdout.write(json.dumps(_post(request)) + "\n")
    sys.stdout.flush()


def _post(request: dict[str, Any]) -> dict[str, Any]:
    parts = urlsplit(request["url"])
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection = _connection(parts.scheme, parts.hostname or "", parts.port, request["timeout"])
        connection.request("POST", path, request["body"].encode("ascii"), request["headers"])
        response = connection.getresponse()
        text = response.read(MOST).decode("utf-8", "replace")
    except ssl.SSLCertVerificationError as error:
        return {"error": f"its certificate does not hold: {error.verify_message}"}
    except TimeoutError:
        return {"error": LATE}
    except (OSError, HTTPException, ValueError) as error:
        return {"error": " ".join((str(error) or type(error).__name__).split())[:200]}
    shown = "".join(c if c.isprintable() else " " for c in text)
    return {"status": response.status, "output": " ".join(shown.split())}


def _connection(scheme: str, host: str, port: int | None, seconds: float) -> HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return HTTPSConnection(host, port, timeout=seconds, context=context)
    return HTTPConnection(host, port, timeout=seconds)


if __name__ == "__main__":
    main()
