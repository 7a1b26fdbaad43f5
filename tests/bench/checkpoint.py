"""What a save costs training, and how fast a checkpoint is loaded, beside other ways of both.

All ways take turns in one process, on one model, between quiet steps of the reference trainer. The
files lie in ``--folder``, a few at a time, and are removed.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from tests.bench import loading
from tests.bench.beside import Options, Ours, Rig, Round, Taken, Way, build
from tests.bench.figures import Figure, say, table
from tests.bench.peers import (
    Async,
    AtOnce,
    Raw,
    clear,
    dcp_save,
    process_group,
    quiet_error_output,
    safetensors_save,
    torch_save,
)

EXTRA, WAIT, DURABLE, THROUGHPUT, LOADING = 0.4, 0.02, 0.5, 0.97, 1.1
OURS, RAW = "ours, from a copy", "raw, buffered, in a thread"
ASYNC = ("DCP async_save, thread", "DCP async_save, process", "DCP async_save, process, 2 threads")
OFTEN = (OURS, RAW, *ASYNC)
EVERY = 10


def ways_of(rig: Rig) -> dict[str, Way]:
    """All of them, by the name that the table has."""
    thread, process = AsyncCheckpointerType.THREAD, AsyncCheckpointerType.PROCESS
    return {
        OURS: Ours(rig, "copy"),
        ASYNC[0]: Async(rig, thread, 1),
        RAW: Raw(rig),
        "ours, from the live state": Ours(rig, "live"),
        ASYNC[1]: Async(rig, process, 1),
        ASYNC[2]: Async(rig, process, 2),
        "ours, at once": Ours(rig, "off"),
        "torch.save": AtOnce(rig, "torch", torch_save),
        "DCP save": AtOnce(rig, "dcp", dcp_save),
        "safetensors": AtOnce(rig, "safetensors", safetensors_save),
    }


def growth() -> Callable[[], float]:
    """Tells by how many MB this process and its children have grown at most since last asked."""
    process, before = psutil.Process(), 0.0

    def children() -> float:
        return sum(child.memory_info().rss for child in process.children(recursive=True))

    def grown() -> float:
        nonlocal before
        status = Path("/proc/self/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) * 1024 + children()
        result = (peak - before) / 1e6
        Path("/proc/self/clear_refs").write_text("5")  # begins the peak anew
        before = process.memory_info().rss + children()
        return result

    grown()
    return grown


def save_in_turns(rig: Rig, rounds: int) -> tuple[dict[str, Taken], list[float], float]:
    """What each way took, the quiet steps, and the memory in MB that a quiet step takes."""
    grown = growth()
    quiet = [rig.step()]
    step_memory = grown()
    ways = ways_of(rig)
    taken = {name: Taken() for name in ways}
    first = Round(rig, grown)
    for name, way in ways.items():  # what is made for the first save only is not counted as time
        if isinstance(way, Async | Ours):
            _progress(f"  first save, {name} ...")
            with quiet_error_output():
                first.save(way, taken[name])
            clear(way.files)
    for each in taken.values():
        each.extra, each.wait, each.seconds = [], [], []
    for number in range(rounds):
        _progress(f"  round {number + 1} of {rounds} ...")
        turn = Round(rig, grown)
        for name, way in ways.items():
            if name not in OFTEN and number % 2:
                continue  # no bound hangs on it
            turn.save(way, taken[name])
            clear(way.files)
        turn.finish()
        quiet += turn.quiet
    for way in ways.values():
        way.close()
    return taken, quiet, step_memory


def throughput(rig: Rig, pairs: int) -> list[float]:
    """Steps a second with a save every ten steps, as a share of those without."""
    shutil.rmtree(rig.folder / "copy")
    way = Ours(rig, "copy")
    way.begin()  # the copy's memory is taken once in a life
    while not way.done():
        rig.step()
    shares = []
    for number in range(pairs):
        _progress(f"  {EVERY} steps with and without a save, {number + 1} of {pairs} ...")
        took = {}
        for saving in (True, False) if number % 2 else (False, True):
            began = time.perf_counter()
            if saving:
                way.begin()
            over = not saving
            for _ in range(EVERY):
                rig.step()
                over = over or way.done()
            took[saving] = time.perf_counter() - began
            while not over:
                rig.step()
                over = way.done()
        clear(way.files)
        shares.append(took[False] / took[True])
    way.close()
    return shares


def table_of_ways(taken: Mapping[str, Taken], step_memory: float) -> None:
    """Medians side by side, and as multiples of the first one's."""
    say("\nmedians of each save: seconds, and multiples of ours from a copy")
    say(f"{'':<36}{'extra':>8}{'':>7}{'wait':>9}{'durable':>9}{'':>7}{'memory, MB':>12}{'n':>4}")
    ours = taken[OURS]
    for name, each in taken.items():
        extra, wait, seconds = (median(v) for v in (each.extra, each.wait, each.seconds))
        memory = max(0.0, each.memory[0] - step_memory)
        ratios = [
            f"{value / base:.2f}x" if base > 0 else ""
            for value, base in ((extra, median(ours.extra)), (seconds, median(ours.seconds)))
        ]
        say(
            f"{name:<36}{extra:>8.3f}{ratios[0]:>7}{wait:>9.4f}{seconds:>9.3f}{ratios[1]:>7}"
            f"{memory:>12.0f}{len(each.extra):>4}"
        )


