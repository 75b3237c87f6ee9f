"""Reads the bodies of requests to the Messages API."""

import json
import re
from enum import StrEnum
from typing import Any

Body = dict[str, Any]

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
# Each message that arrived during a turn is passed on in such words: by 2.1.197 as the system, several in one text, and
# by 2.1.332 as the user.
_WHILE_WORKING = re.compile(
    r"The user sent a new message while you were working:\n"
    r"(.*?)\n\n(?:IMPORTANT: After completing your current task, you MUST address the user's message above\."
    r"|This is how Claude Code surfaces messages the user sends mid-turn[^\n]*)",
    re.DOTALL,
)
# The end of background work begins a turn: in 2.1.197 with a prompt of its own, in 2.1.332 within a reminder.
_NOTIFICATION = re.compile(r"<task-notification>.*</task-notification>", re.DOTALL)
# A hook that lets a turn go on says so in a prompt of its own: in 2.1.332 within a reminder.
_HOOK_FEEDBACK = re.compile(r"^Stop hook feedback:\n.*?(?=\n</system-reminder>|\Z)", re.DOTALL | re.MULTILINE)


class Kind(StrEnum):
    """The purpose of a request of Claude Code: a turn of the conversation, or its own needs."""

    TURN = "turn"
    TITLE = "title"
    COMPACTION = "compaction"


def texts(content: Any) -> list[str]:
    """The texts of a message or of `system`, which is a string or blocks. Tool results are not included."""
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content or () if block.get("type") == "text"]


def system_text(body: Body) -> str:
    return "\n".join(texts(body.get("system")))


def tool_names(body: Body) -> list[str]:
    return [tool["name"] for tool in body.get("tools") or ()]


def last_user_text(body: Body) -> str:
    """The newest prompt of a user, without tool results and reminders."""
    prompt, _ = newest_prompt(body)
    return prompt


def newest_prompt(body: Body) -> tuple[str, int]:
    """The newest prompt, and the number of assistant turns since: the step of its script.

    A prompt is one block of text, because prompts without an answer between them are sent as one message. A message
    that arrived during the turn leaves the script of the turn as it is.
    """
    turns = 0
    for message in reversed(body["messages"]):
        if message["role"] == "assistant":
            turns += 1
        elif message["role"] == "user":
            for text in reversed(texts(message["content"])):
                told = _NOTIFICATION.search(text) or _HOOK_FEEDBACK.search(text)
                prompt = told[0] if told else _REMINDER.sub("", text).strip()
                if prompt and not _WHILE_WORKING.match(prompt):
                    return prompt, turns
    return "", turns


def user_texts(body: Body) -> list[str]:
    """All prompts and messages of the user so far, oldest first, including messages sent during a turn.

    The texts are exact, except that claude adds a newline to a prompt that another prompt follows.
    """
    found = []
    for message in body["messages"]:
        blocks = texts(message["content"])
        if message["role"] == "user":
            for text in blocks:
                if _REMINDER.sub("", text).strip():
                    found += _WHILE_WORKING.findall(text) or [text]
        elif message["role"] == "system":
            found += [text for block in blocks for text in _WHILE_WORKING.findall(block)]
    return found


def tool_calls(body: Body) -> list[tuple[str, Body]]:
    """The tool calls of the conversation so far, oldest first, each with its input."""
    return [
        (block["name"], block["input"])
        for message in body["messages"]
        if message["role"] == "assistant" and not isinstance(message["content"], str)
        for block in message["content"]
        if block.get("type") == "tool_use"
    ]


def results(body: Body) -> list[tuple[bool, str]]:
    """For each finished tool call so far: True if it failed or was refused, and its output."""
    return [
        (bool(block.get("is_error")), "\n".join(texts(block.get("content"))))
        for message in body["messages"]
        if message["role"] == "user" and not isinstance(message["content"], str)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]


def kind(body: Body) -> Kind:
    """Recognized by texts of 2.1.197. `test_scripted_api.py` fails if a newer version uses other texts."""
    if "title" in json.dumps(body.get("output_config", {})):
        return Kind.TITLE
    if "Your task is to create a detailed summary" in last_user_text(body):
        return Kind.COMPACTION
    return Kind.TURN
