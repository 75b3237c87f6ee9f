"""Reads the background work of claude: what still runs at the end of a turn, and the texts that wake it. Pure.

Measured with 2.1.197 and 2.1.332. Each kind starts a turn by itself when it ends; a monitor does for each line.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sm.providers.claude import values

_AGENTS = ("subagent", "workflow")
"""claude calls itself busy while one of them runs. With the others it calls itself idle."""
_NAMES = {"subagent": "sub-agents", "workflow": "workflows", "shell": "shells", "monitor": "monitors",
          "MCP task": "MCP tasks"}  # fmt: skip
_OTHER = "other tasks"
_NOTIFICATION = re.compile(
    r"\s*(?:<system-reminder>\s*)?(?:\[SYSTEM NOTIFICATION[^\]\n]{0,60}\]\s*)?<task-notification>"
)
"""The model gets it in a reminder, and by its changelog versions since 2.1.234 put a line before it. Hooks and
transcripts have begun with the element itself so far."""
_BY_CLAUDE = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
"""Values of `source` of a prompt that nobody entered, from the program. 2.1.332 left it out of all prompts that were
measured, also of a scheduled one."""


@dataclass(frozen=True, slots=True)
class BackgroundWork:
    agents: int
    """Sub-agents and workflows: the agent as a whole still works."""
    others: int
    """Shells, monitors, calls of MCP tools, other tasks, and wake-ups that the agent has scheduled."""
    text: str
    """`sub-agents in the background: 1`; empty: nothing runs."""


def background_work(payload: Mapping[str, Any]) -> BackgroundWork:
    """Read the work that is left at the end of a turn. `payload`: of the Stop hook."""
    tasks = values.blocks(payload.get("background_tasks"))
    kinds = Counter(values.string(task.get("type")) for task in tasks if task.get("status") == "running")
    agents = sum(kinds[kind] for kind in _AGENTS)
    wake_ups = len(values.blocks(payload.get("session_crons")))
    counts = [(name, kinds[kind]) for kind, name in _NAMES.items()]
    counts.append((_OTHER, kinds.total() - sum(count for _, count in counts)))
    texts = [f"{name} in the background: {count}" for name, count in counts if count]
    texts += [f"scheduled wake-ups: {wake_ups}"] if wake_ups else []
    return BackgroundWork(agents, kinds.total() - agents + wake_ups, ", ".join(texts))


def is_notification(text: str) -> bool:
    """Return whether a prompt is the report of background work, which nobody entered."""
    return _NOTIFICATION.match(text) is not None


def is_entered(payload: Mapping[str, Any]) -> bool:
    """Return whether somebody entered the prompt of a UserPromptSubmit hook."""
    source = values.string(payload.get("source"))
    return source not in _BY_CLAUDE and not is_notification(values.string(payload.get("prompt")))
