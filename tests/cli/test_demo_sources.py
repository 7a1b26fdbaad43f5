"""The demo's arms: real text, enough of it, and honestly different."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from supervisor.cli import demo_sources
from supervisor.errors import UsageError


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("arms")
    demo_sources.build(folder)
    return {arm.name: sorted(arm.iterdir()) for arm in sorted(folder.iterdir())}


def test_there_are_at_least_three_arms_of_at_least_100_kb(arms: dict[str, list[Path]]) -> None:
    sizes = {arm: sum(path.stat().st_size for path in files) for arm, files in arms.items()}
    assert len(sizes) >= 3
    assert all(100_000 <= size <= 1_200_000 for size in sizes.values())
    assert all(len(files) >= 20 for files in arms.values())


def test_no_document_is_in_two_arms(arms: dict[str, list[Path]]) -> None:
    """Docstrings are taken from other modules than the source code."""
    lines = {
        arm: {
            line
            for path in files
            for line in path.read_text(encoding="utf-8").splitlines()
            if len(line) > 60
        }
        for arm, files in arms.items()
    }
    counts = Counter(line for found in lines.values() for line in found)
    twice = sum(1 for count in counts.values() if count > 1)
    assert twice < len(counts) / 100


def test_the_same_python_builds_the_same_bytes(tmp_path: Path, arms: dict[str, list[Path]]) -> None:
    demo_sources.build(tmp_path)
    again = {arm: [tmp_path / arm / path.name for path in files] for arm, files in arms.items()}
    for arm, files in arms.items():
        assert [p.read_bytes() for p in files] == [p.read_bytes() for p in again[arm]]


def test_too_little_text_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/small.py").write_text('"""One module."""\n')
    with pytest.raises(UsageError, match=r"^cannot build the arm 'docstrings': .* 12 bytes"):
        demo_sources.build(tmp_path / "arms", tmp_path / "library")
