"""What cannot be read is an answer to whoever asked or started, never a fault and never a guess."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.config import load
from supervisor.control import request
from supervisor.daemon.recovery import recover
from supervisor.errors import RefusedError
from tests.support.daemon import Daemon
from tests.support.runs import make_run, scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def test_an_odd_policy_is_refused_and_the_run_goes_on(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=100), every=100).start()
    daemon.until_step(10)
    path = daemon.run.path

    def ask(**fields: object) -> str:
        return str(request(path, "pivot", fields, 5.0)["error"])

    assert ask(policy="a = " + "[" * 50_000).startswith("cannot read the new policy")
    assert ask(policy="# half a character: \ud800").startswith("cannot pivot")
    (path / "policies/0001.toml").rename(path / "policies/0001.kept")
    assert ask(reset=True).startswith("cannot pivot")
    (path / "policies/0001.kept").rename(path / "policies/0001.toml")
    daemon.until_step(daemon.run.last_step() + 20)
    assert daemon.stop() == 0


def test_a_source_that_cannot_be_looked_at_is_not_there(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripted(), arms=("a", "b"))
    config = load(run.path)
    shutil.rmtree(run.path / "sources/a")
    (run.path / "sources/a").symlink_to("n" * 300)  # longer than any name: not even a "no"
    assert config.live == {"b"}


@pytest.mark.parametrize(
    "name",
    ["pivot.json", "demo.samples.json", "policies/0001.toml"],
)
def test_a_record_that_cannot_be_used_refuses_the_start_in_one_line(
    supervise: Supervise, name: str
) -> None:
    daemon = supervise(scripted(steps=20, rate=900), every=20).start()
    assert daemon.wait() == 0
    path = daemon.run.path / name
    if name.startswith("policies"):
        path.unlink()  # policy.toml is no substitute for the policy that was in force
    else:
        path.write_bytes(b'{"a":' * 20_000)
    (daemon.run.path / "intent.json").write_bytes(b"[" * 20_000)  # no wish is known: to run
    with pytest.raises(RefusedError, match=r"^cannot ") as refused:
        recover(load(daemon.run.path))
    assert "\n" not in str(refused.value)
