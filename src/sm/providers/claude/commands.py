"""Slash commands that a message may be (measured with claude 2.1.197). Pure."""

import re

from sm.errors import InvalidText, UsageError
from sm.providers.base import InputCommand

_INSTRUCTIONS_MAX = 700
"""The input box folds a text of more than 800 characters."""
_COMMAND = re.compile(r"/(?:(?P<compact>compact)(?P<instructions>\s.*)?|clear|context)", re.DOTALL)
"""The commands that need no dialog and concern only their own conversation. `/model NAME` changes the user's default,
`/cost` and `/permissions` open dialogs, and `sm kill` replaces `/exit`."""
COMPACT = InputCommand("/compact", by_parent=True)


_START_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*( .*)?")


def require_start_command(prompt: str) -> str:
    """Return the command with which claude starts, such as `/review` or that of a skill. Raises UsageError."""
    command = prompt.strip()
    if _START_COMMAND.fullmatch(command) is None:
        raise UsageError(
            "with --as-command the prompt must be one line that begins with / and the name of a command",
            "for a text, omit --as-command",
        )
    return command


def read_command(text: str) -> InputCommand | None:
    """The command that the whole message is, or None if the message is a text. Raises InvalidText for instructions that
    cannot be typed.
    """
    found = _COMMAND.fullmatch(text.strip())
    if found is None:
        return None
    instructions = (found["instructions"] or "").strip()
    if "\n" in instructions or "[" in instructions or len(instructions) > _INSTRUCTIONS_MAX:
        raise InvalidText(
            f"the instructions of /compact must be one line of at most {_INSTRUCTIONS_MAX} characters, without ["
        )
    name = found[0].split(maxsplit=1)[0]
    return InputCommand(f"{name} {instructions}".strip(), by_parent=found["compact"] is not None)
