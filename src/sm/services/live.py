"""The rows of live views: every session with its usage and its open work, kept up to date while somebody reads them."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from sm.core.attention import Attention, EndedChildren, attention
from sm.core.dataclass import dataclass
from sm.core.labels import label, label_of
from sm.core.live import LiveRow, live_part
from sm.core.models import OPERATOR, Session
from sm.core.task_kinds import TASK_MAX
from sm.core.tree_totals import TreeTotals
from sm.core.usage import SessionUsage
from sm.errors import TerminalUnreachable
from sm.monitor.monitor import Monitor
from sm.services.live_changes import LiveChanges
from sm.services.live_past import LivePast
from sm.services.row_pace import RowPace
from sm.sessions.seen import SeenSessions
from sm.store import Store
from sm.store.change_signal import ChangeSignal
from sm.store.history import below

log = logging.getLogger(__name__)

_EVERY_S = 0.1
"""The least time between two revisions. Each row changes less often (row_pace.py)."""
_LOOK_EVERY_S = 0.25
"""How often to look without a commit."""
_PAUSE_AFTER_FAILURE_S = 2.0
_PAUSE_WITHOUT_TERMINALS_S = 30.0
_LOOKED_AT_ONCE = 500
_REMOVED_MAX = 1000


@dataclass(frozen=True, slots=True)
class LiveNews:
    """The ids of rows to send to a reader."""

    number: int
    """The revision after this news."""
    rows: tuple[str, ...]
    removed: tuple[str, ...]
    snapshot: bool
    """The reader forgets all other rows."""


class Live:
    """Tracks the rows while there are readers. A reader keeps only the number of its last revision.

    Each change of rows is a revision. Of a row only the newest state and its revision are kept, so a slow reader gets
    the newest state and never a queue. Without a reader the rows stay as they are, and nothing runs.
    """

    def __init__(self, store: Store, monitor: Monitor, seen: SeenSessions) -> None:
        self._store = store
        self._monitor = monitor
        self._seen = seen
        self._ended = EndedChildren()
        self._unseen_since = seen.since(OPERATOR)
        self._words: dict[str, tuple[str, str | None]] = {}
        """The time of the failure and the last words of each failed session that the operator has not seen."""
        self._prompts: dict[str, str] = {}
        """The tasks of sessions with rows."""
        self._no_words_until_s = 0.0
        """The time of the loop before which the terminal server is not asked for words again."""
        self._rows: dict[str, LiveRow] = {}
        self._totals = TreeTotals()
        self.past = LivePast()
        self._removals = store.memory.follow_removals()
        self._resets = store.history.resets
        self._changes = LiveChanges(store, monitor, self._rows)
        self._pace = RowPace()
        self._due: dict[str, None] = {}
        """Sessions to look at, kept until that succeeded, or until their rows may change again."""
        self._unmeasured: set[str] = set()
        """Sessions whose usage has to be read."""
        self._run = secrets.token_hex(4)
        """Names this daemon in revisions: after a restart, the revisions of another one are unknown."""
        self._revised: dict[str, int] = {}
        """The revision of each row, the newest last."""
        self._removed: dict[str, int] = {}
        """The revisions in which sessions were removed, the newest last."""
        self._oldest = 0
        """The oldest revision after which every removal is known."""
        self._readers = 0
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._signal = ChangeSignal()
        self.number = 0
        """The current revision."""

    @property
    def rows(self) -> Mapping[str, LiveRow]:
        """The row of each session in memory, oldest first. Current only while somebody reads."""
        return self._rows

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Keep the rows up to date for the duration of the block."""
        self._readers += 1
        try:
            await self._look(at_once=True)
            if self._task is None:
                self._task = asyncio.create_task(self._follow(), name="live rows")
            yield
        finally:
            self._readers -= 1
            if not self._readers and self._task is not None:
                self._task.cancel()
                self._task = None

    # For one reader

    def revision(self, number: int) -> str:
        """The name of a revision, for a reader that may come back."""
        return f"{self._run}-{number}"

    def number_of(self, revision: str | None) -> int | None:
        """The number of a revision after which all changes are known, or None if the reader needs a snapshot."""
        run, _, number = (revision or "").partition("-")
        if run != self._run or not number.isdecimal() or len(number) > 18:
            return None
        return int(number) if self._oldest <= int(number) <= self.number else None

    def news(self, since: int | None) -> LiveNews:
        """The changes after the revision `since`; all rows if `since` is None."""
        if since is None or since < self._oldest:
            return LiveNews(self.number, tuple(self._rows), (), snapshot=True)
        rows = tuple(_newer(self._revised, since))
        return LiveNews(self.number, rows, tuple(_newer(self._removed, since)), snapshot=False)

    async def wait_until(self, condition: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait until `condition` holds, checked after every revision. Returns False if that timed out."""
        return await self._signal.wait_until(condition, within_s)

    # Tracking

    async def _follow(self) -> None:
        while True:
            try:
                if await self._look() or self._due:
                    await asyncio.sleep(_EVERY_S)
                # A change after a rest is seen at once, and one that is not committed at the next look.
                if not self._due:
                    await self._store.wait_until(self._changes.are_committed, _LOOK_EVERY_S)
            except Exception:
                log.exception("failed to update the rows of live views")
                await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)

    async def _look(self, *, at_once: bool = False) -> bool:
        """Bring the rows up to date; True if one has changed. `at_once`: also rows that have changed just now."""
        async with self._looking:
            self._unmeasured |= self._monitor.take_measured()
            self._due |= self._changes.take() | dict.fromkeys(self._unmeasured)
            self._due |= dict.fromkeys(s for s in self._removals if s in self.past)
            self._removals.clear()
            before, now_s = self.number, asyncio.get_running_loop().time()
            if self._store.history.resets != self._resets:  # sessions without rows may be others
                self._resets = self._store.history.resets
                self.number += 1
            ready = [s for s in self._due if at_once or self._pace.may_change(s, now_s)]
            # Not all in one go: there may be thousands after a start.
            for begin in range(0, len(ready), _LOOKED_AT_ONCE):
                part = ready[begin : begin + _LOOKED_AT_ONCE]
                wordless = await self._read_words(part)
                new = [s for s in part if s not in self._rows]
                self._prompts |= await self._store.spawn_prompts(new, TASK_MAX) if new else {}
                await self._read_past(part)
                late = self._update(part, await self._usages(part), now_s, at_once=at_once)
                self._unmeasured.difference_update(part)
                for session_id in part:
                    del self._due[session_id]
                self._due |= dict.fromkeys((*late, *wordless))
                await asyncio.sleep(0)
            if self.number == before:
                return False
            self._signal.changed()
            return True

    async def _usages(self, due: Sequence[str]) -> Mapping[str, SessionUsage]:
        kept = self._store.sessions.kept
        sessions = (kept(s) for s in due if s in self._unmeasured or s not in self._rows)
        unmeasured = [s for s in sessions if s is not None]
        found = await self._monitor.usages(unmeasured) if unmeasured else {}
        # Rows are kept, and an answer may be long.
        return {s: replace(used, answer=(used.answer or "")[:TASK_MAX]) for s, used in found.items()}

    async def _read_words(self, due: Sequence[str]) -> list[str]:
        """Read the last words of the sessions that have failed, once for each failure.

        Returns those whose words are not known yet, because the terminal server does not answer.
        """
        self._unseen_since = self._seen.since(OPERATOR)
        found = (self._store.sessions.kept(session_id) for session_id in due)
        failed = [s for s in found if s is not None and self._group(s) is Attention.FAILED]
        new = [s for s in failed if self._words.get(s.id, ("", None))[0] != s.status_at]
        loop = asyncio.get_running_loop()
        if loop.time() < self._no_words_until_s:
            return [s.id for s in new]
        answers = await self._monitor.answers(new) if new else {}
        for place, session in enumerate(new):
            try:
                words = answers.get(session.id) or await self._monitor.read_last_words(session)
            except TerminalUnreachable:
                # Each attempt may take seconds, in which no row changes.
                self._no_words_until_s = loop.time() + _PAUSE_WITHOUT_TERMINALS_S
                return [s.id for s in new[place:]]
            self._words[session.id] = session.status_at, words
        return []

    async def _read_past(self, due: Sequence[str]) -> None:
        """Read the sums of the sessions below new rows that are not in memory."""
        sessions = self._store.sessions
        new = [s for s in due if s not in self._rows and s not in self.past and sessions.is_kept(s)]
        if not new:
            return
        async for part in self._store.history.parts(below(new)):
            members = [s for s in part if s.id not in self.past]
            used = await self._monitor.usages(members)
            parts = {s.id: live_part(s, used[s.id]) for s in members}
            for session in members:
                self._ended.put(session)
                self.past.put(session, parts[session.id])
            self._totals.update(parts)

    def _group(self, session: Session) -> Attention:
        return attention(session, self._changes.requests.get(session.id, ()), self._unseen_since)

    def _update(
        self, due: Sequence[str], usages: Mapping[str, SessionUsage], now_s: float, *, at_once: bool
    ) -> list[str]:
        """Replace the rows that have changed, in one revision. Returns relatives that may only change later."""
        sessions, before, late = self._store.sessions, self._rows, list[str]()
        gone = [s for s in due if (s in before or s in self.past) and s not in sessions]
        left = [s for s in due if s in before and s not in gone and not sessions.is_kept(s)]
        parents = {p for s in due if sessions.is_kept(s) for p in self._ended.put(sessions[s])}
        parents |= {p for s in gone for p in self._ended.remove(s)}
        drafts: dict[str, LiveRow] = {}
        for session_id in due:
            if (session := sessions.kept(session_id)) is not None:
                self.past.pop(session_id)
                usage = usages[session_id] if session_id in usages else before[session_id].usage
                drafts[session_id] = self._row(session, usage)
        renamed = {s for s, row in drafts.items() if s in before and before[s].label != row.label}
        for child in self._children({*renamed, *gone}):
            drafts.setdefault(child, self._row(sessions[child], before[child].usage))
        for parent in parents - drafts.keys():
            if sessions.is_kept(parent) and parent in before:
                drafts[parent] = self._row(sessions[parent], before[parent].usage)
        moved = self._totals.update({s: row.part for s, row in drafts.items()}, gone)
        number, ready = self.number + 1, frozenset(due)
        for session_id in (*drafts, *(moved - drafts.keys())):
            draft = drafts.get(session_id) or before.get(session_id)
            if draft is None:  # of a removed parent
                continue
            if not (at_once or session_id in ready or self._pace.may_change(session_id, now_s)):
                late.append(session_id)
                continue
            row = replace(draft, tree=self._totals[session_id])
            if row != before.get(session_id):
                self._revised.pop(session_id, None)
                self._revised[session_id] = number
                self._pace.note(session_id, now_s)
                self.number = number
            self._rows[session_id] = row  # also if it is equal: sources are compared by identity
            self._removed.pop(session_id, None)  # it may leave memory and enter it again
        for session_id in left:
            self.past.put(before[session_id].session, before[session_id].part)
        for session_id in (*gone, *left):
            self._remove(session_id, number)
        for session_id in gone:
            self.past.pop(session_id)
        return late

    def _remove(self, session_id: str, number: int) -> None:
        if self._rows.pop(session_id, None) is None:
            return
        self._words.pop(session_id, None)
        self._prompts.pop(session_id, None)
        self._revised.pop(session_id, None)
        self._pace.forget(session_id)
        self._removed[session_id] = self.number = number
        if len(self._removed) > _REMOVED_MAX:
            oldest = next(iter(self._removed))
            self._oldest = self._removed.pop(oldest)

    def _row(self, session: Session, usage: SessionUsage) -> LiveRow:
        monitor, parent = self._monitor, session.parent_id
        group = self._group(session)
        failed_at, words = self._words.get(session.id, ("", None))
        is_new = group is Attention.FAILED and failed_at == session.status_at
        return LiveRow(
            session=session,
            label=label(session),
            parent_label=None if parent is None else label_of(parent, self._store.sessions.get(parent)),
            printed_s=monitor.activity_s(session.id),
            stale=monitor.is_stale(session.id),
            usage=usage,
            activity=monitor.activity(session.id),
            model=usage.model,
            said=usage.answer or None,
            prompt=self._prompts.get(session.id),
            requests=self._changes.requests.get(session.id, ()),
            messages_held=self._changes.held.get(session.id, 0),
            attention=group,
            last_words=words if is_new else None,
            children_failed=self._ended.failed(session.id),
            children_done=self._ended.done(session.id),
            of_capabilities=self._changes.of_capabilities(session.id),
        )

    def _children(self, parents: set[str]) -> list[str]:
        if not parents:
            return []
        sessions = self._store.sessions
        return [
            s for s, row in self._rows.items() if row.session.parent_id in parents and sessions.is_kept(s)
        ]


def _newer(revised: dict[str, int], since: int) -> Iterator[str]:
    """The ids after the revision `since`, the newest first. `revised` has the newest last."""
    for session_id, number in reversed(revised.items()):
        if number <= since:
            return
        yield session_id
