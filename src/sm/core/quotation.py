"""Quotes an agent's words in lines that a person decides by: what a tool call does, what an agent asks. Pure.

A bar precedes each quoted line, also of a wrapped one, and invisible characters are shown as code points.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from sm.core.columns import columns
from sm.wire import encode

BAR = "|"
_DEPTH_MAX = 5
_EDIT = ("old_string", "new_string")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,29}", re.ASCII)


def argument_lines(arguments: Mapping[str, object], depth: int, width: int | None) -> Iterator[str]:
    """List the arguments of a tool in full, indented by `depth`, which starts at 1. Wraps at `width` unless None.

    The text that an edit replaces and its new text are a change, with `|-` and `|+` as the bars of their lines.
    """
    old, new = (arguments.get(name) for name in _EDIT)
    for name, value in arguments.items():
        if isinstance(old, str) and isinstance(new, str) and name in _EDIT:
            if name == _EDIT[0]:
                yield f"{'  ' * (depth - 1)}change:"
                yield from quotation(old, depth, width, bar=f"{BAR}-")
                yield from quotation(new, depth, width, bar=f"{BAR}+")
            continue
        if _PLAIN_NAME.fullmatch(name):
            yield f"{'  ' * (depth - 1)}{name}:"
        else:  # the agent chose the name too
            yield from quotation(f"{name}:", depth - 1, width)
        yield from _value(value, depth, width)


def _value(value: object, depth: int, width: int | None) -> Iterator[str]:
    if isinstance(value, str):
        yield from quotation(value, depth, width)
    elif isinstance(value, Mapping) and value and depth < _DEPTH_MAX:
        yield from argument_lines(value, depth + 1, width)
    elif isinstance(value, list) and value and depth < _DEPTH_MAX:
        for number, item in enumerate(value, 1):
            yield f"{'  ' * depth}{number}:"
            yield from _value(item, depth + 1, width)
    else:
        yield from quotation(encode(value), depth, width)


def question_lines(
    question: str, options: Sequence[str], arguments: object, number: int, width: int | None
) -> Iterator[str]:
    """A question with its numbered options. `arguments`: of the tool that asks question `number`, from 0."""
    yield from quotation(question, 1, width)
    for index, option in enumerate(options):
        words = option_description(arguments, number, index)
        yield from quotation(f"{option}: {words}" if words else option, 1, width, f"{index + 1}: ")


def option_description(arguments: object, question: int, option: int) -> str:
    """The words of a tool that asks about one of the options of its questions. All numbers start at 0."""
    value = arguments
    for step in ("questions", question, "options", option, "description"):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return ""
    return value if isinstance(value, str) else ""


def quotation(text: str, depth: int, width: int | None, first: str = "", bar: str = BAR) -> Iterator[str]:
    """Put a bar before each line of an agent's text, also of a wrapped line: no line may pass for sm's own text."""
    start = f"{'  ' * depth}{bar} {first}"
    left = None if width is None else max(20, width - len(start))
    for text_line in text.split("\n"):
        for piece in wrapped(visible(text_line), left):
            yield f"{start}{piece}" if piece else start.rstrip(" ")
            start = f"{'  ' * depth}{bar} {' ' * len(first)}"


def wrapped(text: str, width: int | None) -> Iterator[str]:
    """Split `text` into pieces of at most `width` columns unless that is None."""
    if width is None or (text.isascii() and len(text) <= width):
        yield text
        return
    piece, used = "", 0
    for character in text:
        takes = columns(character)
        if used + takes > width:
            yield piece
            piece, used = "", 0
        piece, used = piece + character, used + takes
    yield piece


def wrapped_at_blanks(text: str, width: int) -> Iterator[str]:
    """Split `text` into lines of at most `width` columns, between words where possible."""
    while columns(text) > width:
        piece = next(wrapped(text, width))
        blank = len(piece) if text[len(piece)] == " " else piece.rfind(" ")
        end = blank if blank > 0 else len(piece)
        yield text[:end]
        text = text[end:].lstrip(" ")
    yield text


def visible(text: str) -> str:
    """Replace invisible characters, and blanks other than the space, by code points such as `<U+200B>`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if c == " " or unicodedata.category(c)[0] not in "CZ" else f"<U+{ord(c):04X}>" for c in text
    )
