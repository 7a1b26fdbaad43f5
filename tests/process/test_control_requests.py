"""What an operator may ask, and what is answered to anything else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from supervisor import control
from supervisor.control import LIMIT, request
from supervisor.control.server import Server
from supervisor.errors import UnknownError
from tests.process.serving import Loop, asking, connect, raw
from tests.support.runs import ROOT


def test_a_request_comes_with_every_field_and_with_who_asked(loop: Loop, tmp_path: Path) -> None:
    assert request(tmp_path, "save", {"pin": True}, 10) == {"verb": "save"}
    (asked,) = loop.asked
    assert asked.fields == {
        "align": "step",
        "then": "go",
        "pin": True,
        "note": "",
        "sample": False,
        "by": f"uid {os.getuid()} pid {os.getpid()}",
    }


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("status", {}),
        ("save", {"align": "cadence", "then": "go", "pin": False, "note": "before the change"}),
        ("stop", {"hold": True, "now": False}),
        ("release", {}),
        ("pivot", {"policy": {"floor": {"chat": 0.2}}, "when": "now", "reset": False}),
        ("pivot", {"policy": "unit = 'share'\n", "when": "boundary", "reset": False}),
        ("pivot", {"policy": None, "when": "boundary", "reset": True}),
        ("cancel-pivot", {}),
    ],
)
def test_every_verb_is_understood(
    loop: Loop, tmp_path: Path, verb: str, fields: dict[str, Any]
) -> None:
    assert request(tmp_path, verb, fields, 10) == {"verb": verb}
    assert loop.asked[0].verb == verb
    assert {key: loop.asked[0].fields[key] for key in fields} == fields


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"", "not strict JSON"),
        (b"stop", "not strict JSON"),
        (b"\xff\xfe", "not strict JSON"),
        (b"[" * 50_000, "not strict JSON"),
        (b'{"verb":"stop","verb":"save"}', "not strict JSON"),
        (b'{"verb":"pivot","policy":{"a":NaN}}', "not strict JSON"),
        (b"[]", "an object with a verb"),
        (b'{"verb":1}', "an object with a verb"),
        (b'{"verb":"exec"}', "cannot do 'exec': the verbs are status, save, stop"),
        (b'{"verb":"stop","hold":1}', "cannot stop: hold must be true or false"),
        (b'{"verb":"stop","why":1}', "cannot stop: unknown field 'why'; it takes hold, now"),
        (b'{"verb":"status","a":1}', "cannot status: unknown field 'a'; it takes none"),
        (b'{"verb":"save","then":"exit"}', "cannot save: then must be go"),
        (b'{"verb":"save","align":["step"]}', "cannot save: align must be step or cadence"),
        (b'{"verb":"save","note":"a\\u001b[2J"}', "cannot save: note must be printable"),
        (b'{"verb":"save","note":"' + b"x" * 1001 + b'"}', "cannot save: note must be printable"),
        (b'{"verb":"pivot"}', "cannot pivot: give a policy, or reset"),
        (b'{"verb":"pivot","policy":""}', "cannot pivot: policy must be"),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_what_is_not_as_agreed_is_answered_with_the_reason(
    loop: Loop, tmp_path: Path, line: bytes, error: str
) -> None:
    assert error in raw(tmp_path, line + b"\n")["error"]
    assert loop.asked == []


def test_a_line_that_is_too_long_is_refused_and_one_at_the_limit_is_not(
    loop: Loop, tmp_path: Path
) -> None:
    bare = len(json.dumps({"verb": "pivot", "policy": "", "reset": True}))
    answer = request(tmp_path, "pivot", {"policy": "x" * (LIMIT - bare), "reset": True}, 10)
    assert answer == {"verb": "pivot"}
    answer = request(tmp_path, "pivot", {"policy": "x" * (LIMIT - bare + 1), "reset": True}, 10)
    assert "more than 65536 bytes" in answer["error"]
    assert "more than 65536 bytes" in raw(tmp_path, b"x" * (4 * LIMIT))["error"]
    assert len(loop.asked) == 1


def test_a_line_that_breaks_off_is_answered_and_a_second_line_is_not_taken(
    loop: Loop, tmp_path: Path
) -> None:
    assert "ends before its newline" in raw(tmp_path, b'{"verb":"sto', shut=True)["error"]
    two = b'{"verb":"status"}\n{"verb":"stop"}\n'
    assert "one line for each connection" in raw(tmp_path, two)["error"]
    assert loop.asked == []


def test_a_client_that_has_said_all_it_has_to_say_still_gets_its_answer(
    loop: Loop, tmp_path: Path
) -> None:
    assert raw(tmp_path, b'{"verb":"status"}\n', shut=True) == {"verb": "status"}
    assert len(loop.asked) == 1


def test_a_line_in_pieces_is_put_together(server: Server, tmp_path: Path) -> None:
    with connect(tmp_path) as link:
        for piece in (b'{"ve', b'rb":"sta', b'tus"}'):
            link.send(piece)
            assert server.ready() == []
        link.send(b"\n")
        assert asking(server)[0].verb == "status"


def test_asking_where_nobody_answers_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnknownError, match=r"^cannot save .*: no supervisor answers"):
        request(tmp_path, "save", {}, 1)
    with pytest.raises(UnknownError, match="no supervisor answers"):
        request(tmp_path / "gone", "save", {}, 1)


def test_asking_one_that_does_not_answer_ends_in_time(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UnknownError, match=r"^cannot save .*: no answer within 0\.1 s"):
        request(tmp_path, "save", {}, 0.1)
    assert asking(server)[0].verb == "save"


def test_an_answer_that_breaks_off_is_told(server: Server, tmp_path: Path) -> None:
    def close() -> None:
        asking(server)
        server.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(UnknownError, match="broke off"):
        request(tmp_path, "save", {}, 10)
    thread.join(20)


def test_asking_loads_neither_pydantic_nor_the_core() -> None:
    """A command that only asks must be quick."""
    code = f"import sys, {control.__name__}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not {"pydantic", "pydantic_core", "filelock", "psutil", "watchdog"} & loaded
    assert "supervisor.core.messages" not in loaded
