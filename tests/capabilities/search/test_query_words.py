"""The excerpt of a found text: it shows the words as the search index matches them."""

import sqlite3
from contextlib import closing

import pytest

from sm.capabilities.search.query_words import EXCERPT_MAX, excerpt, searched_words
from sm.capabilities.search.tables import fts_query

LONG = "intro " * 200
CASES = [
    ("naive", "a naïve approach", "naïve"),
    ("naïve", "a naive approach", "naive"),
    ("naïve", "a nai\u0308ve approach", "nai\u0308ve"),
    ("NAIVE", "a Naïve approach", "Naïve"),
    ("BUILD-42", "the build_42 failed", "build_42"),
    ("build.42", "the Build: 42 failed", "Build: 42"),
    ("don't", "we don\N{RIGHT SINGLE QUOTATION MARK}t know", "don\N{RIGHT SINGLE QUOTATION MARK}t"),
    ("config*", "the Configuration is new", "Configuration"),
    ('"quoted', 'he said "quoted" twice', "quoted"),
    ("/etc/passwd", "reads /etc/passwd now", "/etc/passwd"),
    ("log", "the catalog has a log of all", "log of all"),
    ("ПРИВЕТ", "она сказала привет", "привет"),
    ("a-b-c-d-e", "a_b_c_d_e is a name", "a_b_c_d_e"),
    ("漢字", "see 漢字 here", "漢字"),
]


@pytest.mark.parametrize(("words", "text", "shown"), CASES)
def test_excerpt_shows_the_word_that_the_index_finds(words: str, text: str, shown: str) -> None:
    whole = f"{LONG}{text} {LONG}"
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE found USING fts5 (text)")
        db.execute("INSERT INTO found VALUES (?)", (whole,))
        assert db.execute("SELECT 1 FROM found WHERE found MATCH ?", (fts_query(words),)).fetchall()
    cut = excerpt(whole, searched_words(words))
    assert cut.startswith("…")
    assert shown in cut
    assert len(cut) <= EXCERPT_MAX + 1


def test_excerpt_begins_at_the_first_of_the_words() -> None:
    text = f"{LONG}alpha {LONG}beta {LONG}"
    assert "alpha" in excerpt(text, ["beta", "alpha"])
    assert "beta" in excerpt(text, ["gamma", "beta"])


@pytest.mark.parametrize("text", [LONG, LONG + "alphabet", "", "no such word"])
def test_excerpt_is_the_beginning_of_a_text_without_the_words(text: str) -> None:
    assert excerpt(text, ["alpha", "***", ""]) == excerpt(text, [])
    assert not excerpt(text, []).startswith("…")


@pytest.mark.parametrize(
    "text", ["a\u0301" * 10_000, "a" + "\u0301" * 20_000, "a" + " " * 20_000, "a " * 10_000, "a-" * 10_000]
)
def test_excerpt_of_a_hostile_text_takes_linear_time(text: str) -> None:
    assert excerpt(text, ["a-a-b"] * 20)
