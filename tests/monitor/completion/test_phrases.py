"""The search for phrases, which tries few of them in a sentence."""

import re
from functools import cache

from sm.core.turns import TurnFacts
from sm.monitor.completion.judgement import JudgedTurn
from sm.monitor.completion.message import Part, Sentence
from sm.monitor.completion.phrases import Phrases
from sm.monitor.completion.words import ENGLISH, KINDS, Words
from tests.monitor.completion.corpus import endings

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
