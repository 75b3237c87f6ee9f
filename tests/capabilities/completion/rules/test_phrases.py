"""The search for phrases: one expression for each kind."""

import re
from functools import cache

import pytest

from sm.capabilities.completion.model import TurnFacts
from sm.capabilities.completion.rules.judgement import JudgedTurn
from sm.capabilities.completion.rules.message import Part, Sentence
from sm.capabilities.completion.rules.phrases import Phrases
from sm.capabilities.completion.rules.words import ENGLISH, KINDS, Words
from sm.capabilities.completion.rules.words.asian import CHINESE
from tests.capabilities.completion.rules.corpus import endings

_BLANK = re.compile(r"\[(?:\\.|[^\]])*\]| [*?]?")
_BLANKS = {" ": " +", " ?": " *"}
SEARCHED = tuple(kind for kind in KINDS if kind != "inquiry")


@cache
def expressions(words: Words, kind: str) -> list[re.Pattern[str]]:
    """Each phrase alone, for a search of the whole sentence."""
    found = []
    for phrase in words.phrases(kind):
        phrase = _BLANK.sub(lambda part: _BLANKS.get(part[0], part[0]), phrase)
        if words.whole_words:
            phrase = rf"(?<!\w)(?:{phrase})(?!\w)" if phrase[0] != "^" else rf"(?:{phrase})(?!\w)"
        found.append(re.compile(phrase))
    return found


def searched(words: Words, text: str) -> list[str]:
    """The kinds of phrases in the sentence, by a search for every phrase."""
    return [kind for kind in SEARCHED if any(phrase.search(text) for phrase in expressions(words, kind))]


def sentence(words: str) -> Sentence:
    return Sentence(0, words, Part.PROSE, aside=False)


def kinds(words: Words, text: str) -> list[str]:
    found = Phrases((words,))
    return [kind for kind in SEARCHED if any(found.find(kind, [sentence(text)]))]


def test_search_skips_no_phrase_that_a_sentence_has() -> None:
    for ending in endings("held_out")[::4]:
        turn = JudgedTurn.of(ending["text"], ending["task"], TurnFacts())
        for told in turn.message.sentences[:8]:
            for words in turn.languages:
                assert kinds(words, told.words) == searched(words, told.words), told.words


def test_search_finds_a_phrase_when_its_words_are_far_apart() -> None:
    assert kinds(ENGLISH, "all    set") == ["done"]
    assert kinds(ENGLISH, "let    me   know if that is fine") == kinds(ENGLISH, "let me know if that is fine")


def found(words: Words, kind: str, text: str) -> list[str]:
    """The phrases of `kind` in the sentence `text`."""
    return [one.words for one in Phrases((words,)).find(kind, [sentence(text)])]


MADE = Words(
    done="all set; all set now; ^ready",
    work="(?:the )?tests pass; tests pass (?:and|or) build; i added",
    unless="not; isn't",
)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("done", "all set now", ["all set"]),  # the first of the list, not the longest
        ("done", "it is all set, all set", ["all set", "all set"]),
        ("done", "small set", []),
        ("done", "all settled", []),
        ("done", "all_set", []),
        ("done", "(all set)", ["all set"]),
        ("done", "all-set", []),
        ("done", "ready", ["ready"]),
        ("done", "not ready", []),
        ("work", "the tests pass and build", ["the tests pass", "tests pass"]),
        ("work", "i     added", ["i     added"]),
        ("work", "i added\u0301", ["i added"]),
        ("unless", "it isn't", ["isn't"]),
        ("unless", "it isn't's", ["isn't"]),
        ("unless", "'not'", ["not"]),
        ("unless", "n't", []),
        ("ask", "(all set)", []),
    ],
)
def test_phrase_is_found_at_every_word_at_which_it_begins(kind: str, text: str, expected: list[str]) -> None:
    assert found(MADE, kind, text) == expected


def test_phrases_of_a_language_without_blanks_are_found_inside_words_one_after_the_other() -> None:
    wide = Words(whole_words=False, done="完成; 完成了; 成了; done", work="已[^，]{0,9}修复; 修复了")
    assert found(wide, "done", "任务完成了，完成") == ["完成", "完成"]
    assert found(wide, "done", "undone") == ["done"]
    assert found(wide, "work", "已经修复了，修复了") == ["已经修复", "修复了"]
    assert found(CHINESE, "work", "所有测试均已通过") == ["测试均已通过"]
