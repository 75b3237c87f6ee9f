"""Finds the choice that a word means. Pure."""

from collections.abc import Iterable

from sm.core.reference import bare

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
