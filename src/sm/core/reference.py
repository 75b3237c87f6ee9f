"""Reads the forms in which people and agents write the name of a session, a request or a choice. Pure."""

import re
from collections.abc import Iterable

_BLANKS = " \t\r\n\u00a0"
_QUOTES = "'\"`\u2018\u2019\u201c\u201d"
_MAX = 300
"""Characters of a name. A longer text is none."""
_LABEL = re.compile(r".{1,200} \(([0-9a-f]{8})\)", re.IGNORECASE)
_SESSION = re.compile(r"(?:session[ :]\s*)?[#@]?(.*?)[.,:;!?]*", re.IGNORECASE | re.DOTALL)
_REQUEST = re.compile(r"(?:request[ :]\s*)?(?:#r?|r)([1-9][0-9]{0,17})[.,:;!?]*", re.IGNORECASE)


def bare(text: str) -> str:
    """The text without blanks and quotes around it, such as those of Markdown."""
    inner = text.strip(_BLANKS)
    while len(inner) > 1 and inner[0] in _QUOTES and inner[-1] in _QUOTES:
        inner = inner[1:-1].strip(_BLANKS)
    return inner


def session_word(text: str) -> str:
    """The id or name in `#1a2b3c4d`, `session 1a2b3c4d:` or in a label as sm prints it, `engineer-login (1a2b3c4d)`."""
    if len(text) > _MAX:
        return text.lower()
    inner = bare(text)
    found = _SESSION.fullmatch(inner)
    word = bare(found[1] if found is not None else inner)
    label = _LABEL.fullmatch(word)
    return (label[1] if label is not None else word).lower()


def request_number(text: str) -> int | None:
    """The number in `r57`, `R57`, `#57`, `#r57` or `request r57`; None for a plain number and all else."""
    found = _REQUEST.fullmatch(bare(text)) if len(text) <= _MAX else None
    return None if found is None else int(found[1])


_OTHER_WORDS = {
    "done": ("completed", "ended"),
    "failed": ("error",),
    "failure": ("error",),
    "finished": ("completed", "ended"),
    "success": ("completed",),
}
"""Words for a choice. The last one that is possible is meant: the end of a session may be of any kind."""
_WORD_MAX = 100


def chosen(options: Iterable[str], word: str) -> str | None:
    """Find the option that `word` means, whatever its case, as `Waiting input` or `done`. Returns None without one."""
    by_word = {_plain(option): option for option in options}
    plain = _plain(bare(word[:_WORD_MAX]))
    if plain in by_word:
        return by_word[plain]
    meant = [other for other in _OTHER_WORDS.get(plain, ()) if other in by_word]
    return by_word[meant[-1]] if meant else None


def _plain(word: str) -> str:
    return word.casefold().replace(" ", "-").replace("_", "-")
