"""Installed versions of the program behind one link, as an operator upgrades them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.runs import ROOT

MAIN = f"""\
#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
import supervisor
supervisor.__version__ = VERSION
PREPARE
from supervisor.__main__ import main
main()
"""
WAITS = """\
import os, time
if sys.argv[1] == "run" and not os.path.exists(GO):
    open(BEGAN, "w").close()
    while not os.path.exists(GO):
        time.sleep(0.01)
"""


class Versions:
    """Folders ``1.0``, ``2.0`` … each with a program, and ``current``, a link to one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.current = folder / "current"
        folder.mkdir()

    @property
    def script(self) -> Path:
        """The program through the link."""
        return self.current / "bin/stepkeeper"

    def install(self, version: str, prepare: str = "") -> Path:
        """A script that is this program under another version; it runs ``prepare`` first."""
        text = MAIN.replace("VERSION", repr(version)).replace("PREPARE", prepare)
        return self.write(version, text)

    def write(self, version: str, text: str) -> Path:
        """Any program as that version's."""
        path = self.folder / version / "bin/stepkeeper"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def wait(self) -> tuple[str, Path, Path]:
        """What makes a version's ``run`` wait, and the files: it has begun, it may go on."""
        began, go = self.folder / "began", self.folder / "go"
        return WAITS.replace("BEGAN", repr(str(began))).replace("GO", repr(str(go))), began, go

    def environment(self, version: str) -> Path:
        """A virtual environment of that version, in which this checkout is importable."""
        place = self.folder / version
        command = [sys.executable, "-m", "venv", "--without-pip", "--symlinks", place]
        subprocess.run(command, check=True, timeout=60)
        [packages] = place.glob("lib/python*/site-packages")
        paths = [str(ROOT), *(path for path in sys.path if path.endswith("-packages"))]
        (packages / "here.pth").write_text("\n".join(paths) + "\n")
        (packages / "sitecustomize.py").write_text(
            f"import supervisor\nsupervisor.__version__ = {version!r}\n"
        )
        return place / "bin/python"

    def use(self, version: str) -> None:
        """Turn the link to that version, as ``ln -sfn`` does."""
        temporary = self.folder / "new"
        temporary.symlink_to(version)
        temporary.rename(self.current)
