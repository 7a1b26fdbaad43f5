"""A headless Chromium, driven over a pipe by its own protocol: no port, no profile, no driver."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# The browser reads commands from descriptor 3 and writes answers to 4.
_PIPED = (
    "import fcntl, os, sys; pipes = [fcntl.fcntl(int(n), fcntl.F_DUPFD, 9) for n in sys.argv[1:3]];"
    "os.dup2(pipes[0], 3); os.dup2(pipes[1], 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_INSTALL = (
    ("apt-get", "update", "-qq"),
    ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"),
)


def find(seconds: float) -> tuple[str, str]:
    """The path of a browser, installed where that can be done; else empty, and why there is none.

    ``seconds`` bound an installation.
    """
    if found := _there():
        return found, ""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return "", f"none of {', '.join(NAMES)} is on the path, and it cannot be installed here"
    with contextlib.suppress(Timeout), FileLock(_lock(), timeout=seconds):
        if not (found := _there()):
            _install(seconds)
    found = _there()
    return found, "" if found else "apt-get could not install chromium"


def _there() -> str:
    return next((path for name in NAMES if (path := shutil.which(name))), "")


def _lock() -> Path:
    return Path(tempfile.gettempdir()) / "stepkeeper-tests-chromium.lock"


def _install(seconds: float) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}  # noqa: TID251 - as apt asks for
    for command in _INSTALL:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command,
                capture_output=True,
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
                timeout=seconds / 2,
            )


class Browser:
    """One browser with one page; a context that leaves no process behind.

    ``complaints`` are what pages logged or threw, ``requests`` every address but the page's own.
    """

    def __init__(self, program: str, profile: Path) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._profile = profile
        self._program = program
        self._rest = b""
        self._serial = 0
        self._session = ""
        self._loaded = False

    def __enter__(self) -> Self:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [self._program, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PIPED, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        made = self.call("Target.createTarget", url="about:blank")
        attached = self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._session = ""
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self.call("Browser.close", seconds=5)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def open(self, page: Path, width: int, height: int = 900, scheme: str = "light") -> None:
        """Show a file at a width in CSS pixels, and wait until it is loaded."""
        self.complaints.clear()
        self.requests.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme_feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[scheme_feature])
        self._loaded = False
        self.call("Page.navigate", url=page.as_uri())
        self._until(lambda: self._loaded, 20)

    def value(self, script: str) -> Any:  # noqa: ANN401 - whatever the script gives
        """The value of a script's expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"the page refused {script!r}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, path: Path, *, whole: bool = True) -> bytes:
        """Take a picture of the page into a file; its bytes."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        data = base64.b64decode(found["data"])
        path.write_bytes(data)
        return data

    def call(self, method: str, seconds: float = 20, **parameters: object) -> dict[str, Any]:
        """One command and its answer. Raises RuntimeError, TimeoutError."""
        self._serial += 1
        message = {"id": self._serial, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answers: list[dict[str, Any]] = []
        self._until(lambda: bool(answers), seconds, answers)
        if "error" in answers[0]:
            raise RuntimeError(f"{method}: {answers[0]['error']}")
        result: dict[str, Any] = answers[0]["result"]
        return result

    def _until(
        self,
        done: Callable[[], bool],
        seconds: float,
        answers: list[dict[str, Any]] | None = None,
    ) -> None:
        deadline = time.monotonic() + seconds  # noqa: TID251 - a deadline of the test's own
        while not done():
            left = deadline - time.monotonic()  # noqa: TID251 - the same
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError(f"the browser was silent for {seconds} s")
            data = os.read(self._read, 1 << 16)
            if not data:
                raise RuntimeError("the browser is gone")
            *whole, self._rest = (self._rest + data).split(b"\0")
            for message in map(json.loads, whole):
                if "id" in message:
                    if answers is not None and message["id"] == self._serial:
                        answers.append(message)
                else:
                    self._hear(message["method"], message["params"])

    def _hear(self, event: str, told: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(str(told["args"]))
        elif event == "Log.entryAdded":
            self.complaints.append(str(told["entry"]["text"]))
        elif event == "Network.requestWillBeSent" and told.get("type") != "Document":
            self.requests.append(str(told["request"]["url"]))
