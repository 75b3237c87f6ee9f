"""Rules for success: the claims of the message, and the trust of the model in the whole of it."""

import re

from sm.capabilities.completion.rules import questions
from sm.capabilities.completion.rules.judgement import JudgedTurn
from sm.capabilities.completion.rules.linear_model import weakest_place
from sm.capabilities.completion.rules.message import Part

STATED = 0.6
"""The least support of a message that states that the task is done."""
ENOUGH = 0.82
"""The least support of other messages."""
PLAIN, PLAIN_DONE = 0.6, 0.15
"""The least support of a short message in which each sentence tells of success, and none of anything else: in general,
and with the words `done` or `all tests pass`."""
ANSWERED = 0.74
"""The least support of a text that was the task."""
SILENT = 0.88
"""The least support of a message without any word of success."""
ASKS = 0.5
"""The least probability of a question that needs an answer."""
FAILS, FAILS_WITH_ERRORS = 0.6, 0.4
"""The least probability of a message that tells of a failure in words that no phrase of the vocabulary has."""
MAY_FAIL = 0.4
"""A message that tells of a failure with this probability is not done."""


def question(turn: JudgedTurn) -> str | None:
    found = questions.question(turn)
    return found if found is not None and turn.asks >= ASKS else None


def request(turn: JudgedTurn) -> str | None:
    found = questions.asked(turn)
    return found if found is not None and turn.asks >= ASKS else None


def doubtful_question(turn: JudgedTurn) -> str | None:
    """A question that needs no answer for the model, in a message that is not certain either."""
    found = questions.question(turn)
    return questions.asked(turn) if found is None else found


def failure(turn: JudgedTurn) -> str | None:
    """A failure or an obstacle in words that no phrase has. In an answer it is what the task asked about."""
    least = FAILS_WITH_ERRORS if turn.facts.errors else FAILS
    return None if turn.inquiry or turn.fails < least else _weakest_words(turn)


def done_statement(turn: JudgedTurn) -> str | None:
    return None if turn.done is None or not _is_supported(turn, STATED) else turn.quote(turn.done)


_PLAIN_SENTENCES, _PLAIN_MAX = 3, 160
_NOT_PLAIN = frozenset({"#fail", "#cannot", "#remain", "#yet", "#wait", "#next", "#will", "#need", "#doubt", "#but",
    "#part", "a part of them", "failures"})  # fmt: skip


def plain_statement(turn: JudgedTurn) -> str | None:
    """A short message that only tells of success: `Fixed. All tests pass.` Numbers in the task do not matter."""
    told = turn.message.sentences
    if not 0 < len(told) <= _PLAIN_SENTENCES or len(turn.message.text) > _PLAIN_MAX:
        return None
    if not all(turn.claimed(sentence) for sentence in told) or _NOT_PLAIN & set(turn.features):
        return None
    least = PLAIN if turn.done is None and "#pass" not in turn.features else PLAIN_DONE
    return turn.message.quote(told[0]) if _is_supported(turn, least) else None


def last_tool_failed(turn: JudgedTurn) -> str | None:
    return turn.quote(turn.work) if turn.work is not None and turn.facts.last_tool_failed else None


def work_report(turn: JudgedTurn) -> str | None:
    return None if turn.work is None or not _is_supported(turn) else turn.quote(turn.work)


def answer(turn: JudgedTurn) -> str | None:
    """A text that was the task, such as an explanation or a plan."""
    return _first_words(turn) if turn.inquiry and _is_supported(turn, ANSWERED) else None


def result(turn: JudgedTurn) -> str | None:
    """A result in words that no language of the vocabulary knows as a claim, such as `2.8 s → 45 ms`."""
    if turn.facts.last_tool_failed or not turn.message.sentences or turn.is_conditional:
        return None
    least = ENOUGH if _SUCCESS & set(turn.features) else SILENT
    return _first_words(turn) if _is_supported(turn, least) else None


_SUCCESS = frozenset({"#done", "#change", "#pass", "an improvement"})


def doubtful(turn: JudgedTurn) -> str | None:
    """A claim or an answer that the message does not support: quotes the words that speak most against it."""
    return None if turn.work is None and not turn.inquiry else _weakest_words(turn)


def _weakest_words(turn: JudgedTurn) -> str:
    weakest = turn.support.weakest
    if weakest is None:
        return turn.message.first_words
    return turn.message.quote(weakest.sentence, weakest_place(weakest))


def _is_supported(turn: JudgedTurn, least: float = ENOUGH) -> bool:
    return turn.support.probability >= least and turn.fails < MAY_FAIL


def _first_words(turn: JudgedTurn) -> str:
    told = turn.message.sentences
    return turn.message.quote(told[0]) if told else turn.message.first_words


_TORN = re.compile(
    r"(?:\b(?:the|a|an|in|of|to|and|or|is|are|with|for|by|from|at|on|that|which|this|its?|i|we|but|"
    r"because|if|when|"
    r"into|then|so|der|die|das|und|mit|le|la|les|de|et|el|los|y|que|il|e|di|w|z|и|в|на|с)|,|\()$"
)

_LONGEST_TORN = len("because")


def broken_off(turn: JudgedTurn) -> str | None:
    """A text that ends in the middle of a sentence."""
    text = turn.message.text.rstrip()
    told = turn.message.sentences
    if not told or told[-1].part is Part.HEADING:
        return None
    last = told[-1]
    if last.start + len(last.words) < len(text) - 3:
        return None  # code or a table follows
    torn = _TORN.search(last.words, max(len(last.words) - _LONGEST_TORN, 0)) or last.words.endswith(":")
    return turn.message.quote(last, max(len(last.words) - 40, 0)) if torn else None
