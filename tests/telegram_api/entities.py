"""Parses the HTML style of messages, and measures texts, as the documentation of the Bot API describes."""

import re

TAGS = frozenset("b strong i em u ins s strike del a code pre blockquote span tg-spoiler tg-emoji".split())
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}


class InvalidEntities(Exception):
    """The words of Telegram behind "can't parse entities: "."""


def utf16_length(text: str) -> int:
    """The length in UTF-16 code units, in which Telegram counts."""
    return len(text) + sum(character > "\uffff" for character in text)


def parse_html(markup: str) -> str:
    """The text without its tags. Raises InvalidEntities."""
    text: list[str] = []
    open_tags: list[str] = []
    position = 0
    while position < len(markup):
        character = markup[position]
        offset = len(markup[:position].encode())
        if character == "&":
            value, position = _character(markup, position)
            text.append(value)
        elif character != "<":
            text.append(character)
            position += 1
        elif markup[position + 1 : position + 2] == "/":
            position = _end_tag(markup, position, offset, open_tags)
        else:
            position = _start_tag(markup, position, offset, open_tags)
    if open_tags:
        raise InvalidEntities(f'Can\'t find end tag corresponding to start tag "{open_tags[-1]}"')
    return "".join(text)


def _character(markup: str, position: int) -> tuple[str, int]:
    """The character that a reference names and the position behind it; an unknown reference is text."""
    found = re.compile(r"&(#x[0-9a-fA-F]+|#\d+|[a-z]+);").match(markup, position)
    if not found:
        return "&", position + 1
    name = found[1]
    if not name.startswith("#"):
        return _NAMED.get(name, found[0]), found.end()
    number = int(f"0{name[1:]}", 16) if name[1] == "x" else int(name[1:])
    return (chr(number) if 0 < number < 0x10FFFF else found[0]), found.end()


def _end_tag(markup: str, position: int, offset: int, open_tags: list[str]) -> int:
    if not open_tags:
        raise InvalidEntities(f"Unexpected end tag at byte offset {offset}")
    end = markup.find(">", position)
    if end < 0:
        raise InvalidEntities(f"Unclosed end tag at byte offset {offset}")
    expected, found = open_tags.pop(), markup[position + 2 : end].strip().lower()
    if found and found != expected:
        raise InvalidEntities(
            f'Unmatched end tag at byte offset {offset}, expected "</{expected}>", found "</{found}>"'
        )
    return end + 1


def _start_tag(markup: str, position: int, offset: int, open_tags: list[str]) -> int:
    end = markup.find(">", position)
    if end < 0:
        raise InvalidEntities(f"Unclosed start tag at byte offset {offset}")
    name = re.split(r"\s", markup[position + 1 : end], maxsplit=1)[0].lower()
    if name not in TAGS:
        raise InvalidEntities(f'Unsupported start tag "{name}" at byte offset {offset}')
    if name == "span" and "tg-spoiler" not in markup[position:end]:
        raise InvalidEntities(f'Tag "span" must have class "tg-spoiler" at byte offset {offset}')
    open_tags.append(name)
    return end + 1
