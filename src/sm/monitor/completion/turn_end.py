"""Reads the end of a turn. The daemon and `python -m bench completion` both call this, so they classify alike."""

from collections.abc import Sequence

from sm.core.completion_pattern import CompletionPattern
from sm.core.task_text import task_of
from sm.core.turns import TurnEnd, TurnFacts, cut_message
from sm.monitor.completion.classifier import classify
from sm.monitor.completion.message_summary import summary


def read_turn_end(
    text: str, prompt: str, facts: TurnFacts, patterns: Sequence[CompletionPattern] = ()
) -> TurnEnd:
    """Read the final message `text` of a turn. `prompt`: the last one that gave the agent a task."""
    text = cut_message(text)
    said = classify(text, task_of(prompt) or prompt, facts, patterns)
    return TurnEnd(said, summary(text), facts.background)
