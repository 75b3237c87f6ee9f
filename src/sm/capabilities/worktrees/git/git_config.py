"""Reads and writes the format of git's configuration files. Pure: includes are not followed."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_WRITTEN = {"\n": "\\n", "\t": "\\t", "\b": "\\b", '"': '\\"', "\\": "\\\\"}


class GitSetting(NamedTuple):
    """One line. `section` and `name` are lower case; `subsection` is as written, empty for none."""

    section: str
    subsection: str
    name: str
    value: str | None
    """None for a name alone, which git reads as true."""

    @property
    def key(self) -> str:
        return ".".join(filter(None, (self.section, self.subsection, self.name)))


def parse_git_config(data: bytes) -> tuple[GitSetting, ...]:
    """The settings in order. Raises ValueError, with the line, for a file that git might read otherwise."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    if "\0" in text:
        raise ValueError("a null character")
    return tuple(_settings(text))


def write_git_config(settings: Iterable[GitSetting]) -> bytes:
    """A file with these settings. Raises ValueError for a subsection that no file can have."""
    lines = []
    for setting in settings:
        if "\n" in setting.subsection or "\0" in setting.subsection:
            raise ValueError(f"invalid subsection {setting.subsection!r}")
        inner = setting.subsection.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f"[{setting.section}]" if not inner else f'[{setting.section} "{inner}"]')
        value = "".join(_WRITTEN.get(character, character) for character in setting.value or "")
        lines.append(f"\t{setting.name}" if setting.value is None else f'\t{setting.name} = "{value}"')
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _settings(text: str) -> Iterator[GitSetting]:
    section, subsection = "", ""
    at, number = 0, 1
    while at < len(text):
        character = text[at]
        if character == "\n":
            number += 1
            at += 1
        elif character.isspace():
            at += 1
        elif character in "#;":
            at = _end_of_line(text, at)
        elif character == "[":
            section, subsection, at = _header(text, at + 1, number)
        elif character.isascii() and character.isalpha() and section:
            begin = at
            while at < len(text) and text[at].isascii() and (text[at].isalnum() or text[at] == "-"):
                at += 1
            name = text[begin:at].lower()
            while at < len(text) and text[at] in " \t":
                at += 1
            value: str | None = None
            if at < len(text) and text[at] == "=":
                value, at, lines = _value(text, at + 1, number)
                number += lines
            elif at < len(text) and text[at] not in "\n#;":
                raise ValueError(f"line {number}: no value after {name}")
            yield GitSetting(section, subsection, name, value)
        else:
            raise ValueError(f"line {number}: {character!r} is no name")


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _header(text: str, at: int, number: int) -> tuple[str, str, int]:
    begin = at
    while at < len(text) and text[at].isascii() and (text[at].isalnum() or text[at] in "-."):
        at += 1
    name, _, dotted = text[begin:at].lower().partition(".")
    if not name:
        raise ValueError(f"line {number}: a section without a name")
    subsection = dotted
    if at < len(text) and text[at] in " \t":
        while at < len(text) and text[at] in " \t":
            at += 1
        if at == len(text) or text[at] != '"':
            raise ValueError(f"line {number}: a section without its end")
        at += 1
        written = ""
        while at < len(text) and text[at] != '"':
            if text[at] == "\\":
                at += 1
            if at == len(text) or text[at] == "\n":
                raise ValueError(f"line {number}: a section without its end")
            written += text[at]
            at += 1
        at += 1
        subsection = f"{dotted}.{written}" if dotted else written
    if at >= len(text) or text[at] != "]":
        raise ValueError(f"line {number}: a section without its end")
    return name, subsection, at + 1


def _value(text: str, at: int, number: int) -> tuple[str, int, int]:
    """The value, the place of the end of its line, and the number of lines that it continues."""
    value, spaces, quoted, lines = "", "", False, 0
    while at < len(text) and text[at] != "\n":
        character = text[at]
        if character == "\\":
            at += 1
            following = text[at : at + 1]
            if following == "\n":
                lines += 1
            elif following in _ESCAPES and following:
                value, spaces = value + spaces + _ESCAPES[following], ""
            else:
                raise ValueError(f"line {number}: an invalid escape")
        elif character == '"':
            quoted = not quoted
            value, spaces = value + spaces, ""
        elif character in "#;" and not quoted:
            at = _end_of_line(text, at)
            break
        elif character.isspace() and not quoted:
            spaces += character if value else ""
        else:
            value, spaces = value + spaces + character, ""
        at += 1
    if quoted:
        raise ValueError(f"line {number}: a quote without its end")
    return value, at, lines
