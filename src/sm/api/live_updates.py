"""Writes the updates of one reader of live rows, as its caller may see them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import orjson
from aiohttp import web

from sm.api.views import Views, build_view
from sm.core.attention import UNSEEN, Attention, current_task, request_line
from sm.core.dataclass import dataclass
from sm.core.live import LiveRow
from sm.core.models import Caller
from sm.core.task_kinds import TASK_MAX
from sm.core.text import folded
from sm.core.timestamps import iso
from sm.core.tree_totals import NO_TOTALS, Totals, TreePart, TreeTotals
from sm.core.usage import TokenCounts, ToolUse
from sm.services import Authorizer, Live, LiveNews, Requests, SeenSessions, SessionFilter, Sessions
from sm.wire_types.live_answers import EarlierView, LastToolView, LiveRowView, LiveUpdateView, TreeView
from sm.wire_types.usage_answers import TokensView

_PART_BYTES = 512 * 1024
"""About the size of an event. A client refuses lines of more than 4 MiB."""
SHARED = web.AppKey("live updates", dict[tuple[int, int, SessionFilter], tuple[bytes, ...]])
"""The newest update for readers that see all sessions: readers that keep up all need the same one."""


@dataclass(frozen=True, slots=True)
class RowViews:
    """Shows live rows as the caller of `views` may see them."""

    views: Views
    authorizer: Authorizer
    requests: Requests
    seen: SeenSessions

    def row(self, row: LiveRow, tree: Totals, *, sees_all: bool) -> LiveRowView:
        """The row without the words of an agent that the caller may not read (`without_words`).

        `sees_all`: the caller sees every session. To others no ending is unseen.
        """
        caller, session, used = self.views.caller, row.session, row.usage
        may_read = self.authorizer.may_read(caller, session)
        done, total = used.todo if used.todo is not None and may_read else (None, None)
        asked = row.requests if self.requests.may_see_of(caller, session) else ()
        texts = (row.activity, row.said or row.last_words, row.prompt) if may_read else (None, None, None)
        task = current_task(session, request_line(asked), *texts)
        return build_view(
            LiveRowView,
            row,
            **{**self.views.session_fields(session, row.printed_s, stale=row.stale), "model": row.model},
            tokens=_tokens(used.tokens),
            cost_usd=used.cost_usd,
            context_percent=used.context_percent,
            activity=row.activity if may_read else None,
            last_tool=None if used.last_tool is None else _tool(used.last_tool, may_read=may_read),
            todo_done=done,
            todo_total=total,
            open_requests=[request.name for request in asked],
            task=folded(task.text, TASK_MAX),
            task_kind=task.kind,
            attention=row.attention if sees_all or row.attention not in UNSEEN else Attention.ENDED,
            last_words=row.last_words if may_read else None,
            lost=bool(self.seen.lost(caller, [session])),
            tree=tree_json(tree),
        )


class LiveUpdates:
    """The updates of one reader.

    A caller that sees only some sessions must not learn of others, so `_sent` remembers what it was told.
    """

    def __init__(
        self,
        caller: Caller,
        filter: SessionFilter,
        shared: dict[tuple[int, int, SessionFilter], tuple[bytes, ...]],
        live: Live,
        sessions: Sessions,
        rows: RowViews,
        now: Callable[[], float],
    ) -> None:
        self._caller = caller
        self._live = live
        self._sessions = sessions
        self._rows = rows
        self._now = now
        self._filter = filter
        self._shared = shared
        self._sees_all = sessions.sees_all(caller)
        self._sent: dict[str, bytes] = {}
        """The last text of each row, for a caller that sees only some sessions."""
        self._past: tuple[int, Mapping[str, Totals]] = (0, {})
        """The sums of `LivePast.sums`, after the number of its changes at that time."""
        self._earlier: Sequence[EarlierView] | None = None
        """The numbers of sessions without rows that the reader knows, or None if this is not known."""

    def start(self, revision: str | None) -> int | None:
        """The revision to go on from, or None to begin with a snapshot."""
        # What the caller was told before is not known, so what to remove is not known either.
        number = self._live.number_of(revision) if self._sees_all else None
        self._earlier = [] if number is None else None
        return number

    def since(self, number: int | None) -> tuple[int, Iterator[bytes]]:
        """The current revision, and the events with what has changed after the revision `number`."""
        news = self._live.news(number)
        if number is None or not self._sees_all:
            return news.number, self._events(news)
        key = number, news.number, self._filter
        if key not in self._shared:
            self._shared.clear()
            self._shared[key] = tuple(self._events(news))
        return news.number, iter(self._shared[key])

    async def earlier(self, number: int) -> bytes | None:
        """The event with the numbers of sessions that have no row, if these have changed.

        `number`: the revision that the reader has. The rows do not wait for it: it reads the whole history.
        """
        found = await self._sessions.past_by_workspace(self._caller, self._filter)
        if found == self._earlier:
            return None
        self._earlier = found
        return self._event(self._live.revision(number), [], [], snapshot=False, earlier=found)

    def _events(self, news: LiveNews) -> Iterator[bytes]:
        """An event at least for a snapshot. A row that is newer than the revision comes again with the next one."""
        texts: list[bytes] = []
        removed = [s for s in news.removed if self._sees_all or self._sent.pop(s, None) is not None]
        size, snapshot = 0, news.snapshot
        for session_id, text in self._texts(news):
            if text is None:
                removed.append(session_id)
                continue
            if size > _PART_BYTES:
                yield self._event(None, texts, [], snapshot=snapshot)
                texts, size, snapshot = [], 0, False
            texts.append(text)
            size += len(text)
        if texts or removed or snapshot:
            yield self._event(self._live.revision(news.number), texts, removed, snapshot=snapshot)

    def _event(
        self,
        revision: str | None,
        rows: list[bytes],
        removed: list[str],
        *,
        snapshot: bool,
        earlier: Sequence[EarlierView] | None = None,
    ) -> bytes:
        update = LiveUpdateView(
            revision=revision,
            at=iso(self._now()),
            snapshot=snapshot,
            more=revision is None,
            rows=cast("list[LiveRowView]", [orjson.Fragment(row) for row in rows]),
            removed=removed,
            earlier=earlier,
        )
        return b"data: %b\n\n" % orjson.dumps(update)

    def _texts(self, news: LiveNews) -> Iterator[tuple[str, bytes | None]]:
        """The JSON of each row; None for one that the reader has to forget."""
        tree = None if self._sees_all else self._visible_totals()
        select, rows = self._sessions.select, self._live.rows
        for session_id in news.rows:
            row = rows.get(session_id)
            if row is None:  # removed since: the next update says so
                continue
            if not select(self._caller, (row.session,), self._filter):
                if not news.snapshot and (self._sees_all or self._sent.pop(session_id, None) is not None):
                    yield session_id, None
                continue
            totals = row.tree if tree is None else tree[session_id]
            text = orjson.dumps(self._rows.row(row, totals, sees_all=self._sees_all))
            if self._sees_all:
                yield session_id, text
            elif self._sent.get(session_id) != text:
                self._sent[session_id] = text
                yield session_id, text

    def _visible_totals(self) -> TreeTotals:
        """The sums without the sessions that the caller does not see."""
        if self._past[0] != self._live.past.number:
            principal = self._rows.authorizer.principal(self._caller)
            self._past = self._live.past.number, self._live.past.sums(principal)
        past, parts = self._past[1], dict[str, TreePart]()
        seen = {s.id for s in self._sessions.visible(self._caller, archived=True)}
        for session_id, row in self._live.rows.items():
            own, below = row.part.own if session_id in seen else NO_TOTALS, past.get(session_id)
            parts[session_id] = TreePart(row.session.parent_id, own if below is None else own.plus(below))
        totals = TreeTotals()
        totals.update(parts)
        return totals


def tree_json(tree: Totals) -> TreeView:
    return build_view(TreeView, tree, tokens=_tokens(None if tree.unread else tree.counted))


def _tokens(counts: TokenCounts | None) -> TokensView | None:
    return None if counts is None else TokensView.of(counts)


def _tool(tool: ToolUse, *, may_read: bool) -> LastToolView:
    return LastToolView(tool.name, dict(tool.arguments) if may_read else {}, tool.at)
