"""A pivot whose pin lies behind what the trainer had reached: those steps run anew, as meant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.daemon import Daemon, end_all
from tests.support.runs import scripted

pytestmark = pytest.mark.system


@pytest.mark.parametrize("killed_before_its_first_line", [False, True])
def test_steps_behind_the_pin_run_anew_and_are_no_unequal_replay(
    supervise: Callable[..., Daemon], *, killed_before_its_first_line: bool
) -> None:
    daemon = supervise(scripted(every=9000, rate=200), every=9000).start()
    daemon.until_step(30)
    assert daemon.cli("save", "{run}").returncode == 0
    daemon.until_step(max(daemon.run.seals()) + 40)
    daemon.kill()
    end_all(daemon.run)
    reached = daemon.run.last_step()
    policy = daemon.run.path.parent / "new.toml"
    policy.write_text(
        (daemon.run.path / "policy.toml").read_text().replace("cap = 1.0", "cap = 0.8")
    )
    asked = daemon.cli("pivot", "{run}", "--policy", str(policy), "--no-wait")
    assert asked.returncode == 0, asked.stderr
    daemon.start()
    if killed_before_its_first_line:
        daemon.until((daemon.run.path / "policies/0002.toml").exists, "the policy")
        daemon.kill()
        end_all(daemon.run)
        daemon.start()
    daemon.until(lambda: daemon.run.events("pivot-done"), "the pivot's end")
    daemon.until_step(reached + 20)
    assert daemon.stop() == 0
    assert not daemon.run.events("replay-differed")
    assert "not equal" not in daemon.output()
    stands = {line["step"]: line["policy"] for line in daemon.run.ledger()}
    pin = daemon.run.events("pivot-stopped")[0]["facts"]["pin"]
    assert pin < reached
    assert {policy for step, policy in stands.items() if step > pin} == {2}
    audit = daemon.cli("audit", "{run}")
    assert audit.returncode == 0, audit.stdout
