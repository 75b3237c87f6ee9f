"""Decides what the final message of a turn says about the session's task."""

from collections.abc import Sequence

from sm.core.completion_pattern import CompletionPattern
from sm.core.turns import Classification, Ending, TurnFacts
from sm.monitor.completion.message import read_message
from sm.monitor.completion.rules import RULES
from sm.monitor.completion.turn import Turn
from sm.monitor.completion.words import languages

_NO_FACTS = TurnFacts()
_LANGUAGE_SAMPLE = 4


def classify(
    text: str,
    task: str = "",
    facts: TurnFacts = _NO_FACTS,
    patterns: Sequence[CompletionPattern] = (),
) -> Classification:
    """Classify the final message `text` of a turn.

    Never raises, and takes time linear in the length of `text`. When in doubt the ending is `unclear`: a false `done`
    would end a session that is not done. `patterns` are hints of the user and never enough alone.
    """
    message = read_message(text)
    told = message.sentences
    sample = " ".join(
        sentence.words for sentence in told[:_LANGUAGE_SAMPLE] + told[_LANGUAGE_SAMPLE:][-_LANGUAGE_SAMPLE:]
    )
    turn = Turn(message, task, facts, patterns, languages(sample))
    for rule in RULES:
        quote = rule.find(turn)
        if quote is not None:
            return Classification(rule.ending, rule.name, quote)
    return Classification(Ending.UNCLEAR, "nothing-decides", message.quote(told[0]) if told else "")
