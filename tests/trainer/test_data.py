"""An arm reads every document once an epoch, in a seeded order, from any place at once."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.contract.settings import SourceSettings
from trainer.data import Arm, Cursor, Digest, Permutation, cursor_record, read_cursor
from trainer.sources import SourceError, open_documents


@given(st.integers(1, 3000), st.text(max_size=5))
def test_a_permutation_hits_every_place_once(size: int, key: str) -> None:
    order = Permutation(size, key)
    assert sorted(order(index) for index in range(size)) == list(range(size))


def test_places_are_spread_evenly_over_keys() -> None:
    counts = Counter(Permutation(10, f"key {n}")(3) for n in range(5000))
    assert len(counts) == 10
    assert min(counts.values()) > 400
    assert max(counts.values()) < 600


def test_the_last_of_a_billion_places_costs_as_much_as_the_first() -> None:
    order = Permutation(10**9, "big")
    began = time.perf_counter()
    places = {order(index) for index in range(10**9 - 2000, 10**9)}
    assert len(places) == 2000
    assert time.perf_counter() - began < 2.0


def write_words(root: Path, count: int) -> None:
    """One file a document; document n is n's letter, repeated."""
    (root / "words").mkdir()
    for number in range(count):
        word = chr(97 + number) * (3 + number % 4)
        (root / "words" / f"{number:02}.txt").write_text(word)


def arm(root: Path, *, seed: int = 0, holdout: float = 0.0, length: int = 5) -> Arm:
    documents = open_documents(SourceSettings(path="words"), root, 256, length - 1)
    return Arm("words", documents, length=length, seed=seed, holdout=holdout)


def stream(source: Arm, sequences: int, cursor: Cursor | None = None) -> str:
    tokens, _ = source.take(cursor or Cursor(), sequences, Digest())
    return "".join(chr(token) if token else "|" for token in tokens.reshape(-1))


def test_an_epoch_reads_every_document_once_and_the_next_in_another_order(tmp_path: Path) -> None:
    write_words(tmp_path, 12)
    source = arm(tmp_path, length=6 * 12)
    words = stream(source, 4).split("|")
    first, second = words[:12], words[12:24]
    expected = [path.read_text() for path in sorted((tmp_path / "words").iterdir())]
    assert sorted(first) == sorted(second) == sorted(expected)
    assert first != second
    assert first != expected


def test_the_order_follows_from_the_seed(tmp_path: Path) -> None:
    write_words(tmp_path, 12)
    one, same, other = (stream(arm(tmp_path, seed=s), 9) for s in (1, 1, 2))
    assert one == same
    assert one != other


def test_going_on_from_any_cursor_gives_what_would_have_followed(tmp_path: Path) -> None:
    write_words(tmp_path, 5)
    source, again = arm(tmp_path), arm(tmp_path)
    cursor = Cursor()
    whole = stream(source, 40)
    for taken in range(30):
        assert stream(again, 10, cursor) == whole[5 * taken : 5 * taken + 50]
        _, cursor = source.take(cursor, 1, Digest())
    assert cursor.epoch > 3


def test_documents_kept_out_are_never_trained_on(tmp_path: Path) -> None:
    write_words(tmp_path, 12)
    source = arm(tmp_path, holdout=0.25, length=4)
    held = source.held_out(100)
    assert held is not None
    assert len(source) == 9
    letters = set(held.reshape(-1).tolist()) - {0}
    assert len(letters) == 3
    trained, _ = source.take(Cursor(), 100, Digest())
    assert letters & set(trained.reshape(-1).tolist()) == set()
    assert np.array_equal(held, arm(tmp_path, holdout=0.25, length=4).held_out(100))
    assert arm(tmp_path).held_out(3) is None


def test_the_digest_tells_documents_places_and_tokens_apart(tmp_path: Path) -> None:
    write_words(tmp_path, 6)

    def digest(cursor: Cursor, **settings: int) -> str:
        found = Digest()
        arm(tmp_path, **settings).take(cursor, 2, found)
        return found.text()

    first = digest(Cursor())
    assert first == digest(Cursor())
    assert len(first) == 16
    others = {first, digest(Cursor(0, 1, 0)), digest(Cursor(1, 0, 0)), digest(Cursor(0, 0, 1))}
    assert len(others | {digest(Cursor(), seed=1)}) == 5
    for path in (tmp_path / "words").iterdir():
        path.write_text(path.read_text().upper())
    assert digest(Cursor()) not in others


def test_a_failed_pull_takes_nothing_and_leaves_no_trace_in_the_digest(tmp_path: Path) -> None:
    write_words(tmp_path, 6)
    source = arm(tmp_path)
    source.take(Cursor(), 1, Digest())
    for path in (tmp_path / "words").iterdir():
        path.unlink()
    digest = Digest()
    with pytest.raises(SourceError, match="No such file"):
        source.take(Cursor(), 9, digest)
    assert digest.text() == Digest().text()


def test_bad_records_are_passed_over_and_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "words").write_text('{"text": "aaa"}\n{broken\n{"text": "bbb"}\n')
    settings = SourceSettings(path="words", kind="jsonl")
    source = Arm("w", open_documents(settings, tmp_path, 256, 3), length=4, seed=0, holdout=0.0)
    assert set(stream(source, 4).split("|")) == {"aaa", "bbb", ""}
    assert any("record 1 is no JSON" in remark for remark in source.remarks)


def test_an_arm_of_empty_documents_fails_its_pull(tmp_path: Path) -> None:
    (tmp_path / "words").write_text('{"text": ""}\n' * 50)
    settings = SourceSettings(path="words", kind="jsonl")
    source = Arm("w", open_documents(settings, tmp_path, 256, 3), length=4, seed=0, holdout=0.0)
    with pytest.raises(SourceError, match="documents in a row are empty"):
        source.take(Cursor(), 1, Digest())


def test_a_cursor_survives_its_record_and_a_change_of_the_data(tmp_path: Path) -> None:
    write_words(tmp_path, 6)
    source = arm(tmp_path)
    record = cursor_record(source, Cursor(3, 4, 2))
    assert read_cursor(source, record) == Cursor(3, 4, 2)
    for number in (4, 5):
        (tmp_path / "words" / f"{number:02}.txt").unlink()
    assert read_cursor(arm(tmp_path), record) == Cursor(3, 0, 0)
    with pytest.raises(ValueError, match="cannot use the cursor"):
        read_cursor(source, {"epoch": "0", "position": 0, "offset": 0})
