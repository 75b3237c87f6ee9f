"""Text that people and agents send: what is refused, and how it is shown in a line of ours. Pure."""

import re
import unicodedata

from sm.errors import TextRefused

PROMPT_MAX = 10_000
REPORT_MAX = 10_000
NOTE_MAX = 200
QUOTE_MAX = 500

# C0 and C1 but for newline and tab: inside a bracketed paste ESC[201~ would end the paste and type keys
# into a trusted terminal (design section 6). Bidirectional overrides and isolates: Unicode TR 9, section 2.
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FOLDED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")


def accepted(text: str, what: str, limit: int, *, one_line: bool = False) -> str:
    """`text` in NFC with LF newlines, at most `limit` characters.

    Raises TextRefused, which names the character and its position (from 1, in `text` as it was given).
    """
    text = text.replace("\r\n", "\n")
    found = _REFUSED.search(text)
    if found:
        name = f"U+{ord(found.group()):04X}"
        raise TextRefused(f"{what}: character {name} at position {found.start() + 1} is not allowed")
    if one_line and "\n" in text:
        raise TextRefused(f"{what}: it must be one line, position {text.index(chr(10)) + 1} is a newline")
    text = unicodedata.normalize("NFC", text)
    if len(text) > limit:
        raise TextRefused(f"{what}: {len(text):,} characters, at most {limit:,} are allowed")
    return text


def folded(text: str, limit: int = QUOTE_MAX) -> str:
    """`text` as one harmless line: every run of control characters a space, cut at `limit` characters."""
    line = _FOLDED.sub(" ", text).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"
