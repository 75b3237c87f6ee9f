"""Validates text from people and agents, and quotes it on one line. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sm.errors import InvalidText

MESSAGE_MAX = 50_000
PROMPT_MAX = 10_000
REPORT_MAX = 10_000
NOTE_MAX = 200
QUOTE_MAX = 500
TOOL_USE_MAX = 400
_QUOTE_MAX_BYTES = 1_200
LINE_MAX_BYTES = 4_000
"""Limit of a typed line: the kernel's line buffer holds 4,095 bytes (termios(3), canonical mode)."""
ENTRY_MAX_BYTES = 3_900

# Control characters (C0 and C1) except newline and tab: inside a bracketed paste, ESC[201~ would end the paste and
# type keys into a trusted terminal. Bidirectional overrides and isolates: Unicode TR 9, section 2.
REFUSED = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Also the invisible direction marks, which change the displayed order but are legitimate in a message.
_FOLDED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+"
)

_SHRINKS = 4
"""NFC merges at most this many characters into one: a longer text is too long without normalizing it."""
_MARKS_MAX = 30
"""Longest run of combining marks, from the Stream-Safe Text Format (Unicode TR 15, 13). No language needs more, and
sorting a run takes quadratic time."""


def validate_text(text: str, what: str, limit: int, *, one_line: bool = False) -> str:
    """`text` in NFC with LF newlines, at most `limit` characters.

    Raises InvalidText, which names the character and its position (from 1, in the original `text`).
    """
    if len(text) > _SHRINKS * limit:
        raise InvalidText(f"{what}: {len(text):,} characters, at most {limit:,} are allowed")
    refused = REFUSED.search(text)
    if refused:
        name = f"U+{ord(refused.group()):04X}"
        raise InvalidText(f"{what}: character {name} at position {refused.start() + 1} is not allowed")
    text = text.replace("\r\n", "\n")
    if one_line and "\n" in text:
        raise InvalidText(f"{what}: must be one line, position {text.index(chr(10)) + 1} is a newline")
    if not text.isascii():
        position = overlong_marks(text)
        if position is not None:
            raise InvalidText(
                f"{what}: more than {_MARKS_MAX} combining marks in a row, at position {position}"
            )
        text = unicodedata.normalize("NFC", text)
    if len(text) > limit:
        raise InvalidText(f"{what}: {len(text):,} characters, at most {limit:,} are allowed")
    return text


def overlong_marks(text: str) -> int | None:
    """The position (from 1) of the first run of combining marks that is too long, or None."""
    run = 0
    for position, character in enumerate(text, 1):
        run = run + 1 if unicodedata.combining(character) else 0
        if run > _MARKS_MAX:
            return position
    return None


def cut_marks(text: str) -> str:
    """Leave out the combining marks that make a run too long."""
    kept, run = [], 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= _MARKS_MAX:
            kept.append(character)
    return "".join(kept)


def folded(text: str, limit: int = QUOTE_MAX) -> str:
    """`text` on one line of at most `limit` characters. Each run of control characters becomes a space."""
    line = _FOLDED.sub(" ", text).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def well_formed(text: str) -> str:
    """The text with `?` for halves of surrogate pairs, which can be neither stored nor sent."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\ufffd", "?")


def well_formed_json(value: Any) -> Any:
    """A value as of `json.loads`, with all its texts `well_formed`."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed_json(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(key): well_formed_json(item) for key, item in value.items()}
    return value


def is_folded(text: str) -> bool:
    """True if `folded` would replace a character of the text."""
    return _FOLDED.search(text) is not None


# Lines that only the daemon may write

MARK = "[sm]"
"""Prefix of the daemon's own lines."""
_HEADER_OF_SM = re.compile(rf"{re.escape(MARK)} from sm, message ([1-9][0-9]{{0,14}})(?:\n|$)")
_LINE_ENDS = re.compile("([\n\u2028\u2029])")
_CLAIMS_IN_ASCII = re.compile(r"^([ \t]*\[sm\])", re.IGNORECASE | re.MULTILINE)
_LOOKED_AT = 500
_UNSEEN = frozenset({"Cf", "Cn", "Me", "Mn"})
_BLANK = "\u115f\u1160\u2800"
"""Invisible characters: general categories, and fillers that count as letters."""


def imitates_mark(line: str) -> bool:
    """Detect a line that a reader could take for a line of the daemon, in any spelling."""
    seen = ""
    for character in line[:_LOOKED_AT]:
        for part in unicodedata.normalize("NFKD", character):
            if unicodedata.category(part) in _UNSEEN or part in _BLANK or (not seen and part.isspace()):
                continue
            seen += part.casefold()
            if not MARK.startswith(seen[: len(MARK)]):
                return False
            if len(seen) >= len(MARK):
                return True
    return len(line) > _LOOKED_AT  # only an attack has this many invisible characters


