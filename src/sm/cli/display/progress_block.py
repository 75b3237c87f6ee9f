"""Formats the progress of one session. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo

from sm.cli.display.sums import estimate_words, tree_lines
from sm.core.figures import dollars
from sm.core.lines import JsonObject, age, agent_line, checkpoint_line, line
from sm.core.session_lines import pause_state, paused_words
from sm.core.timestamps import span

_TODO_MAX = 12
_STATUSES = {"working": "running"}
_BOXES = {"completed": "x", "in_progress": ">"}


def progress_block(
    progress: JsonObject, now: datetime, zone: tzinfo | None, *, watched: bool = False
) -> list[str]:
    """Format the output of `sm progress`. Fields without a measurement have no line.

    `watched`: show the status in the word of the other commands. A snapshot has the word of its JSON.
    """
    name = line(progress.get("name") or progress["session_id"])
    elapsed = span(progress["elapsed_seconds"])
    status = line(_STATUSES.get(progress["status"], progress["status"]) if watched else progress["status"])
    pause = progress.get("paused")  # an older daemon says nothing of it
    if pause:
        status = f"{pause_state(pause)} ({status})"
    lines = [f"{name} ({progress['session_id']}) | {status} | {elapsed} elapsed"]
    if pause:
        lines.append(f"Paused: {paused_words(progress, now)}")
    lines += _tokens(progress)
    if progress.get("tools_used"):
        used = " ".join(f"{line(tool)}({count})" for tool, count in progress["tools_used"].items())
        lines.append(f"Tools: {used}")
    if progress.get("current_activity"):
        lines.append(f"Status: {line(progress['current_activity'])}")
    if progress.get("last_tool"):
        lines.append(_last_tool(progress["last_tool"], now))
    if progress.get("cost_usd") is not None:
        lines.append(f"Cost: {dollars(progress['cost_usd'])}")
    estimate = estimate_words(progress.get("estimate"))  # an older daemon has none
    if estimate:
        lines.append(f"Estimate: {estimate}")
    if progress.get("permission_mode"):
        source = progress["permission_source"]
        lines.append(
            f"Permission mode: {line(progress['permission_mode'])}{f' ({line(source)})' if source else ''}"
        )
    if progress.get("context_percent") is not None:
        lines.append(f"Context: {progress['context_percent']}% of {progress['context_window']:,} tokens")
    if progress.get("completion_message"):
        lines.append(f'Result: "{line(progress["completion_message"])}"')
    lines += tree_lines(progress)
    if progress.get("todo"):
        lines += ["", *_todo(progress["todo"])]
    if progress.get("checkpoints"):
        lines += ["", "Checkpoints:"]
        lines += [f"  {checkpoint_line(checkpoint, now, zone)}" for checkpoint in progress["checkpoints"]]
    output = [agent_line(text) for text in progress.get("last_output") or []][-10:]
    if output:
        lines += ["", "Last output:"]
        lines += [f"  {text}" for text in output]
    return lines


def _tokens(progress: JsonObject) -> list[str]:
    used = progress.get("tokens_used")
    percentage = progress.get("completion_percentage")
    if used is None and progress.get("tokens_partial"):
        done = "" if percentage is None else f" ({percentage}%)"
        return [f"Tokens: unknown{done}, because those of some answers cannot be read"]
    if used is None:
        return [] if percentage is None else [f"Done: {percentage}%"]
    text = f"Tokens: {used:,}"
    remaining = progress.get("tokens_remaining_estimate")
    if remaining is not None:
        text += f" / ~{used + remaining:,} est"
    if percentage is not None:
        text += f" ({percentage}%)"
    subagents = (progress.get("subagents") or {}).get("tokens") or {}
    by_subagents = subagents.get("input", 0) + subagents.get("output", 0)
    return [f"{text}, {by_subagents:,} of them by sub-agents" if by_subagents else text]


def _last_tool(tool: JsonObject, now: datetime) -> str:
    arguments = tool.get("args") or {}
    target = next((str(value) for value in arguments.values()), "") if isinstance(arguments, Mapping) else ""
    arrow = f" → {line(target, 80)}" if target else ""
    return f"Last tool: {line(tool['name'])}{arrow} ({age(tool.get('timestamp'), now)})"


def _todo(entries: Sequence[JsonObject]) -> list[str]:
    """Format the agent's task list; of a long list the part around the first open task."""
    done = [entry["status"] == "completed" for entry in entries]
    first = max(0, min([*done, False].index(False) - 2, len(entries) - _TODO_MAX))
    part = entries[first : first + _TODO_MAX]
    lines = [f"  [{_BOXES.get(entry['status'], ' ')}] {line(entry['text'], 200)}" for entry in part]
    if len(part) < len(entries):
        lines.append(f"  ({len(entries) - len(part)} more)")
    return [f"Todo: {sum(done)} of {len(entries)} done", *lines]
