"""The facts of a session that its transcripts show: one JSON object in the store, changed by each read."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from sm.core.turns import TurnWork
from sm.core.usage import ToolUse, is_same_model
from sm.monitor.blocks import TranscriptBlock

OF_CONVERSATION = frozenset({"todo", "failed", "context_tokens", "answer", "calls", "grew_at", "work"})
"""Facts to drop when the session starts another conversation."""
_WORK = tuple(field.name for field in fields(TurnWork))


def work_of(facts: Mapping[str, Any]) -> TurnWork:
    """The agent's work in its last turn, by its transcript. `facts`: measured facts of the session."""
    stored = facts.get("work", {})
    return TurnWork(**{name: stored[name] for name in _WORK if name in stored})


def follow_conversation(
    facts: dict[str, Any], path: str, block: TranscriptBlock, *, counts_tokens: bool
) -> None:
    """Change `facts` by new lines of the current conversation, whose transcript is at `path`."""
    delta = block.delta
    facts["transcript"] = path
    facts.pop("failed", None)
    if delta.failed:
        facts["failed"] = True
    facts["work"] = asdict(delta.work)
    facts["todo"] = [{"content": t.content, "status": t.status, "id": t.id} for t in delta.todo]
    if delta.answer is not None:
        facts["answer"] = delta.answer
    if delta.context_tokens is not None and counts_tokens:
        facts["context_tokens"] = delta.context_tokens
    elif any(used.is_unread and not used.sidechain for used in delta.usage):
        facts.pop("context_tokens", None)
    if block.model is not None and not is_same_model(facts.get("model"), block.model):
        facts["model"] = block.model  # a person has chosen another model
    if delta.version:
        facts["version"] = delta.version


def follow_newest_tool(facts: dict[str, Any], newest: ToolUse, now: str) -> None:
    """Keep the newest use of a tool in `facts`. `now`: a time as in transcripts."""
    # Ignore a future time: it would block every later tool use.
    last_at = facts["last_tool"]["timestamp"] if "last_tool" in facts else ""
    if newest.at >= (last_at if last_at <= now else ""):
        kept = replace(newest, at=min(newest.at, now))
        facts["last_tool"] = {"name": kept.name, "args": dict(kept.arguments), "timestamp": kept.at}
