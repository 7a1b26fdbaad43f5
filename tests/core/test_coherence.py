"""Scores and verdicts of single texts: published numbers, other languages, odd bytes, bounds."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from supervisor.core.coherence.gate import JUDGED, WATCHING, GateState, sampled
from supervisor.core.coherence.judging import KEPT_CHARACTERS, Said, Verdict, judge
from supervisor.core.coherence.scores import measure
from supervisor.core.coherence.sketch import similarity, sketch
from supervisor.core.coherence.tokens import JUDGED_CHARACTERS, JUDGED_TOKENS, tokens
from tests.support.speech import COLLAPSED, healthy

SUPPORT = Path(__file__).parents[1] / "support"
LISTED = frozenset({"region", "games"})
LANGUAGES = json.loads((SUPPORT / "languages.json").read_text("utf-8"))
KOREAN = LANGUAGES["korean"]["spoken"]


def verdict(text: str, known: frozenset[str] | None = None) -> str:
    bar = WATCHING.bar._replace(words=known)
    return judge(Said(1, "say", text, 0.8), bar, ())[0].verdict


def test_the_published_collapses_score_what_was_computed_from_them() -> None:
    scores = [round(measure(text, LISTED)[0].score, 1) for text in COLLAPSED]
    assert scores == [22.9, 7.6, 22.9, 2.1]
    assert [verdict(text, LISTED) for text in COLLAPSED] == ["fail"] * 4


def test_a_short_loop_would_pass_so_it_is_not_judged() -> None:
    short = {n: round(measure("region " * n, LISTED)[0].score, 1) for n in (7, 9, 11)}
    assert short == {7: 35.1, 9: 31.7, 11: 29.7}
    assert verdict("region " * 31, LISTED) == Verdict.CANNOT
    assert verdict("region " * 32, LISTED) == Verdict.FAIL
    assert verdict("") == Verdict.CANNOT


def test_at_the_shortest_that_is_judged_a_loop_of_two_listed_words_fails() -> None:
    assert verdict("region games " * 16, LISTED) == Verdict.FAIL


def test_without_a_word_list_that_part_is_left_out_and_the_rest_rescaled() -> None:
    text = "region " * 120
    with_list, without = measure(text, LISTED)[0], measure(text)[0]
    assert with_list.words == 20.0
    assert without.words is None
    assert without.score == pytest.approx((with_list.score - 20.0) / 0.8)
    assert "words" not in dict(judge(Said(1, "", text, 0.8), WATCHING.bar, ())[0].scores)


@pytest.mark.parametrize("seed", range(20))
def test_healthy_english_passes_with_and_without_a_word_list(seed: int) -> None:
    text = healthy(random.Random(seed))  # noqa: S311 - chance that can be repeated
    assert verdict(text) == Verdict.PASS
    assert verdict(text, LISTED) == Verdict.PASS
    assert measure(text)[0].score > 60


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_passes_as_it_is_spoken_and_fails_as_a_loop(language: str) -> None:
    spoken, looped = LANGUAGES[language].values()
    assert verdict(spoken) == Verdict.PASS
    assert verdict(spoken, LISTED) == Verdict.PASS, "though no word of it is in the list"
    assert measure(spoken)[0].score > 55
    assert verdict(looped * 120) == Verdict.FAIL


def test_words_are_whole_in_scripts_with_signs_and_characters_where_there_are_no_spaces() -> None:
    assert [token.text for token in tokens("हिन्दी में don't, STOP!")] == [
        "हिन्दी",
        "में",
        "don't",
        ",",
        "stop",
        "!",
    ]
    assert [token.text for token in tokens("漢字かな。")] == ["漢", "字", "か", "な", "。"]
    assert [token.text for token in tokens("ดีครับ")] == ["ดี", "ค", "รั", "บ"]


@pytest.mark.parametrize(
    "text",
    ["a" * 300, "ab" * 200, "." * 300, "\ufffd" * 300, "\0" * 300, "\ufffd\ufffdq " * 90],
    ids=["a", "ab", "dots", "replacement", "nul", "cut bytes"],
)
def test_a_loop_without_spaces_and_bytes_that_are_no_text_fail(text: str) -> None:
    assert verdict(text) == Verdict.FAIL


def test_varied_garbage_fails_and_a_text_cut_in_mid_character_does_not() -> None:
    rng = random.Random(5)  # noqa: S311 - chance that can be repeated
    garbage = bytes(rng.randrange(128, 256) for _ in range(900)).decode("utf-8", "replace")
    assert measure(garbage)[0].score > 30, "it is as varied as can be"
    assert verdict(" ".join(garbage[at : at + 6] for at in range(0, 300, 6))) == Verdict.FAIL
    cut = KOREAN.encode()[:-2].decode("utf-8", "replace")
    assert cut.endswith("\ufffd")
    assert verdict(cut) == Verdict.PASS


def test_a_small_alphabet_costs_points_but_no_verdict() -> None:
    text = healthy(random.Random(1))  # noqa: S311 - chance that can be repeated
    few = text.casefold().translate({ord(c): "aeioulmn"[ord(c) % 8] for c in "bcdfghjkpqrstvwxyz"})
    assert measure(few)[0].characters < 10
    assert verdict(few) == Verdict.PASS


def test_other_numbers_show_what_the_score_does_not_name() -> None:
    loop, spoken = measure("one two " * 60)[0], measure(KOREAN)[0]
    assert (loop.run, loop.top, round(loop.rep_4, 2)) == (1, 0.5, 0.98)
    assert measure("well " * 40)[0].run == 40
    assert loop.compressed < 0.1 < spoken.compressed
    assert loop.distinct_1 < 0.05 < spoken.distinct_1
    assert spoken.script == 1.0
    assert measure("слово world")[0].script == 0.5
    assert (spoken.garbled, measure("\ufffd\0ab")[0].garbled) == (0.0, 0.5)


def test_texts_that_share_their_triples_are_similar() -> None:
    one, other = (sketch(healthy(random.Random(n)).split()) for n in (1, 2))  # noqa: S311 - repeatable
    assert similarity(one, one) == 1.0
    assert similarity(one, other) < 0.2
    assert similarity((), one) == similarity(one, ()) == 0.0


def test_the_work_is_bounded_and_the_end_of_a_long_text_is_what_counts() -> None:
    rng = random.Random(3)  # noqa: S311 - chance that can be repeated
    spoken = healthy(rng, 60_000)
    assert len(tokens(spoken)) == JUDGED_TOKENS
    assert measure(spoken)[0] == measure(spoken[-JUDGED_CHARACTERS:])[0]
    assert verdict(spoken + COLLAPSED[0] * 10) == Verdict.FAIL
    assert verdict(COLLAPSED[0] * 10 + spoken) == Verdict.PASS
    kept = judge(Said(1, "p" * (1 << 20), "\0" * (1 << 20), 0.8), WATCHING.bar, ())[0]
    assert (len(kept.text), len(kept.prompt)) == (KEPT_CHARACTERS, KEPT_CHARACTERS)
    assert kept.characters == 1 << 20


def test_of_a_hundred_samples_of_one_step_only_some_are_looked_at() -> None:
    gate, text = GateState(), "\U0001d54f é\0" * 50_000
    began = time.thread_time()
    for n in range(100):
        gate = sampled(gate, WATCHING, Said(1, str(n), text, 0.8), 1, newest=1)
    assert time.thread_time() - began < 5
    assert gate.open is not None
    verdicts = [sample.verdict for sample in gate.open.waiting]
    assert verdicts == ["fail"] * JUDGED + [""] * (100 - JUDGED)
