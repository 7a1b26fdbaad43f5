"""A run of the real trainer in its demo preset, on text that every Python brings along."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from tests.support.runs import ROOT, Run, make_run

MOST_BYTES = 400_000


def demo_run(folder: Path, every: int, more: str = "") -> Run:
    """A run directory with two arms, language reference and library code, ready to start.

    ``more`` are further keys of ``[train]``.
    """
    command = ["env", f"PYTHONPATH={ROOT}", "{python}", "-m", "trainer"]
    settings = f"[model]\npreset = 'demo'\n[train]\nsteps = 100000\n{more}"
    run = make_run(folder, command, every=every, settings=settings)
    library = Path(sysconfig.get_paths()["stdlib"])
    code = b"".join(path.read_bytes() for path in sorted(library.glob("*.py"))[:40])
    texts = {"a": (library / "pydoc_data/topics.py").read_bytes(), "b": code}
    for arm, text in texts.items():
        readable = text.decode("utf-8", "replace")[:MOST_BYTES]
        (folder / "sources" / arm / "text.txt").write_text(readable)
    return run
