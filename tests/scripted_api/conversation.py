"""What the body of a request to the Messages API says: pure functions, no server."""

import json
import re
from enum import StrEnum
from typing import Any

Body = dict[str, Any]

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)


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


def kind(body: Body) -> Kind:
    """By the words of 2.1.197: a newer one may need other words, and `test_scripted_api.py` tells."""
    if "title" in json.dumps(body.get("output_config", {})):
        return Kind.TITLE
    if "Your task is to create a detailed summary" in last_user_text(body):
        return Kind.COMPACTION
    return Kind.TURN
