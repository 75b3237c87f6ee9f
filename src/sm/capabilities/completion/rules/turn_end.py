"""Reads the end of a turn. The daemon and `python -m bench completion` both call this, so they classify alike."""

from collections.abc import Sequence

from sm.capabilities.completion.model import TurnEnd, TurnFacts
from sm.capabilities.completion.patterns import CompletionPattern
from sm.capabilities.completion.rules.classifier import classify
from sm.capabilities.completion.rules.message_summary import summary
from sm.core.task_text import task_of
from sm.core.turns import cut_message


def read_turn_end(
    text: str, prompt: str, facts: TurnFacts, patterns: Sequence[CompletionPattern] = ()
) -> TurnEnd:
    """Read the final message `text` of a turn. `prompt`: the last one that gave the agent a task."""
    text = cut_message(text)
    said = classify(text, task_of(prompt) or prompt, facts, patterns)
    return TurnEnd(said, summary(text), facts.background)
