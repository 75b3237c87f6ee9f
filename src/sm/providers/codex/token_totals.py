"""Counts the tokens of a conversation by the growth of its total. Pure.

A response that broke off repeats the total, a compaction tells it three times, and a lost link misses some. The growth
is right in each case.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sm.core.timestamps import iso
from sm.core.usage import Usage
from sm.providers import values
from sm.providers.links import ContextUpdate

_GROWTH_MAX = 10**9
"""More than a link can miss: a larger number is an error, and must not count in a sum."""


class TokenTotal:
    """The tokens of one conversation that were counted. `is_new`: it began on this link, so it had used none."""

    def __init__(self, *, is_new: bool) -> None:
        self._total: Mapping[str, int] | None = {} if is_new else None

    def grow(
        self, thread: str, model: str, usage: Mapping[str, Any], at: float, *, in_turn: bool, sidechain: bool
    ) -> Iterator[Usage | ContextUpdate]:
        """Read a `ThreadTokenUsage`. `in_turn`: a turn is under way, so the total is not that of an earlier one."""
        total = {name: values.count(n) or 0 for name, n in values.mapping(usage.get("total")).items()}
        before, whole = self._total, total.get("totalTokens", 0)
        if not 0 < whole - (before or {}).get("totalTokens", 0) <= _GROWTH_MAX:
            return
        self._total = total
        if before is None and not in_turn:
            return  # a conversation that is resumed says what it has used before
        grown = {name: max(0, n - (before or {}).get(name, 0)) for name, n in total.items()}
        cached, written = grown.get("cachedInputTokens", 0), grown.get("cacheWriteInputTokens", 0)
        yield Usage(
            f"{thread}:{whole}",
            model,
            iso(at),
            input=max(0, grown.get("inputTokens", 0) - cached - written),
            output=grown.get("outputTokens", 0),
            cache_read=cached,
            cache_write=written,
            sidechain=sidechain,
        )
        used = values.known_tokens(values.mapping(usage.get("last")).get("totalTokens"))
        if used is not None and not sidechain:
            yield ContextUpdate(used, values.known_tokens(usage.get("modelContextWindow")))
