"""Decides what the final message of a turn says about the session's task."""

from collections.abc import Sequence
from dataclasses import replace

from sm.capabilities.completion.model import Classification, Ending, TurnFacts
from sm.capabilities.completion.patterns import CompletionPattern
from sm.capabilities.completion.rules.ending_rules import CERTAIN, RULES
from sm.capabilities.completion.rules.judgement import JudgedTurn

_NO_FACTS = TurnFacts()


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
    turn = JudgedTurn.of(text, task, facts, patterns)
    now: Classification | None = None
    for rule in RULES:
        if (rule.yields and turn.support.probability >= CERTAIN) or (rule.passes and now is not None):
            continue
        quote = rule.find(turn)
        if quote is None:
            continue
        found = Classification(rule.ending, rule.name, quote)
        if not rule.passes:
            return found if now is None else replace(now, later=found)
        now = found
    told = turn.message.sentences
    found = Classification(Ending.UNCLEAR, "nothing-decides", turn.message.quote(told[0]) if told else "")
    return found if now is None else replace(now, later=found)