def figures_of(
    taken: Mapping[str, Taken], shares: list[float], cold: loading.Seconds
) -> list[Figure]:
    """The figures that have a bound."""
    ours = taken[OURS]
    best = min(ASYNC, key=lambda name: median(taken[name].extra))
    least = max(median(taken[best].extra), 1e-3)
    raw = median(taken[RAW].seconds)
    loaded = [
        one / other for one, other in zip(cold[loading.OURS], cold[loading.PLAIN], strict=True)
    ]
    return [
        Figure(f"extra time per save / {best}", "", [x / least for x in ours.extra], EXTRA),
        Figure("the loop's own wait per save", "s", ours.wait, WAIT),
        Figure("durable, hashed, renamed / raw", "", [x / raw for x in ours.seconds], DURABLE),
        Figure(f"throughput, a save every {EVERY} steps", "", shares, THROUGHPUT, at_least=True),
        Figure("loading / plain read, cold", "", loaded, LOADING),
    ]


def _progress(text: str) -> None:
    """Where it is, beside what it prints."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(words: list[str]) -> int:
    """Measure, print, and return 0 where every bound is kept."""
    options = _options(words)
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-", dir=options.folder) as folder:
        free = shutil.disk_usage(folder).free
        _progress("checkpoint: preparing ...")
        with process_group():
            shown = Options(
                options.preset, 32, options.context, options.device, options.step_seconds
            )
            rig = build(Path(folder), shown)
            if free < 8 * rig.bytes:
                text = f"{8 * rig.bytes} bytes are needed and {free} are free"
                sys.stderr.write(f"cannot measure in {folder}: {text}; give --folder\n")
                return 2
            taken, quiet, step_memory = save_in_turns(rig, options.rounds)
            shares = throughput(rig, options.pairs)
            _progress("  loading ...")
            cold, hot = loading.measure(rig, options.loads)
    where = f"{rig.bytes / 1e9:.2f} GB, {options.device}, step {median(quiet):.2f} s"
    found = figures_of(taken, shares, cold)
    if options.json:
        print(json.dumps(_record(where, taken, found, quiet, (cold, hot))))  # noqa: T201 - as asked
        return 0 if all(figure.reached for figure in found) else 1
    table_of_ways(taken, step_memory)
    loads = [
        Figure(f"{name}, {state}", "s", seconds)
        for state, times in (("cold", cold), ("hot", hot))
        for name, seconds in times.items()
    ]
    table("loading", loads)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    quiet_figure = Figure("a quiet step", "s", quiet)
    return table(f"checkpoint, {where}, peak memory {peak:.1f} GB", [quiet_figure, *found])


def _record(
    where: str,
    taken: Mapping[str, Taken],
    found: list[Figure],
    quiet: list[float],
    loads: tuple[loading.Seconds, loading.Seconds],
) -> dict[str, Any]:
    return {
        "where": where,
        "quiet": quiet,
        "ways": {name: vars(each) for name, each in taken.items()},
        "loading": {"cold": loads[0], "hot": loads[1]},
        "figures": [{**f._asdict(), "reached": f.reached} for f in found],
    }


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench checkpoint", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller model, one round")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--preset", default=None)
    parser.add_argument("--context", type=int, default=None, help="tokens of a sequence")
    parser.add_argument("--step-seconds", type=float, default=None, help="about so long a step")
    parser.add_argument("--rounds", type=int, default=None, help="saves of each way")
    parser.add_argument("--folder", default=None, help="where files are written")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args(words)
    cuda = options.device == "cuda"
    usual = {
        "preset": "andrea-12m" if options.quick else "andrea-120m",
        "context": 1024 if cuda else 128,
        "step_seconds": 0.3 if cuda else 0.5 if options.quick else 3.0,
        "rounds": 1 if options.quick else 3,
    }
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.pairs, options.loads = (1, 2) if options.quick else (2, 4)
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
