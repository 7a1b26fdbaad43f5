"""Reloads and upgrades under a real systemd: one pid, one trainer, no moment without a stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.service import Service, within
from tests.support.systemd_machine import HOME

pytestmark = pytest.mark.system

Serve = Callable[..., Service]


def ready(serve: Serve) -> Service:
    """A service that trains."""
    service = serve(within(rate=50, every=100_000), every=100_000).start()
    service.until_step(10)
    return service


def program(service: Service) -> str:
    """The virtual environment that the supervisor runs in now."""
    return service.proc(service.main, "cmdline").read_text().split("/bin/")[0]


def other(service: Service) -> str:
    """Lead the link to the environment that the supervisor does not run in."""
    name = "venv-2" if program(service) == f"{HOME}/venv-1" else "venv-1"
    service.machine.call("ln", "-sfn", name, f"{HOME}/venv")
    return f"{HOME}/{name}"


def test_a_reload_brings_new_settings_if_they_hold_to_the_same_pid_and_trainer(
    serve: Serve,
) -> None:
    service = ready(serve)
    before = (service.main, service.trainer())
    settings = service.run.path / "run.toml"
    good = settings.read_text()
    settings.write_text(good + "nonsense = 1\n")
    service.machine.call("systemctl", "reload", service.unit)
    service.until(lambda: "cannot reload" in service.journal(), "the refusal")
    assert "took over in place of" not in service.journal()
    settings.write_text(good + "[restart]\nfirst = 0.7\n")
    service.machine.call("systemctl", "reload", service.unit)
    service.until(lambda: "took over in place of" in service.journal(), "the next life")
    service.until_more()
    service.until(lambda: service.show("ActiveState") == "active", "an active unit")
    assert (service.main, service.trainer()) == before
    assert service.show("NRestarts") == "0"
    service.stop()
    assert len(service.run.attempts()) == 1


def test_an_upgrade_is_another_environment_behind_the_link(serve: Serve) -> None:
    service = ready(serve)
    before = (service.main, service.trainer())
    new = other(service)
    service.machine.call("systemctl", "reload", service.unit)
    service.until(lambda: program(service) == new, "the new program")
    service.until(lambda: "took over in place of" in service.journal(), "the next life")
    service.until_more()
    assert (service.main, service.trainer()) == before
    service.stop()
    assert len(service.run.attempts()) == 1


@pytest.mark.parametrize("moment", ["asked", "checking", "becoming"])
def test_a_stop_in_the_middle_of_a_reload_is_not_lost(
    serve: Serve, moment: str, *, thorough: bool
) -> None:
    if moment == "checking" and not thorough:
        pytest.skip("--thorough runs it: between the other two moments")
    service = ready(serve)
    new = other(service)
    main = service.main
    service.signal("HUP", main)
    if moment == "checking":
        service.until(lambda: "checks the settings" in service.journal(), "the check")
    if moment == "becoming":
        line = service.proc(main, "cmdline")
        service.until(lambda: new in line.read_text(), "the new program, which has no handlers yet")
    service.stop()
    assert service.show("Result") == "success"
    assert len(service.run.attempts()) == 1
