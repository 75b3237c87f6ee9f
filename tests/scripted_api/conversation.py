"""What the body of a request to the Messages API says: pure functions, no server."""

import json
import re
from enum import StrEnum
from typing import Any

Body = dict[str, Any]

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
# How 2.1.197 hands on what came while a turn was under way: each in these words, several in one message.
_WHILE_WORKING = re.compile(
    r"The user sent a new message while you were working:\n"
    r"(.*?)\n\nIMPORTANT: After completing your current task, you MUST address the user's message above\.",
    re.DOTALL,
)


class Kind(StrEnum):
    """Why Claude Code asks: for a turn of a conversation, or for itself."""

    TURN = "turn"
    TITLE = "title"
    COMPACTION = "compaction"


def texts(content: Any) -> list[str]:
    """The texts of a message or of `system`, which are a string or blocks; results of tools are none of them."""
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content or () if block.get("type") == "text"]


def system_text(body: Body) -> str:
    return "\n".join(texts(body.get("system")))


def tool_names(body: Body) -> list[str]:
    return [tool["name"] for tool in body.get("tools") or ()]


def last_user_text(body: Body) -> str:
    """The newest thing that a user has said; tool results and reminders are nothing that a user says."""
    prompt, _ = newest_prompt(body)
    return prompt


def newest_prompt(body: Body) -> tuple[str, int]:
    """The newest prompt, and how many assistant turns there have been since: the step of its script.

    One block of text, not a whole message: prompts with no answer between them are sent as one message.
    """
    turns = 0
    for message in reversed(body["messages"]):
        if message["role"] == "assistant":
            turns += 1
        elif message["role"] == "user":
            for text in reversed(texts(message["content"])):
                if prompt := _REMINDER.sub("", text).strip():
                    return prompt, turns
    return "", turns


def said(body: Body) -> list[str]:
    """All that a user has said in the conversation so far, oldest first: each prompt, and each message that came
    within a turn. To the letter, but that claude ends a prompt with a newline where another stands behind it.
    """
    found = []
    for message in body["messages"]:
        blocks = texts(message["content"])
        if message["role"] == "user":
            found += [text for text in blocks if _REMINDER.sub("", text).strip()]
        elif message["role"] == "system":
            found += [text for block in blocks for text in _WHILE_WORKING.findall(block)]
    return found


def called(body: Body) -> list[tuple[str, Body]]:
    """The tools that were called in the conversation so far, oldest first, each with its input."""
    return [
        (block["name"], block["input"])
        for message in body["messages"]
        if message["role"] == "assistant" and not isinstance(message["content"], str)
        for block in message["content"]
        if block.get("type") == "tool_use"
    ]


def results(body: Body) -> list[tuple[bool, str]]:
    """Of each tool so far that has come to an end: whether it failed or was refused, and what it said."""
    return [
        (bool(block.get("is_error")), "\n".join(texts(block.get("content"))))
        for message in body["messages"]
        if message["role"] == "user" and not isinstance(message["content"], str)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]


def kind(body: Body) -> Kind:
    """By the words of 2.1.197: a newer one may need other words, and `test_scripted_api.py` tells."""
    if "title" in json.dumps(body.get("output_config", {})):
        return Kind.TITLE
    if "Your task is to create a detailed summary" in last_user_text(body):
        return Kind.COMPACTION
    return Kind.TURN
