"""The task in a prompt, for the reader of the turn's final message. Pure."""

import re

from sm.core.text import MARK

TASK_MAX = 600
"""Characters of a task that are kept: its begin and its end."""
_TAIL = 150
_HEADER = re.compile(rf"{re.escape(MARK)} from ([^\n]{{1,260}}?), message \d{{1,15}}(?:: |\n|$)")
_OF_SM = "sm"
_LOOKED_AT = 2_000
_NO_TASK = re.compile(
    r"(?:ok(?:ay)?|yes|yep|yeah|y|no|n|sure|please|thanks?|thank you|continue|go on|go ahead|proceed|resume|carry on|"
    r"keep going|next|do it|and|then|now|try again|retry|again|status|"
    r"ja|nein|weiter|mach weiter|bitte|danke|gut|oui|non|continuez?|vas-y|merci|s'il te plaît|"
    r"sí|si|sigue|continúa|continua|adelante|gracias|por favor|avanti|sim|dalej|tak|да|дальше|продолжай|"
    r"\d{1,2}|[a-d])(?:[\s,.!…]+|$)",
    re.IGNORECASE,
)
_SHORT = 60
"""A longer text is a task, whatever it begins with."""


def task_of(prompt: str) -> str | None:
    """The task that a prompt gives, without the header of a message, shortened.

    None if the prompt gives no task, so the one before still counts: a notice of sm, a command, `continue`, one word.
    """
    text = prompt[:_LOOKED_AT].strip()
    header = _HEADER.match(text)
    if header is not None:
        if header[1] == _OF_SM:
            return None
        text = text[header.end() :].strip()
    if not text or text.startswith(("/", "!", "<")) or _gives_no_task(text):
        return None
    whole = text if len(prompt) <= _LOOKED_AT else f"{text} {prompt[-_TAIL:].strip()}"
    return whole if len(whole) <= TASK_MAX else f"{whole[: TASK_MAX - _TAIL - 3]} … {whole[-_TAIL:]}"


def _gives_no_task(text: str) -> bool:
    """Detect a short answer or a word that only lets the agent go on."""
    if len(text) > _SHORT:
        return False
    if text.isascii() and len(text.split()) == 1:
        return True  # an answer, such as `sqlite`
    at = 0
    while at < len(text):
        word = _NO_TASK.match(text, at)
        if word is None or word.end() == at:
            return False
        at = word.end()
    return True
