"""Stops under a real systemd, at every moment: no trainer is left, the last step is sealed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.service import Service, within

pytestmark = pytest.mark.system

Serve = Callable[..., Service]
STEADY = within(rate=50, every=100_000)


def test_a_stop_during_a_step_seals_that_step_and_a_restart_goes_on_from_it(serve: Serve) -> None:
    service = serve(STEADY, every=100_000).start()
    service.until_step(10)
    before = service.trainer()
    service.machine.call("systemctl", "restart", service.unit)
    service.until(lambda: service.trainer() not in (0, before), "another trainer")
    service.until_more(10)
    service.stop()
    assert service.show("Result") == "success"
    assert service.show("ActiveState") == "inactive"
    first, second = service.run.attempts()
    assert second["resume"]["step"] == first["ended"]["last_step"]


def test_a_stop_longer_than_its_timeout_and_its_watchdog_is_waited_for(serve: Serve) -> None:
    """The save takes longer than both, and the stop comes in the middle of one."""
    service = serve(within(rate=50, every=60, slow_save=3.0), every=60)
    service.drop_in("WatchdogSec=1s\nTimeoutStopSec=1500ms")
    service.start()
    service.until(lambda: _saving(service), "a save under way")
    service.stop()
    assert service.show("Result") == "success"
    assert len(service.run.attempts()) == 1
    assert max(service.run.seals()) > 60 or service.run.last_step() == 60


def _saving(service: Service) -> bool:
    return any(line["what"] == "save" for line in service.run.reports(1, "doing"))


def test_a_stop_before_the_handlers_are_in_loses_nothing(serve: Serve) -> None:
    service = serve(within(rate=50, ready_after=60.0)).start()
    assert service.trainer()
    service.machine.call("systemctl", "stop", service.unit)
    assert service.pids() == []
    assert service.run.last_step() == 0
    assert service.show("Result") == "success"


def test_a_stop_while_the_next_supervisor_only_begins_ends_the_trainer(serve: Serve) -> None:
    """It has no handlers yet and dies of the signal: what is left is ended after it."""
    service = serve(STEADY, every=100_000).start()
    service.until_step(10)
    before = service.main
    service.signal("KILL", before)
    service.until(lambda: service.main not in (0, before), "the next supervisor")
    service.stop()
    assert len(service.run.attempts()) == 1


def test_a_stop_in_the_gap_before_a_restart_is_the_commands_job(serve: Serve) -> None:
    service = serve(STEADY, every=100_000)
    service.drop_in("RestartSec=1h")
    service.start()
    service.until_step(10)
    trainer = service.trainer()
    service.signal("KILL", service.main)
    service.until(lambda: service.show("SubState") == "auto-restart", "the gap")
    service.machine.call("systemctl", "stop", service.unit)
    assert service.show("ActiveState") in ("inactive", "failed")
    assert service.trainer() == trainer
    said = service.machine.call("stepkeeper", "status", service.name, check=False)
    assert "trainer alive, no supervisor" in said.stdout + said.stderr
    service.machine.call("stepkeeper", "stop", service.name)
    service.check_stopped()
    # Root asked, and still no file has come to be root's.
    assert (service.run.read("intent.json") or {})["by"].startswith("uid 0 ")
    owner = service.run.path.stat().st_uid
    assert {path.stat().st_uid for path in service.run.path.rglob("*")} == {owner}
    last = service.run.last_step()
    service.start().until_step(last + 10)
    service.stop()


def test_a_stop_of_a_failed_unit_is_the_commands_job(serve: Serve) -> None:
    service = serve(STEADY, every=100_000).start()
    service.until_step(10)
    trainer = service.trainer()
    policies = service.run.path / "policies"
    policies.rename(service.run.path / "elsewhere")
    service.signal("KILL", service.main)
    service.until(lambda: service.show("ActiveState") == "failed", "a failed unit")
    assert service.show("ExecMainStatus") == "11"
    assert service.trainer() == trainer
    (service.run.path / "elsewhere").rename(policies)
    service.machine.call("stepkeeper", "stop", service.name, user="stepkeeper")
    service.check_stopped()


def test_a_stop_that_times_out_still_ends_the_trainer_with_a_seal(serve: Serve) -> None:
    """The supervisor is held by a debugger: it never sees the signal, and is killed at the end.

    Ending the trainer then takes longer than the timeout, and more time is asked for.
    """
    service = serve(within(rate=50, every=100_000, slow_save=3.0), every=100_000)
    service.drop_in("TimeoutStopSec=2s\nWatchdogSec=1h")
    service.start()
    service.until_step(10)
    with service.held_still(service.main):
        service.machine.call("systemctl", "stop", service.unit)
    assert service.show("Result") == "timeout"
    assert (service.run.read("intent.json") or {}).get("want") == "stop"
    service.check_stopped()


def test_a_stop_by_the_command_ends_the_unit_well(serve: Serve) -> None:
    service = serve(STEADY, every=100_000).start()
    service.until_step(10)
    service.machine.call("stepkeeper", "stop", "--hold", service.name, user="stepkeeper")
    service.check_stopped()
    service.until(lambda: service.show("ActiveState") == "inactive", "an inactive unit")
    assert service.show("Result") == "success"
    service.start()
    service.until(lambda: "held by stop --hold" in service.journal(), "the reason")
    service.until(lambda: service.show("ActiveState") == "inactive", "an inactive unit")
    assert service.show("Result") == "success"
    assert len(service.run.attempts()) == 1
