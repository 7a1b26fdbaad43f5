"""Builds the demo's arms from text that every Python brings along; nothing is downloaded.

reference    prose: the language reference, as ``help('topics')`` shows it
docstrings   technical prose: docstrings of every other module of the standard library
code         source code: the modules in between
names        a list: characters of Unicode by number and name, learned at once and worth little
"""

from __future__ import annotations

import ast
import sysconfig
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from supervisor.errors import UsageError

LEAST_BYTES = 100_000
MOST_BYTES = {"reference": 500_000, "docstrings": 240_000, "code": 600_000, "names": 300_000}

_Document = tuple[str, str]
_BLOCK = 256  # characters of Unicode in one document


def build(folder: Path, library: Path | None = None) -> dict[str, int]:
    """Write every arm's documents below ``folder``; bytes by arm.

    ``library`` is where the standard library's sources are, if not where this Python has them.
    Raises UsageError where there is not enough text.
    """
    modules = _modules(library or Path(sysconfig.get_paths()["stdlib"]))
    arms = {
        "reference": _reference(),
        "docstrings": _docstrings(modules[::2]),
        "code": _code(modules[1::2]),
        "names": _names(),
    }
    sizes = {}
    for arm, documents in arms.items():
        size = _write(folder / arm, documents, MOST_BYTES[arm])
        if size < LEAST_BYTES:
            raise UsageError(
                f"cannot build the arm {arm!r}: this Python brings {size} bytes of it, fewer than "
                f"{LEAST_BYTES}; install its standard library in full, with pydoc_data"
            )
        sizes[arm] = size
    return sizes


def _write(folder: Path, documents: Iterator[_Document], most: int) -> int:
    """Write documents until there are ``most`` bytes; how many there are."""
    folder.mkdir(parents=True)
    size = 0
    for name, text in documents:
        data = text.encode("utf-8", "replace")
        (folder / f"{name}.txt").write_bytes(data)
        size += len(data)
        if size >= most:
            break
    return size


def _modules(library: Path) -> list[Path]:
    """Sources of the standard library in the order of their names, tests left out."""
    left_out = {"site-packages", "dist-packages", "test", "tests", "idlelib", "pydoc_data"}
    found = [*library.glob("*.py"), *library.glob("*/*.py")]
    return sorted(path for path in found if not left_out & set(path.relative_to(library).parts))


def _reference() -> Iterator[_Document]:
    try:
        from pydoc_data.topics import topics  # noqa: PLC0415 - some Pythons come without it
    except ImportError:
        return
    for name, text in sorted(topics.items()):
        yield name.replace("/", "-"), text


def _docstrings(modules: list[Path]) -> Iterator[_Document]:
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in modules:
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        found = [ast.get_docstring(n) or "" for n in ast.walk(tree) if isinstance(n, holders)]
        if text := "\n\n".join(filter(None, found)):
            yield _name(path), text + "\n"


def _code(modules: list[Path]) -> Iterator[_Document]:
    for path in modules:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if text:
            yield _name(path), text


def _names() -> Iterator[_Document]:
    for start in range(0, 0x20000, _BLOCK):
        named = [(code, unicodedata.name(chr(code), "")) for code in range(start, start + _BLOCK)]
        lines = [f"U+{code:04X} {name}\n" for code, name in named if name]
        # Ideographs and syllables are named by rule, block after block.
        if lines and "IDEOGRAPH" not in lines[0] and "HANGUL" not in lines[0]:
            yield f"{start:05X}", "".join(lines)


def _name(path: Path) -> str:
    return f"{path.parent.name}.{path.stem}"
