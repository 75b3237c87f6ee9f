"""Reads the end of a turn. The daemon and `python -m bench completion` both call this, so they classify alike."""

import re
from collections.abc import Sequence
from dataclasses import replace

from sm.capabilities.completion.model import Classification, Ending, TurnEnd, TurnFacts
from sm.capabilities.completion.patterns import CompletionPattern
from sm.capabilities.completion.rules.ending_rules import CERTAIN, RULES
from sm.capabilities.completion.rules.judgement import JudgedTurn
from sm.core.task_text import task_of
from sm.core.turns import cut_message

SUMMARY_MAX = 500
_LOOKED_AT = 8 * SUMMARY_MAX

_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})")
_HEADING = re.compile(r"\s*#{1,6}\s|\s*\*\*[^*]{1,80}\*\*:?\s*$")
_MARKS = re.compile(r"\s*(?:#{1,6}\s+|(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?|>\s?)*")
_EMPHASIS = re.compile(r"(?<!\w)\*{1,3}(?=\S)|(?<=\S)\*{1,3}(?!\w)")
_RULE = re.compile(r"\s*[-=*_|:\s]{3,}$")
_NO_FACTS = TurnFacts()


def summary(text: str) -> str:
    """The first paragraph of `text` without Markdown marks, on one line of at most 500 characters.

    Headings and code count only in a message that has nothing else.
    """
    begin = text[:_LOOKED_AT]
    joined = _paragraph(begin, code=False, headings=False) or _paragraph(begin, code=True, headings=True)
    return joined if len(joined) <= SUMMARY_MAX else joined[: SUMMARY_MAX - 1] + "…"


def _paragraph(text: str, *, code: bool, headings: bool) -> str:
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            words = ""
        elif (fenced and not code) or _RULE.match(line) or (not headings and _HEADING.match(line)):
            words = ""
        else:
            words = " ".join(_EMPHASIS.sub("", _MARKS.sub("", line, count=1)).split())
        if words:
            lines.append(words)
        elif lines:
            break
    return " ".join(lines)


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


def read_turn_end(
    text: str, prompt: str, facts: TurnFacts, patterns: Sequence[CompletionPattern] = ()
) -> TurnEnd:
    """Read the final message `text` of a turn. `prompt`: the last one that gave the agent a task."""
    text = cut_message(text)
    said = classify(text, task_of(prompt) or prompt, facts, patterns)
    return TurnEnd(said, summary(text), facts.background)
