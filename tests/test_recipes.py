"""Every command and recipe of the README is run as written, on a run with a history."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.cli.demo_settings import POLISHED
from tests.support.daemon import Daemon
from tests.support.document import blocks, tree
from tests.support.kept import Kept
from tests.support.runs import make_run, scripted

TORN = b'{"step":12345,"loss":2.5'

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq on the path")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """Attempt 1 writes a bad checkpoint and is killed after losses that attempt 2 does not repeat.

    So lines are voided and a checkpoint is superseded. Then come the five commands, a torn piece,
    and one more life that closes it off.
    """
    folder = tmp_path_factory.mktemp("readme")
    faults = {"kill_at": 50, "differ_from": 45, "corrupt_at": 40, "corrupt": "nan"}
    trainer = scripted(rate=150, every=20, sample_every=20, attempts=1, **faults)
    run = make_run(folder / "stepkeeper-demo", trainer, arms=tuple(POLISHED), every=20)
    daemon = Daemon(run)
    kept = Kept(folder, daemon)
    try:
        daemon.start().until_seal(80)
        [block] = blocks("sh", "Five commands")
        kept.five = [(line, kept.shell(line)) for line in block.lines]
        daemon.wait()
        with (run.path / "demo.loss.json").open("ab") as ledger:
            ledger.write(TORN)
        last = run.last_step()
        daemon.start().until_seal(last + 20)
        assert daemon.stop() == 0, daemon.describe()
        yield kept
    finally:
        daemon.finish()


def _recipe(language: str, word: str) -> str:
    """The one recipe on the ledger with this word in it."""
    [block] = [b for b in blocks(language, "Reading the ledger") if word in b.text]
    return block.text


def test_the_five_commands_do_what_the_readme_says(kept: Kept) -> None:
    assert len(kept.five) == 5
    for line, done in kept.five:
        assert done.returncode == 0, (line, done.stdout, done.stderr, kept.daemon.describe())
    said = {line.split()[1]: done.stdout for line, done in kept.five}
    assert "sealed" in said["status"]
    pinned = Path(kept.folder / said["save"].strip())
    assert pinned.is_file()
    assert "before the pivot" in (pinned.parent / "pins.json").read_text()
    [done] = kept.run.events("pivot-done")
    assert done["facts"]["policy"] == 2


def test_a_run_of_ones_own_begins_as_the_readme_says(kept: Kept) -> None:
    [block] = blocks("sh", "A run of your own")
    for line in block.lines:
        done = kept.shell(line)
        assert done.returncode == 0, (line, done.stderr)
    assert (kept.folder / "my-run/run.toml").is_file()


def test_no_block_of_commands_is_left_untried() -> None:
    tried = {"The two commands", "Five commands", "A run of your own", "Reading the ledger"}
    assert {block.heading for block in (*blocks("sh"), *blocks("python"))} == tried


def test_every_file_of_the_run_is_in_the_readme_and_the_other_way_round(kept: Kept) -> None:
    drawn = {path.removeprefix("RUN/"): _pattern(path) for path in tree("Files of a run")[1:]}
    left = [str(p.relative_to(kept.run.path)) for p in kept.run.path.rglob("*") if p.is_file()]
    ours = [name for name in left if not name.startswith("sources/")]
    unknown = [name for name in ours if not any(re.match(p, name) for p in drawn.values())]
    assert unknown == []
    passing = {"pivot.json", "control.sock", "supervisor.log"}  # there only at times
    passing |= {"rewind.json", "origin/"}  # of a run that was rewound, of a fork or an import
    passing |= {"proof.json"}  # of a run that was proved
    passing |= {"checkpoints/step_000050.pt", "checkpoints/step_000050.sharded/"}  # other formats
    passing |= {"reserve", "tmp/"}  # switched off in this run; only of a service
    passing |= {"checkpoints/rejected.json", "attempts/000001/stacks.txt"}  # after bad luck alone
    passing |= {"checkpoints/quarantine.json", "checkpoints/skips.json"}  # after a bad loss
    missing = {p for p, pattern in drawn.items() if not any(re.match(pattern, n) for n in ours)}
    assert missing <= passing


def _pattern(path: str) -> str:
    """The files that a path of the drawn tree stands for; its digits stand for any."""
    name = re.escape(path.removeprefix("RUN/").replace("NAME", "demo"))
    return re.sub(r"\d+", r"\\d+", name) + ("" if path.endswith("/") else "$")


def test_tail_shows_the_newest_steps(kept: Kept) -> None:
    done = kept.shell(_recipe("sh", "tail"))
    steps = [json.loads(line)["step"] for line in done.stdout.splitlines()]
    last = kept.run.last_step()
    assert steps == [last - 2, last - 1, last]


def test_grep_counts_the_whole_lines_and_leaves_the_torn_one_out(kept: Kept) -> None:
    done = kept.shell(_recipe("sh", "grep"))
    assert int(done.stdout) == len(kept.run.ledger())
    data = (kept.run.path / "demo.loss.json").read_bytes()
    assert data.count(b"\n") == len(kept.run.ledger()) + 1
    assert TORN in data


@needs_jq
def test_jq_finds_a_step_and_the_mean_under_each_policy(kept: Kept) -> None:
    one, mean = (kept.shell(line).stdout for line in _recipe("sh", "jq").splitlines())
    line = kept.run.canonical()[40]
    assert json.loads(one) == {key: line[key] for key in ("step", "loss", "arm")}
    found = {r["policy"]: r["mean"] for r in map(json.loads, mean.splitlines())}
    for policy in (1, 2):
        losses = [r["loss"] for r in kept.run.ledger() if r["policy"] == policy]
        assert found[policy] == pytest.approx(sum(losses) / len(losses))


def test_pandas_reads_the_canonical_view_to_the_last_digit(kept: Kept) -> None:
    more = "import json; print(json.dumps([ledger.index.tolist(), ledger.loss.tolist()]))"
    done = kept.python(_recipe("python", "pandas"), more)
    assert done.returncode == 0, done.stderr
    view = kept.run.canonical()
    assert json.loads(done.stdout.splitlines()[-1]) == [
        list(view),
        [line["loss"] for line in view.values()],
    ]
    assert len(view) < len(kept.run.ledger())  # lines were voided, or this proves nothing


def test_duckdb_reads_the_canonical_view_to_the_last_digit(kept: Kept) -> None:
    more = "import json; print(json.dumps([r[:3] for r in ledger.fetchall()]))"
    done = kept.python(_recipe("python", "duckdb"), more)
    assert done.returncode == 0, done.stderr
    view = kept.run.canonical().values()
    expected = [[line["step"], line["loss"], line["arm"]] for line in view]
    assert json.loads(done.stdout.splitlines()[-1]) == expected


def test_the_verifier_agrees_with_the_seals_and_finds_a_changed_digit(kept: Kept) -> None:
    script = _recipe("python", "hashlib")
    done = kept.python(script)
    assert done.returncode == 0, done.stderr
    lines = kept.run.ledger()
    assert done.stdout.startswith(f"{len(lines)} whole lines")
    assert done.stdout.split()[-1] == lines[-1]["chain"]
    path = kept.run.path / "demo.loss.json"
    true = path.read_bytes()
    place = true.index(b'"loss":', len(true) // 2) + len(b'"loss":')
    try:
        path.write_bytes(true[:place] + b"9" + true[place + 1 :])
        wrong = kept.python(script)
    finally:
        path.write_bytes(true)
    assert wrong.returncode == 1
    assert re.match(r"cannot verify \d+ lines after whole line \d+", wrong.stderr)
