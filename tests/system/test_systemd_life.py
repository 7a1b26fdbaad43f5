"""A run's whole life under a real systemd: its ends, a reboot, too little memory, an upgrade."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.service import PYTHON, Service, install, within
from tests.support.systemd_machine import booted, missing

pytestmark = pytest.mark.system

Serve = Callable[..., Service]


def test_a_finished_run_leaves_an_inactive_unit(serve: Serve) -> None:
    service = serve(within(rate=200, steps=50)).start()
    service.until(lambda: service.show("ActiveState") == "inactive", "the end")
    assert service.show("Result") == "success"
    assert service.run.last_step() == 50
    service.check_stopped()


def test_a_run_without_progress_fails_its_unit_and_is_not_started_again(serve: Serve) -> None:
    restart = "[restart]\nfirst = 0.05\nmost = 0.05\ngive_up_after = 0.5\n"
    service = serve(within(rate=200, exit_at=5), settings=restart)
    service.machine.call("systemctl", "start", "--no-block", service.unit)
    service.until(lambda: service.show("ActiveState") == "failed", "a failed unit")
    assert service.show("ExecMainStatus") == "10"
    assert service.show("NRestarts") == "0"
    assert service.pids() == []


def test_an_enabled_run_trains_on_after_a_reboot(serve: Serve) -> None:
    service = serve(within(rate=50, every=100_000), every=100_000).start()
    service.machine.call("systemctl", "enable", service.unit)
    service.until_step(10)
    service.machine.halt()
    last = service.run.last_step()
    assert last in service.run.seals()
    assert (service.run.read("intent.json") or {})["done"]
    service.machine.boot("multi-user.target")
    service.until_step(last + 20)
    assert service.show("ActiveState") == "active"
    service.stop()
    first, second = service.run.attempts()
    assert first["ended"]["cause"] == "stopped"
    assert second["resume"]["step"] == last
    service.machine.call("systemctl", "disable", service.unit)


def test_an_enabled_run_trains_on_after_its_machine_died(serve: Serve) -> None:
    service = serve(within(rate=50, every=20), every=20).start()
    service.machine.call("systemctl", "enable", service.unit)
    service.until(service.run.seals, "a seal")
    service.machine.cut()
    last = service.run.last_step()
    service.machine.boot("multi-user.target")
    service.until_step(last + 20)
    service.stop()
    first, second = service.run.attempts()
    assert first["ended"]["cause"] == "ended, cause unknown"
    assert second["resume"]["step"] in service.run.seals()
    service.machine.call("systemctl", "disable", service.unit)


@pytest.mark.torch
def test_the_real_trainer_lives_in_the_units_sandbox_and_is_adopted(serve: Serve) -> None:
    model = "[model]\nvocabulary = 256\nwidth = 32\nheads = 2\nlayers = 1\ncontext = 32\n"
    settings = f"{model}[train]\nsteps = 100000\nbatch = 4\nthreads = 1\n"
    service = serve([PYTHON, "-m", "trainer"], every=1000, settings=settings).start()
    service.until_step(10)
    trainer, main = service.trainer(), service.main
    service.signal("KILL", main)
    service.until(lambda: service.main not in (0, main), "the next supervisor")
    service.until_more()
    assert service.trainer() == trainer
    service.stop()
    assert len(service.run.attempts()) == 1


def test_a_trainer_out_of_memory_is_named_so_and_started_again(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(f"CANNOT BOOT A SYSTEMD HERE: {why}")
    with booted(tmp_path / "machine", memory=True) as machine:
        if not machine.limits_memory():
            pytest.skip("CANNOT LIMIT MEMORY HERE: the controller is in no hierarchy of ours")
        install(machine)
        trainer = within(rate=100, every=20, eat_at=50, attempts=1)
        service = Service(machine, "hungry", trainer, every=20)
        service.drop_in("MemoryMax=256M\nMemorySwapMax=0")
        service.start()
        main = service.main
        service.until(lambda: len(service.run.attempts()) == 2, "the second attempt")
        service.until_step(80)
        assert service.run.attempts()[0]["ended"]["cause"] == "out of memory"
        assert service.main == main
        assert service.show("ActiveState") == "active"
        service.stop()
        assert service.show("Result") == "success"
