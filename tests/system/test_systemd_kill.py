"""The supervisor killed under a real systemd: the trainer goes on and is adopted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.service import Service, within

pytestmark = pytest.mark.system

Serve = Callable[..., Service]


def kill_main(service: Service) -> int:
    """SIGKILL to the supervisor; the pid of the next one, once it says READY."""
    before = service.main
    service.signal("KILL", before)
    service.until(lambda: service.main not in (0, before), "the next supervisor")
    service.until(lambda: service.show("ActiveState") == "active", "an active unit")
    return service.main


def test_kills_in_quick_succession_do_not_reach_a_limit_of_starts(serve: Serve) -> None:
    """Each at whatever it is doing then; systemd's own limit is five starts in ten seconds."""
    service = serve(within(rate=50, every=100_000), every=100_000).start()
    service.until_step(10)
    trainer = service.trainer()
    for _ in range(8):
        before = service.main
        service.signal("KILL", before)
        service.until(lambda before=before: service.main not in (0, before), "the next one")
    service.until(lambda: service.show("ActiveState") == "active", "an active unit")
    service.until_more(20)
    assert service.trainer() == trainer
    service.stop()
    assert len(service.run.attempts()) == 1


@pytest.mark.timeout(180)
def test_a_supervisor_killed_again_and_again_costs_no_step(serve: Serve, *, thorough: bool) -> None:
    """And the trainer's world stays as it was, and is that of whoever adopts it."""
    service = serve(within(rate=50, every=200), every=200).start()
    service.until_step(10)
    trainer = service.trainer()
    times = 20 if thorough else 3
    for number in range(times):
        main = kill_main(service)
        for folder in ("/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108 - the trainer's own
            service.enter(trainer, "touch", f"{folder}/still-{number}")
            service.enter(main, "ls", f"{folder}/still-{number}")
        assert service.trainer() == trainer
    assert int(service.show("NRestarts")) == times
    service.until_more(20)
    service.stop()
    assert len(service.run.attempts()) == 1


def test_a_supervisor_that_stands_still_is_replaced_by_the_watchdog(serve: Serve) -> None:
    service = serve(within(rate=50, every=100_000), every=100_000)
    service.drop_in("WatchdogSec=1s")
    service.start()
    service.until_step(10)
    trainer, main = service.trainer(), service.main
    service.signal("STOP", main)
    service.until(lambda: service.main not in (0, main), "the next supervisor")
    assert "Watchdog timeout" in service.journal()
    service.until_more()
    assert service.trainer() == trainer
    service.stop()


def test_a_save_by_systemctl_kill_spares_the_data_workers(serve: Serve) -> None:
    """Of the main process alone, and of all: then they get the signal too, and ignore it."""
    service = serve(within(rate=50, every=100_000, workers=2), every=100_000).start()
    service.until_step(10)
    before = service.pids()
    assert len(before) == 3
    for number, whom in enumerate(("main", "all"), 1):
        service.machine.call("systemctl", "kill", f"--kill-whom={whom}", "-s", "USR1", service.unit)
        service.until(lambda number=number: len(service.run.seals()) >= number, "a seal")
        service.until_more(10)
        assert service.pids() == before
    assert {seal["reason"] for seal in service.run.seals().values()} == {"signal"}
    service.stop()  # and of the workers, which ignore SIGTERM, nothing is left either


def test_a_unit_too_tight_for_the_saves_is_warned_of(serve: Serve) -> None:
    service = serve(within(rate=50, every=20, slow_save=0.5), every=20)
    service.drop_in("TimeoutStopSec=1s\nKillMode=mixed\nPrivateTmp=yes")
    service.start()
    service.until(service.run.seals, "a measured save")
    said = ("TimeoutStopSec=1 of", "a save took 0.", "KillMode=mixed of", "PrivateTmp=yes of")
    for words in said:
        service.until(lambda words=words: words in service.journal(), words)


def test_a_unit_as_it_comes_is_not_warned_of(serve: Serve) -> None:
    service = serve(within(rate=50, every=20), every=20).start()
    service.until(service.run.seals, "a seal")
    service.until(lambda: "sealed" in service.show("StatusText"), "the loop's next round")
    assert "ALARM" not in service.journal()
    service.stop()
