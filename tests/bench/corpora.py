"""Arms of real text from Debian's packages, which are downloaded and unpacked but not installed.

Every arm is a pure function of its packages; what was made of which version is in ``arms.json``,
with a digest of each arm, so that two tables can be known to speak of the same text.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trainer.contract.durable import replace_file

RECORD = "arms.json"
MB = 1_000_000
_DICTD = "usr/share/dictd"


class Recipe(NamedTuple):
    """How an arm is made: of what, and at most how much of it.

    ``texts`` yields its documents' texts from the folder in which the packages are unpacked;
    ``one_file`` says whether they are written one after the other, or each to a file of its own.
    """

    packages: tuple[str, ...]
    most: int
    texts: Callable[[Path], Iterator[str]]
    one_file: bool = True


class CorpusError(Exception):
    """The text cannot be had; the message is one line and begins with "cannot"."""


def build(folder: Path) -> dict[str, dict[str, Any]]:
    """The arms' record; makes those that are not in ``folder`` yet. Raises CorpusError."""
    record = folder / RECORD
    if record.exists():
        made: dict[str, dict[str, Any]] = json.loads(record.read_bytes())
        if list(made) == list(ARMS):
            return made
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpacked-", dir=folder) as name:
        unpacked = Path(name)
        packages = sorted({package for recipe in ARMS.values() for package in recipe.packages})
        versions = _unpack(packages, unpacked)
        arms = {}
        for arm, recipe in ARMS.items():
            facts = _write(folder / "arms" / arm, recipe, unpacked)
            arms[arm] = {"packages": {p: versions[p] for p in recipe.packages}, **facts}
    replace_file(record, json.dumps(arms, indent=1).encode() + b"\n")
    return arms


def _unpack(packages: list[str], into: Path) -> dict[str, str]:
    """Download and unpack; the version of each package."""
    _run(["apt-get", "download", *packages], into, "download the packages: try apt-get update")
    versions = {}
    for archive in sorted(into.glob("*.deb")):
        show = ["dpkg-deb", "--show", "--showformat=${Package} ${Version}", str(archive)]
        package, version = _run(show, into, f"read {archive.name}").decode().split()
        _run(["dpkg-deb", "-x", str(archive), str(into)], into, f"unpack {archive.name}")
        versions[package] = version
    return versions


def _run(command: list[str], where: Path, what: str) -> bytes:
    try:
        done = subprocess.run(command, cwd=where, capture_output=True, check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error).encode()
        last = said.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise CorpusError(f"cannot {what}: {command[0]}: {' '.join(last)}") from None
    return done.stdout


def _write(folder: Path, recipe: Recipe, unpacked: Path) -> dict[str, Any]:
    """The arm's files; how many, how large, and a digest over their names and bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts, size = [], 0
    for text in recipe.texts(unpacked):
        data = text.encode("utf-8")
        if size + len(data) > recipe.most:
            break
        texts.append(data)
        size += len(data)
    if not texts:
        raise CorpusError(f"cannot make arm {folder.name}: its packages hold no such text")
    files = [b"\n".join(texts)] if recipe.one_file else texts
    digest = hashlib.sha256()
    for number, data in enumerate(files):
        path = folder / f"{number:05d}.txt"
        path.write_bytes(data)
        digest.update(f"{path.name} {len(data)}\n".encode() + data)
    total = sum(map(len, files))
    return {"files": len(files), "bytes": total, "sha256": digest.hexdigest()}


def _entries(name: str) -> Callable[[Path], Iterator[str]]:
    """The entries of a dictionary in the format of dictd, a gzip with an index."""

    def texts(root: Path) -> Iterator[str]:
        text = gzip.decompress((root / _DICTD / f"{name}.dict.dz").read_bytes())
        entries = re.split(r"\n\n(?=\S)", text.decode("utf-8", "replace"))
        for entry in entries:
            if not entry.startswith("00-database"):  # what the dictionary says of itself
                yield entry.strip("\n") + "\n"

    return texts


def _scripture(root: Path) -> Iterator[str]:
    """The King James Bible; only its own program can read its data."""
    program = root / "usr/bin/bible"
    command = [str(program), "-p", str(root / "usr/lib"), "gen1:1-rev22:21"]
    text = _run(command, root, "read the text of bible-kjv-text").decode("utf-8", "replace")
    for chapter in re.split(r"\n\n(?=\S)", text):
        yield chapter.strip("\n") + "\n"


def _manuals(root: Path) -> Iterator[str]:
    for path in sorted((root / "usr/share/man").glob("man*/*.gz")):
        source = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        if not source.startswith(".so "):  # another name of the same page
            yield plain(source)


def _code(root: Path) -> Iterator[str]:
    for path in sorted((root / "usr/lib/python3.11").rglob("*.py")):
        if path.is_file():  # not a link to what another package has
            yield path.read_text("utf-8", "replace")


def _sayings(root: Path) -> Iterator[str]:
    text = (root / "usr/share/games/fortunes/wisdom").read_text("utf-8", "replace")
    for saying in text.split("\n%\n"):
        if saying.strip():
            yield saying.strip("\n") + "\n"


_BLANK = {"PP", "P", "LP", "TP", "IP", "HP", "RS", "RE", "SH", "SS", "TQ"}
_JOINED = {"BI", "BR", "IB", "IR", "RB", "RI"}
_WORDS = re.compile(r'"([^"]*)"|(\S+)')
_SIGNS = {r"\-": "-", r"\e": "\\", r"\ ": " ", r"\~": " ", r"\(aq": "'", r"\(dq": '"'}
_ESCAPE = re.compile(r"\\(?:f\(..|f\[[^]]*\]|f.|\*\(..|\*.|\(..|s[+-]?\d|.)")


def plain(source: str) -> str:
    """A manual page's text: macros and escapes of groff go, words and lines stay."""
    lines: list[str] = []
    for line in source.splitlines():
        if not line.startswith((".", "'")):
            lines.append(_unescaped(line))
            continue
        macro, _, rest = line[1:].partition(" ")
        if macro in _BLANK and lines and lines[-1]:
            lines.append("")
        words = [quoted or word for quoted, word in _WORDS.findall(rest)]
        if macro in _JOINED:
            lines.append(_unescaped("".join(words)))
        elif macro in {"SH", "SS", "B", "I", "SM", "SB"} and words:
            lines.append(_unescaped(" ".join(words)))
        elif macro in {"IP", "TQ"} and words:
            lines.append(_unescaped(words[0]))
    return "\n".join(lines).strip("\n") + "\n"


def _unescaped(line: str) -> str:
    line = re.sub(r'\\".*', "", line)
    return _ESCAPE.sub(lambda found: _SIGNS.get(found[0], ""), line)


# Different sizes on purpose: the last two are read several times where the others are not read
# through once.
ARMS = {
    "dictionary": Recipe(("dict-gcide",), 4 * MB, _entries("gcide")),
    "scripture": Recipe(("bible-kjv", "bible-kjv-text"), 5 * MB, _scripture),
    "manuals": Recipe(("manpages", "manpages-dev"), 3 * MB, _manuals),
    "code": Recipe(("libpython3.11-stdlib",), 3 * MB, _code),
    "jargon": Recipe(("dict-jargon",), MB // 4, _entries("jargon")),
    "sayings": Recipe(("fortunes",), 60_000, _sayings, one_file=False),
}
