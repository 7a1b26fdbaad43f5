"""The files of the project, and what their syntax trees say."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.runs import ROOT


def project_files(*suffixes: str) -> list[Path]:
    """Every file of the working tree that git does not ignore, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    paths = sorted({Path(name) for name in listed.decode().split("\0") if name})
    return [p for p in paths if (ROOT / p).is_file() and (not suffixes or p.suffix in suffixes)]


def modules(*packages: str) -> list[Path]:
    """The Python files below these top-level folders."""
    return [path for path in project_files(".py") if path.parts[0] in packages]


def tree(path: Path) -> ast.Module:
    """The syntax tree of a project file."""
    return ast.parse((ROOT / path).read_bytes(), filename=str(path))


def dotted(node: ast.AST) -> str:
    """``os.path.join`` for such an attribute or name, ``?.read`` where the left side is neither."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return "?"


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call in a file, with its dotted name in which imported names are written out."""
    parsed = tree(path)
    origins = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(parsed)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    origins |= {
        alias.asname: alias.name
        for node in ast.walk(parsed)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname
    }
    for node in ast.walk(parsed):
        if isinstance(node, ast.Call):
            head, dot, rest = dotted(node.func).partition(".")
            yield origins.get(head, head) + dot + rest, node
