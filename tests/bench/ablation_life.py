"""One life of the ablation: a run of the demo preset under one policy, kept by the supervisor.

Its folder is named by everything that it depends on but the code. An interrupted life is stopped
with a sealed checkpoint and goes on from it, so that both ways it takes the same steps.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from supervisor.config.policy_file import POLICY_SCHEMA
from tests.bench.ablation_replay import decides_alike
from tests.support.daemon import PROGRAM, Daemon
from tests.support.runs import ROOT, Run
from trainer.contract.durable import replace_file

STATIC = "static"
FLOOR = 0.05
CAP = 0.5
SMALL_CAP = 0.2
SMALL = 500_000  # bytes of an arm below which a careful operator caps it
NICE = 10
LOOKS = 6  # evaluations over a life

Facts = dict[str, Any]


class Terms(NamedTuple):
    """What all lives of a table have in common: steps, sequences a step, bytes by arm."""

    steps: int
    batch: int
    arms: dict[str, int]
    texts: str  # a digest of what the arms hold

    @property
    def every(self) -> int:
        """Steps between two evaluations; the last step has one."""
        return max(1, self.steps // LOOKS)


def terms(steps: int, batch: int, arms: dict[str, Facts]) -> Terms:
    """Whole evaluations only: of ``steps`` those that are over after the last one are left out."""
    whole = steps - steps % max(1, steps // LOOKS)
    texts = hashlib.sha256("".join(facts["sha256"] for facts in arms.values()).encode())
    return Terms(whole, batch, {a: f["bytes"] for a, f in arms.items()}, texts.hexdigest())


class Life:
    """A run directory under ``folder``, made when it is first begun."""

    def __init__(self, folder: Path, policy: str, seed: int, terms: Terms) -> None:
        self.policy = policy
        self.seed = seed
        self.terms = terms
        parts = run_settings(seed, terms), policy_rules(policy, terms), terms.texts
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
        self.run = Run(folder / f"{policy}-seed{seed}-{key}")
        self.daemon = Daemon(self.run, ("nice", "-n", str(NICE), *PROGRAM))

    @property
    def record(self) -> Path:
        """Written when the life is over; what it says is all that a table needs."""
        return self.run.path / "life.json"

    @property
    def name(self) -> str:
        """As a table names it where it is missing."""
        return f"{self.policy}, seed {self.seed}"

    def steps(self) -> int:
        """Steps done."""
        return self.terms.steps if self.record.exists() else self.run.last_step()

    def good(self) -> bool:
        """Whether it is over, and the present code would decide its mixes as they were."""
        return self.record.exists() and decides_alike(self.run.path)

    def forget(self) -> None:
        """Remove its folder, so that it is begun anew."""
        shutil.rmtree(self.run.path)

    def prepare(self) -> None:
        """Its folder, where there is none yet."""
        if self.run.path.exists():
            return
        rules = policy_rules(self.policy, self.terms)
        self.run.path.mkdir(parents=True)
        (self.run.path / "policy.toml").write_text(f'schema = "{POLICY_SCHEMA}"\n{rules}')
        (self.run.path / "run.toml").write_text(head() + run_settings(self.seed, self.terms))

    def begin(self) -> None:
        """Start the supervisor, for the first time or to go on."""
        self.prepare()
        self.daemon.start()

    def over(self) -> bool:
        """Whether it has ended; then its record is there. Raises ValueError where it is not good.

        The supervisor ends by itself when the last step is sealed.
        """
        process = self.daemon.process
        if process is None or process.poll() is None:
            return False
        self.daemon.finish()  # of what it may have left
        self.daemon.process = None
        if process.returncode != 0 or self.run.last_step() != self.terms.steps:
            raise ValueError(
                f"cannot use {self.name}: its supervisor ended with {process.returncode} after "
                f"step {self.run.last_step()}: see {self.daemon.logs()[-1]}"
            )
        facts = {"commit": commit(), **read(self.run, self.terms)}
        replace_file(self.record, json.dumps(facts).encode() + b"\n")
        return True

    def finish(self) -> None:
        """End everything of this life: by a stop with a checkpoint, and if that fails by force."""
        process = self.daemon.process
        if process is None:
            return
        try:
            if process.poll() is None:
                self.daemon.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
        finally:
            self.daemon.finish()


def head() -> str:
    """The lines of run.toml that say where this tree is, not what is trained."""
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "trainer"]
    return f"""\
schema = "stepkeeper.run/1"
name = "demo"
[trainer]
command = {json.dumps(command)}
"""


def run_settings(seed: int, terms: Terms) -> str:
    """The rest of run.toml; sources are beside the folder of all lives."""
    settings = f"""\
[model]
preset = "demo"
[train]
steps = {terms.steps}
batch = {terms.batch}
lr = 0.002
warmup_steps = {terms.steps // 12}
seed = {seed}
device = "cpu"
threads = 1
[data]
mix = "sequence"
[checkpoint]
every_steps = {terms.every}
keep_last = 2
[evaluate]
every = {terms.every}
sequences = 96
holdout = 0.1
[disk]
reserve = 0.0
"""
    return settings + "".join(f'[sources.{a}]\npath = "../../arms/{a}"\n' for a in terms.arms)


def policy_rules(policy: str, terms: Terms) -> str:
    """Its policy.toml: equal weights for static, bounds for all others, defaults for the rest."""
    lines = [f'algorithm = "{policy}"', 'unit = "share"']
    for arm, size in terms.arms.items():
        lines.append(f"[arms.{arm}]")
        if policy != STATIC:
            lines += [f"floor = {FLOOR}", f"cap = {SMALL_CAP if size < SMALL else CAP}"]
    return "\n".join(lines) + "\n"


def read(run: Run, terms: Terms) -> Facts:
    """What a finished life shows, from its journal, its ledger and its last companion.

    ``losses`` are those of the last evaluation, ``means`` the mean over arms at each one,
    ``served`` sequences by arm, ``epochs`` how often each arm's documents were read, ``phases``
    the mixes ordered. Raises ValueError where the last step has no evaluation of every arm.
    """
    evaluations = {e["step"]: e["losses"] for e in run.events("evaluation")}
    losses = evaluations.get(terms.steps, {})
    if sorted(losses) != sorted(terms.arms) or None in losses.values():
        raise ValueError(
            f"cannot use {run.path}: no evaluation of every arm after its last step; "
            "remove it to have it run anew"
        )
    served = dict.fromkeys(terms.arms, 0)
    for line in run.canonical().values():
        for part in line["arm"].split(" "):
            arm, _, count = part.partition("=")
            served[arm] += int(count)
    companion = run.read(f"checkpoints/step_{terms.steps:06d}.json")
    cursors = companion["cursors"] if companion else {}
    return {
        "losses": {arm: losses[arm] for arm in terms.arms},
        "means": [[step, _mean(found)] for step, found in sorted(evaluations.items())],
        "served": served,
        "epochs": {a: cursors[a]["epoch"] + _part(cursors[a]) for a in terms.arms},
        "attempts": len(run.attempts()),
    }


def _mean(losses: dict[str, float]) -> float:
    return sum(losses.values()) / len(losses)


def _part(cursor: Facts) -> float:
    return float(cursor["position"] / cursor["documents"])


def commit() -> str:
    """The commit of this tree, with a plus where files differ from it."""
    told = []
    for words in (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "-uno"]):
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        told.append(done.stdout.strip())
    return told[0] + ("+" if told[1] else "")