def with_own_lines(text: str, lines: Sequence[str]) -> str:
    """`text` with lines of the daemon at its end."""
    return "\n".join((text.rstrip("\n"), *lines)) if lines else text


def escape_marks(text: str, own_lines: int = 0) -> str:
    """Put `> ` before every line of `text` that imitates a line of the daemon.

    `own_lines`: so many lines at the end are of the daemon itself (`with_own_lines`).
    """
    if own_lines:
        lines = text.split("\n")
        return "\n".join((escape_marks("\n".join(lines[:-own_lines])), *lines[-own_lines:]))
    if text.isascii():
        return _CLAIMS_IN_ASCII.sub(r"> \1", text)
    parts = _LINE_ENDS.split(text)  # every second part is a line end
    lines = [f"> {part}" if part and imitates_mark(part) else part for part in parts[::2]]
    return "".join(piece for pair in zip(lines, [*parts[1::2], ""], strict=True) for piece in pair)


def message_header(sender: str, message_id: int) -> str:
    """First line of a message. `sender` is `operator`, `sm`, or a session as `name (id)`."""
    return f"{MARK} from {folded(sender, 200)}, message {message_id}"


def header_of_sm(text: str) -> int | None:
    """The number of the message of sm itself that `text` begins with, or None if it begins otherwise."""
    found = _HEADER_OF_SM.match(text)
    return None if found is None else int(found[1])


def render_message(sender: str, message_id: int, text: str, own_lines: int = 0) -> str:
    """Render a message for its reader: the header, then the text. `own_lines`: as `escape_marks`."""
    return f"{message_header(sender, message_id)}\n{escape_marks(text, own_lines)}"


def render_line(sender: str, message_id: int, text: str) -> str:
    """Render a message as one line for a program that reads its terminal.

    Raises InvalidText for a text that is too long or has several lines.
    """
    if "\n" in text:
        at = text.index("\n") + 1
        raise InvalidText(f"message: must be one line for this agent, position {at} is a newline")
    line = f"{message_header(sender, message_id)}: {_LINE_ENDS.sub(' ', text)}"
    size = len(line.encode())
    if size > LINE_MAX_BYTES:
        raise InvalidText(
            f"message: {size:,} bytes with its header, at most {LINE_MAX_BYTES:,} are allowed for this agent"
        )
    return line


def render_notice_lines(message_id: int, entries: Iterable[str]) -> Iterator[str]:
    """Render a notice as lines for a program that reads its terminal, with as many entries on a line as fit."""
    first = f"{message_header('sm', message_id)}: "
    line = ""
    for text in entries:
        entry = cut_to_bytes(text, ENTRY_MAX_BYTES)
        joined = f"{line}; {entry}" if line else first + entry
        if len(joined.encode()) > LINE_MAX_BYTES:
            yield line
            joined = first + entry
        line = joined
    if line:
        yield line


def cut_to_bytes(text: str, limit: int) -> str:
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return raw[: limit - 3].decode(errors="ignore") + "…"


def quoted(text: str, limit: int = QUOTE_MAX, *, untrusted: bool = False) -> str:
    """Quote and escape foreign text for a line of the daemon, cut to `limit` characters and 1,200 bytes.

    `untrusted`: the text comes from a sandboxed session.
    """
    words = cut_to_bytes(_escaped(folded(text, limit)), _QUOTE_MAX_BYTES)
    return f'"{words}" (untrusted)' if untrusted else f'"{words}"'


def is_cut(text: str, limit: int = QUOTE_MAX) -> bool:
    """True if `quoted` leaves out the end of the text."""
    whole = folded(text, max(len(text), 1))
    return len(whole) > limit or len(_escaped(whole).encode(errors="replace")) > _QUOTE_MAX_BYTES


def _escaped(words: str) -> str:
    return words.replace("\\", "\\\\").replace('"', '\\"')


def tool_use(tool: str | None, arguments: Mapping[str, object] | None) -> str:
    """A tool with its first text argument, for lists: `Bash: npm install`. Not folded."""
    return ": ".join(filter(None, (tool or "a tool", _first_text(arguments)[1])))


def omission(tool: str | None, arguments: Mapping[str, object] | None) -> str:
    """Name what a list leaves out of a tool use: `shortened` or `1 more argument`, or return an empty text."""
    if is_cut(tool_use(tool, arguments), TOOL_USE_MAX):
        return "shortened"
    name, _ = _first_text(arguments)
    more = sum(key != name for key in arguments or ())
    return f"{more} more argument{'s' if more > 1 else ''}" if more else ""


def _first_text(arguments: Mapping[str, object] | None) -> tuple[str | None, str]:
    for name, value in (arguments or {}).items():
        if isinstance(value, str) and value.strip():
            return name, value
    return None, ""
