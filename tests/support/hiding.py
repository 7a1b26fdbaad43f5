"""A trainer's start that leaves a worker behind which nothing of its own tells: run by path.

``python hiding.py COMMAND…``: notes in ``RUN/found-NNNNNN`` which processes of earlier attempts
are still there, starts a worker without environment, in a session of its own, without parent,
working directory or open file of the run, adds its pid to ``RUN/hidden``, and becomes COMMAND.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ENVIRON = os.environ  # noqa: TID251 - a trainer learns its run from its environment


def earlier(run: Path) -> list[int]:
    """What is alive of other attempts: by the note, and by another token of this run."""
    note = run / "hidden"
    told = note.read_text().split() if note.exists() else []
    found = [int(pid) for pid in told if Path(f"/proc/{pid}").exists()]
    mark, own = f"STEPKEEPER_RUN={run}\0", f"STEPKEEPER_TOKEN={ENVIRON['STEPKEEPER_TOKEN']}\0"
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "environ").read_bytes().decode("utf-8", "replace") + "\0"
            except OSError:
                continue
            if mark in text and own not in text:
                found.append(int(entry.name))
    return found


def hide(run: Path) -> None:
    """Start the worker and note its pid."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid:
            os.write(writer, b"%d\n" % pid)
            os._exit(0)
        os.chdir("/")
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.closerange(3, 256)
        os.execve("/bin/sleep", ["sleep", "300"], {})
    os.wait()
    with (run / "hidden").open("ab") as note:
        note.write(os.read(reader, 20))
    os.close(reader)
    os.close(writer)


def main() -> None:
    """Look, hide, become the trainer."""
    run = Path(ENVIRON["STEPKEEPER_RUN"])
    found = " ".join(map(str, earlier(run)))
    (run / f"found-{int(ENVIRON['STEPKEEPER_ATTEMPT']):06d}").write_text(found)
    hide(run)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
