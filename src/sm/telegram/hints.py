"""Refusals in a chat: hints name a command of the bot where `sm` has a command with the same meaning. Pure."""

import re

from sm.core.capability_parts import capability_operations
from sm.errors import SmError

IN_CHAT = {
    **{o.command.split()[0]: o.chat for o in reversed(capability_operations()) if o.chat and o.command},
    "all": "list all",
    "answer": "answer",
    "approve": "approve",
    "archive": "archive",
    "children": "subagents",
    "deny": "deny",
    "events": "events",
    "interrupt": "interrupt",
    "kill": "kill",
    "output": "output",
    "progress": "progress",
    "requests": "requests",
    "send": "send",
    "spawn": "new",
    "status": "status",
    "unarchive": "unarchive",
    "what": "what",
}
"""The command of the bot for each command of `sm`."""
# Commands of the bot have no options.
_COMMAND = re.compile(rf"\bsm ({'|'.join(IN_CHAT)})\b(?![^;,]* --)")


def in_chat(hint: str) -> str:
    """`list requests: /requests` for `list requests: sm requests`."""
    return _COMMAND.sub(lambda found: f"/{IN_CHAT[found[1]]}", hint)


def refusal(error: SmError) -> str:
    """The words of `sm` for a refusal, with a hint for the chat."""
    return error.message if error.hint is None else f"{error.message}\nhint: {in_chat(error.hint)}"
