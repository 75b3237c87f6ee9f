"""Classifies the final message of a turn: done, question, progress, failed, blocked or unclear. Pure."""

from sm.core.completion_pattern import CompletionPattern
from sm.core.turns import Classification, Ending, TurnFacts
from sm.monitor.completion.classifier import classify
from sm.monitor.completion.message_summary import summary
from sm.monitor.completion.turn_end import read_turn_end

__all__ = [
    "Classification",
    "CompletionPattern",
    "Ending",
    "TurnFacts",
    "classify",
    "read_turn_end",
    "summary",
]
