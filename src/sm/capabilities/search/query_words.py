"""The words of a search, and the part of a found text around them. Pure.

Words match as in the index of SQLite (FTS5, unicode61): upper and lower case and accents are the same, and everything
except letters and digits separates words.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from unicodedata import normalize

from sm.core.text import folded

EXCERPT_MAX = 160
_MARK = "[\u0300-\u036f]"
"""An accent that is a character of its own. The index ignores it."""
_PART = re.compile(r"[^\W_]+")
_PLAIN_LETTERS = (0x00C0, 0x2000)
"""The range of the letters with an accent whose plain letter the index takes instead."""
_WORDS_MAX = 20
_WORD_MAX = 100
_PARTS_MAX = 3
"""The first parts of a word such as `a-b-c-d` that are looked for. Bounds the work at each place of the text."""


def searched_words(words: str) -> list[str]:
    """The words that have a letter or a digit, among the first 20, each cut to 100 characters."""
    first = words.replace("\0", " ").split(maxsplit=_WORDS_MAX)[:_WORDS_MAX]
    return [word[:_WORD_MAX] for word in first if any(map(str.isalnum, word[:_WORD_MAX]))]


def excerpt(text: str, words: Iterable[str]) -> str:
    """One line without control characters, with the first of the words near its beginning.

    Takes time in proportion to the text: pass few words, and a text of limited length.
    """
    patterns = filter(None, map(_pattern, words))
    # Without a pattern, the empty one is found at the beginning of the text.
    found = re.search(rf"(?<![^\W_])(?:{'|'.join(patterns)})", _plain(text))
    start = max(0, found.start() - EXCERPT_MAX // 4) if found else 0
    cut = folded(text[start : start + 4 * EXCERPT_MAX], EXCERPT_MAX)
    return f"…{cut}" if start else cut


def _pattern(word: str) -> str | None:
    """A regular expression for plain text, or None if the word has no letter and no digit.

    Its possessive quantifiers keep the time linear, also for long runs of accents or spaces.
    """
    parts = _PART.findall(re.sub(_MARK, "", _plain(word)))
    if not parts:
        return None
    spelled = ("".join(f"{character}{_MARK}*+" for character in part) for part in parts[:_PARTS_MAX])
    is_prefix = word.endswith("*") and len(parts) <= _PARTS_MAX
    return r"[\W_]++".join(spelled) + ("" if is_prefix else r"(?![^\W_])")


def _plain(text: str) -> str:
    """The text in lower case without the accents of letters. Every character keeps its position."""
    return (text if text.isascii() else text.translate(_plain_letters())).lower()


@cache
def _plain_letters() -> Mapping[int, str]:
    """The plain letters of those with an accent. Of all letters, only one of them (İ) is longer in lower case."""
    decomposed = {code: normalize("NFD", chr(code)) for code in range(*_PLAIN_LETTERS)}
    return {code: text[0] for code, text in decomposed.items() if re.fullmatch(f".{_MARK}+", text)}
