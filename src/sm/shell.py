"""What a shell's command runs, as far as it can be seen: whether it is one program, and what else may be in it. Pure.

Whatever is not certain counts as more: a shell is not imitated here.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

_PARTS_MAX = 2_000
_LEADING_MAX = 20

_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*["]""")
_OPERATORS = re.compile(r"""[;&|<>()$`\\'"]""")
"""What makes more of a shell's command than one program with its arguments, or hides what it is; a quote that is left
has no end, or holds something that is carried out.
"""
_COMMENT = re.compile(r"(?:^|\s)#")
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_SPLITS = re.compile(r"[;&|\n\r()`]+")
_ASSIGNED = re.compile(r"""\s*[A-Za-z_][A-Za-z0-9_]*\+?=(?:"[^"]*"|'[^']*'|[^\s"'])*(?=\s)""")
_REDIRECTED = re.compile(r"\s*[0-9]*(?:<>|>>|[<>])\s*[^\s<>]+(?=\s)")
_UNQUOTED = str.maketrans("", "", "'\"\\")
_RUN_ANOTHER = frozenset({
    "sudo", "doas", "command", "builtin", "exec", "env", "nohup", "nice", "ionice", "setsid", "stdbuf", "timeout",
    "time", "xargs", "eval", "busybox", "sh", "bash", "dash", "zsh", "ksh", "if", "then", "else", "elif", "while",
    "until", "do", "!", "{",
})  # fmt: skip
"""Words before a command that is run all the same."""


class TooMuch(Exception):
    """A command has more parts, or more that stands before a program, than are looked at."""


def one_program(command: str) -> bool:
    """Whether a shell runs one program with arguments, that are what one sees, and nothing else.

    What stands in quotes is text to every shell, as long as nothing before it is a comment, which would hide a quote.
    """
    if _HIDDEN.search(command):
        return False
    bare = _QUOTED.sub("", command)
    return not (_OPERATORS.search(bare) or _COMMENT.search(bare)) and printable(bare)


def printable(text: str) -> bool:
    """Without controls, and without blanks and marks that look like others or like nothing."""
    if text.isascii():
        return text.isprintable()
    return all(each == " " or unicodedata.category(each)[0] not in "CZ" for each in text)


def commands_in(command: str) -> Iterator[str]:
    """Whatever could be run of a shell's command, each as words with one blank between them; also what stands in
    quotes, as another shell may get it. Raises TooMuch.
    """
    parts = dict.fromkeys(_SPLITS.split(command))
    if len(parts) > _PARTS_MAX:
        raise TooMuch
    for part in parts:
        for _ in range(_LEADING_MAX):
            leading = _ASSIGNED.match(part) or _REDIRECTED.match(part)
            if leading is None:
                break
            part = part[leading.end() :]
        else:
            raise TooMuch
        yield from _run_by(words_of(part).split(" "))


def _run_by(words: Sequence[str]) -> Iterator[str]:
    """The command of these words, and the one that it runs, as `sudo rm x` does."""
    start, wrapped, unsure = 0, False, False
    yield " ".join(words)
    while start < min(len(words), _LEADING_MAX):
        word = words[start]
        name = word.rpartition("/")[2]
        if name in _RUN_ANOTHER:
            wrapped, unsure = True, False
        elif wrapped and word.startswith("-"):
            unsure = True  # the next word may be what the option is about, or the command
        elif "=" not in word or not word.partition("=")[0].rstrip("+").isidentifier():
            yield " ".join([name, *words[start + 1 :]])
            if not unsure and not (wrapped and word[:1].isdigit()):
                return
            unsure = False
        start += 1
    if start < len(words):
        raise TooMuch


def words_of(command: str) -> str:
    """Without quotes, and with one blank between words, however a shell was given them."""
    spaced = command.replace("${IFS}", " ").replace("$IFS", " ")
    return " ".join(unicodedata.normalize("NFC", spaced).translate(_UNQUOTED).split())
