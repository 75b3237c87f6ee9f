"""Decides what the final message of a turn says about the session's task."""

import re
from collections.abc import Sequence

from sm.core.completion_pattern import CompletionPattern
from sm.core.turns import QUOTE_MAX, Classification, Ending, TurnFacts

_DONE = re.compile(r"^\W*(?:all )?(?:done|finished|completed?)\b", re.IGNORECASE)


def classify(
    text: str,
    task: str = "",
    facts: TurnFacts = TurnFacts(),  # noqa: B008 (frozen)
    patterns: Sequence[CompletionPattern] = (),
) -> Classification:
    """Classify the final message `text` of a turn.

    Never raises, and takes time linear in the length of `text`. When in doubt the ending is `unclear`: a false `done`
    would end a session that is not done. `patterns` are hints of the user and never enough alone.
    """
    last = text.strip().rpartition("\n")[2].strip()
    if facts.failure is not None or facts.interrupted:
        return Classification(Ending.FAILED if facts.failure else Ending.UNCLEAR, "turn-not-finished", "")
    if last.endswith("?"):
        return Classification(Ending.QUESTION, "question-at-end", last[:QUOTE_MAX])
    if _DONE.match(last):
        return Classification(Ending.DONE, "done-statement", last[:QUOTE_MAX])
    return Classification(Ending.UNCLEAR, "nothing-decides", last[:QUOTE_MAX])
