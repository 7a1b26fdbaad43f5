"""Documents of each kind are whole, and a bad one costs itself alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from trainer.contract.settings import SourceSettings
from trainer.sources import PIECE, BadDocumentError, Documents, SourceError, open_documents


def opened(root: Path, path: str, kind: str = "auto", vocabulary: int = 256) -> Documents:
    settings = SourceSettings.model_validate({"path": path, "kind": kind})
    return open_documents(settings, root, vocabulary, context=8)


def texts(documents: Documents) -> list[bytes]:
    """Every document's bytes, its separator taken off and asserted."""
    result = []
    for number in range(len(documents)):
        tokens = documents.read(number)
        assert len(tokens) == 0 or tokens[-1] == 0
        result.append(tokens[:-1].astype(np.uint8).tobytes())
    return result


def test_each_short_file_of_a_folder_is_a_document_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a.md", "sub/c.txt", ".hidden", "sub/.hidden/d.txt"):
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).write_text(name)
    assert texts(opened(tmp_path, "x")) == [b"a.md", b"b.txt", b"sub/c.txt"]


@pytest.mark.parametrize("size", [PIECE - 1, PIECE, PIECE + 1, 5 * PIECE, 5 * PIECE + 77])
@pytest.mark.parametrize("blank", [0, 50, 3000, 9000])
def test_the_pieces_of_a_long_file_are_the_file(tmp_path: Path, size: int, blank: int) -> None:
    letters = b"abcdefghijklmnopqrstuvwxyz"
    text = (letters * (size // 26 + 1))[:size]
    if blank:
        text = b"".join(text[i : i + blank - 2] + b"\n\n" for i in range(0, size, blank))[:size]
    (tmp_path / "long.txt").write_bytes(text)
    pieces = texts(opened(tmp_path, "long.txt"))
    assert b"".join(pieces) == text
    assert all(len(piece) <= 2 * PIECE for piece in pieces)
    if blank == 50 and size > 4 * PIECE:
        assert all(piece.endswith(b"\n\n") for piece in pieces[:-1])


def test_each_record_of_a_jsonl_file_is_a_document(tmp_path: Path) -> None:
    lines = [json.dumps({"text": text, "n": 1}) for text in ("one", "zwölf", "", "three")]
    (tmp_path / "r.jsonl").write_text("\n".join(lines[:3]) + "\n\n" + lines[3])
    documents = opened(tmp_path, "r.jsonl")
    assert texts(documents) == [b"one", "zwölf".encode(), b"", b"", b"three"]


@pytest.mark.parametrize("line", ["{torn", '{"no": "text"}', '{"text": 7}', '["text"]', "\xff"])
def test_a_bad_record_costs_itself_alone(tmp_path: Path, line: str) -> None:
    whole = '{"text": "whole"}\n'
    (tmp_path / "r.jsonl").write_bytes((whole + line + "\n" + whole).encode("latin-1"))
    documents = opened(tmp_path, "r.jsonl")
    with pytest.raises(BadDocumentError, match=r"r\.jsonl: record 1"):
        documents.read(1)
    assert len(documents.read(0)) == len(documents.read(2)) == 6


def test_a_shard_is_cut_into_runs_of_one_sequence(tmp_path: Path) -> None:
    np.arange(20, dtype="<u2").tofile(tmp_path / "s.bin")
    documents = opened(tmp_path, "s.bin")
    runs = [documents.read(number).tolist() for number in range(len(documents))]
    assert runs == [list(range(9)), list(range(9, 18)), [18, 19]]


def test_the_header_of_an_llm_c_shard_is_no_token(tmp_path: Path) -> None:
    header = np.zeros(256, dtype="<i4")
    header[:3] = (20240520, 1, 9)
    (tmp_path / "s.bin").write_bytes(header.tobytes() + np.arange(9, dtype="<u2").tobytes())
    assert opened(tmp_path, "s.bin").read(0).tolist() == list(range(9))


def test_a_token_outside_the_vocabulary_is_named(tmp_path: Path) -> None:
    np.array([5, 300, 7], dtype="<u2").tofile(tmp_path / "s.bin")
    with pytest.raises(SourceError, match=r"token 300 is not below the model's vocabulary of 256"):
        opened(tmp_path, "s.bin").read(0)
    assert opened(tmp_path, "s.bin", vocabulary=301).read(0).tolist() == [5, 300, 7]


def test_kinds_are_told_by_the_name_unless_given(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.jsonl").write_text('{"text": "record"}\n')
    (tmp_path / "x" / "b.txt").write_text("plain")
    assert texts(opened(tmp_path, "x")) == [b"record", b"plain"]
    assert texts(opened(tmp_path, "x", "text")) == [b'{"text": "record"}\n', b"plain"]


@pytest.mark.parametrize("kind", ["auto", "text", "jsonl", "tokens"])
def test_a_file_that_vanished_or_shrank_fails_its_reads_and_nothing_else(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "x").mkdir()
    for name in ("a", "b"):
        (tmp_path / "x" / name).write_text('{"text": "0123456789"}\n{"text": "9876543210"}\n')
    documents = opened(tmp_path, "x", kind, vocabulary=65536)
    last = len(documents) - 1
    documents.read(0)
    (tmp_path / "x" / "a").unlink()
    with pytest.raises(SourceError, match=r"cannot read .*/a: .*No such file"):
        documents.read(0)
    assert len(documents.read(last)) > 0
    (tmp_path / "x" / "b").write_text("")
    with pytest.raises(SourceError, match=r"cannot read .*/b: it had 46 bytes and is shorter now"):
        documents.read(last)


@pytest.mark.parametrize("kind", ["text", "jsonl"])
def test_a_file_that_grew_still_gives_what_it_had(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "grows.txt"
    path.write_text('{"text": "one"}\n')
    documents = opened(tmp_path, "grows.txt", kind)
    before = documents.read(0).tolist()
    with path.open("a") as file:
        file.write('{"text": "two"}\n')
    assert len(documents) == 1
    assert documents.read(0).tolist() == before


@pytest.mark.parametrize("path", ["missing", "empty", "void.txt"])
def test_a_source_without_documents_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "void.txt").write_text("")
    with pytest.raises(SourceError, match=f"^cannot (read|use) .*{path}: "):
        opened(tmp_path, path)


def test_a_shard_with_half_a_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.bin").write_bytes(b"abc")
    with pytest.raises(SourceError, match=r"s\.bin has 3 bytes, not two for each token"):
        opened(tmp_path, "s.bin")


def test_the_identity_changes_with_names_sizes_and_contents(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.txt").write_text("one")
    seen = {opened(tmp_path, "x").identity}
    shutil.copytree(tmp_path / "x", tmp_path / "copy")
    assert opened(tmp_path, "copy").identity in seen
    (tmp_path / "x" / "a.txt").write_text("two")
    seen.add(opened(tmp_path, "x").identity)
    (tmp_path / "x" / "a.txt").write_text("three")
    seen.add(opened(tmp_path, "x").identity)
    (tmp_path / "x" / "a.txt").rename(tmp_path / "x" / "b.txt")
    seen.add(opened(tmp_path, "x").identity)
    assert len(seen) == 4
