"""The unit under a real systemd: ready, stopped, killed, adopted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.service import Service, within
from tests.support.systemd_machine import Machine

pytestmark = pytest.mark.system

Serve = Callable[..., Service]
UNIT = "/etc/systemd/system/stepkeeper@.service"


def test_systemd_finds_nothing_to_warn_of_in_the_unit(machine: Machine) -> None:
    done = machine.call("systemd-analyze", "verify", "stepkeeper@some-run.service")
    assert done.stdout + done.stderr == ""


def test_the_units_exposure_is_small(machine: Machine) -> None:
    words = ("systemd-analyze", "security", "--offline=true", "--threshold=22", "--no-pager", UNIT)
    machine.call(*words)


def test_the_units_kill_mode_and_limits_are_as_promised(machine: Machine) -> None:
    names = {
        "KillMode": "process",
        "NotifyAccess": "exec",
        "OOMPolicy": "continue",
        "StartLimitIntervalUSec": "0",
        "PrivateTmp": "no",
        "RemoveIPC": "no",
        "DynamicUser": "no",
        "PrivateUsers": "no",
        "ProcSubset": "all",
        "RestartPreventExitStatus": "2 10 11 12",
    }
    shown = machine.call("systemctl", "show", "stepkeeper@x.service").stdout.splitlines()
    facts = dict(line.split("=", 1) for line in shown if "=" in line)
    assert {name: facts[name] for name in names} == names


def test_a_start_is_ready_with_its_trainer_and_a_stop_seals_the_last_step(serve: Serve) -> None:
    service = serve(within(rate=200)).start()
    assert service.show("ActiveState") == "active"
    assert service.trainer()
    service.until_step(20)
    service.until(lambda: "steps/s" in service.show("StatusText"), "a status line")
    service.until_step(100)
    service.stop()
    assert service.show("Result") == "success"
    assert service.show("ActiveState") == "inactive"


def test_the_trainer_is_offered_to_the_oom_killer_before_its_supervisor(serve: Serve) -> None:
    service = serve(within(rate=200)).start()
    assert service.show("OOMScoreAdjust") == "-500"
    # Without this capability (as in some containers) systemd leaves the score alone.
    capable = int(service.machine.capabilities(), 16) >> 24 & 1
    supervisor = int(service.proc(service.main, "oom_score_adj").read_text())
    assert supervisor == (-500 if capable else 0)
    assert service.proc(service.trainer(), "oom_score_adj").read_text() == "300\n"
