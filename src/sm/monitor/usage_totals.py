"""Sums of usage in memory, so that a live view costs the same for a long conversation as for a short one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sm.core.usage import Usage

_Key = tuple[str, bool]


class UsageTotals:
    """The sums by model of some sessions, with sub-agents separate, as `MeasureReads.usage`."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[_Key, Usage]] = {}
        self._writes: Counter[str] = Counter()
        """The number of begun writes of each session."""
        self._writing: set[str] = set()

    def sums(self, session_id: str) -> list[Usage] | None:
        """None: unknown."""
        known = self._sums.get(session_id)
        return None if known is None else list(known.values())

    def mark(self, session_id: str) -> int | None:
        """Call it before the sums are read from the database, and pass the result to `keep`."""
        return None if session_id in self._writing else self._writes[session_id]

    def keep(self, session_id: str, sums: Sequence[Usage], mark: int | None) -> None:
        """Remember sums that were read, unless the session's usage was written meanwhile."""
        if mark is not None and mark == self._writes[session_id]:
            self._sums[session_id] = {(used.model, used.sidechain): used for used in sums}

    def has(self, session_id: str) -> bool:
        return session_id in self._sums

    @contextmanager
    def writing(
        self, session_id: str, before: Mapping[str, Usage] | None, after: Sequence[Usage]
    ) -> Iterator[None]:
        """Write usage in the block, one block at a time for each session. If it fails, the sums are unknown.

        `before`: the stored usage of those messages of `after` that are stored already; None: it was not read.
        """
        self._writes[session_id] += 1
        self._writing.add(session_id)
        known = self._sums.pop(session_id, None)
        try:
            yield
            if known is not None and before is not None and not _has_unread(before.values(), after):
                self._sums[session_id] = _added(known, before, after)
        finally:
            self._writing.discard(session_id)

    def forget(self, session_id: str) -> None:
        self._sums.pop(session_id, None)
        if session_id not in self._writing:
            self._writes.pop(session_id, None)

    def clear(self) -> None:
        """Forget all sums."""
        self._sums.clear()


def _has_unread(*usages: Iterable[Usage]) -> bool:
    """Return whether tokens of a message could not be read. By the sums alone nobody knows if it is the only one."""
    return any(used.is_unread for some in usages for used in some)


def _added(
    sums: Mapping[_Key, Usage], before: Mapping[str, Usage], after: Iterable[Usage]
) -> dict[_Key, Usage]:
    """The sums after the usage in `after` is stored. As in the database, the larger output of a message counts."""
    stored, result = dict(before), dict(sums)
    for used in after:
        old = stored.get(used.message_id)
        if old is not None and not used.replaces(old):
            continue
        if old is not None:
            # The place of a message (sidechain) never changes.
            used = replace(used, sidechain=old.sidechain)
            _add(result, old, -1)
        stored[used.message_id] = used
        _add(result, used, 1)
    return result


def _add(sums: dict[_Key, Usage], used: Usage, sign: int) -> None:
    key = used.model, used.sidechain
    known = sums.get(key, Usage("", used.model, "", sidechain=used.sidechain))
    sums[key] = replace(
        known,
        input=known.input + sign * used.input,
        output=known.output + sign * used.output,
        cache_read=known.cache_read + sign * used.cache_read,
        cache_write=known.cache_write + sign * used.cache_write,
        cache_write_1h=known.cache_write_1h + sign * used.cache_write_1h,
    )
