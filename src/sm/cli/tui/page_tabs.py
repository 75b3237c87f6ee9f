"""Builds the pages of `sm top` that stay up to date: their tabs, and what each one reads."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sm.board import Board, BoardNeed, BoardRow, Target
from sm.board.columns import filled_columns
from sm.board.details import shown_target, target_lines, utc
from sm.board.order import forest_of
from sm.board.spend import spend_by_model, spend_by_tree, spend_over_time
from sm.board.tabs import EVENT_GROUPS, TABS, BoardTab
from sm.cli.tui import pictures, tab_texts, texts
from sm.cli.tui.cells import session_cells, widths_of
from sm.cli.tui.changes_tab import follow_changes
from sm.cli.tui.pages import PageLines, PageTab
from sm.cli.tui.peek import follow_screen
from sm.cli.tui.timeline_tabs import TimelineTabs
from sm.client import live_stream
from sm.client.http import Client
from sm.feed import FeedSource

_EVENTS = 500
_BUCKETS = 200

Lines = Callable[[Any, int], PageLines]


class PageTabs:
    def __init__(
        self,
        board: Board,
        client: Client,
        source: FeedSource,
        found: Callable[[], Sequence[BoardNeed]] = tuple,
    ) -> None:
        """`found`: the entries that need the person."""
        self._board = board
        self._found = found
        self._client = client
        self._source = source

    def of_session(self, target: Target) -> Sequence[PageTab]:
        return [self._session_tab(tab, target) for tab in TABS]

    def of_events(self) -> Sequence[PageTab]:
        """The events of the chosen workspace, by groups of types."""
        query = {"limit": _EVENTS, "workspace": self._board.workspace}
        command = ["sm", "events", "--limit", str(_EVENTS), *self._workspace_option()]

        def lines(types: Sequence[str]) -> Lines:
            return lambda answer, width: tab_texts.event_lines(answer, self._now(), types, self._labels())

        return [
            PageTab(title, command, lines(types), lambda: self._client.get("/v1/events", query), follows=True)
            for title, types in EVENT_GROUPS.items()
        ]

    def of_spend(self) -> Sequence[PageTab]:
        """The cost by tree, over time and by model."""
        board, workspace = self._board, self._board.workspace

        def tree(answer: Any, width: int) -> PageLines:
            return pictures.spend_lines(spend_by_tree(board.rows, workspace), width, nested=True)

        def series(answer: Any, width: int) -> PageLines:
            return pictures.spend_lines(spend_over_time(answer["buckets"]), width)

        def models(answer: Any, width: int) -> PageLines:
            return pictures.spend_lines(spend_by_model(answer["buckets"]), width)

        def read(by: Any) -> Callable[[], Any]:
            return lambda: live_stream.usage(self._client, by=by, workspace=workspace, limit=_BUCKETS)

        return [
            PageTab("Spend by tree", (), tree),
            PageTab("By hour", (), series, read("hour")),
            PageTab("By day", (), series, read("day")),
            PageTab("By model", (), models, read("day")),
        ]

    def of_timeline(self) -> Sequence[PageTab]:
        """The statuses of all sessions as lanes, and as a table. The tab to open first is `FIRST_TAB`."""
        return TimelineTabs(self._client, self._board.workspace, self._now_s, self._row).tabs()

    def _session_tab(self, tab: BoardTab, target: Target) -> PageTab:
        session_id = target.session_id
        assert session_id is not None
        command = tab.command_for(session_id)
        if tab.name == "output":
            follow = partial(follow_screen, self._source, session_id)
            return PageTab(tab.title, command, follow=follow, follows=True)
        if tab.name == "changes":
            changes = partial(follow_changes, self._client, session_id)
            return PageTab(tab.title, command, follow=changes, has_changes=True)
        own: Mapping[str, Lines] = {
            "overview": lambda answer, width: self._overview(session_id, width),
            "children": lambda answer, width: self._children(session_id, width),
        }
        if tab.name in own:
            need = (lambda: self._shown(session_id).need) if tab.name == "overview" else None
            return PageTab(tab.title, command, own[tab.name], need=need)
        path, query = tab.request(session_id)
        return PageTab(
            tab.title,
            command,
            self._lines(tab.name),
            lambda: self._client.get(path, query),
            follows=tab.follows,
        )

    def _lines(self, name: str) -> Lines:
        found: Mapping[str, Lines] = {
            "conversation": lambda answer, width: tab_texts.conversation_lines(answer, self._now()),
            "messages": lambda answer, width: tab_texts.message_lines(answer, self._now()),
            "events": lambda answer, width: tab_texts.event_lines(answer, self._now()),
            "why": lambda answer, width: tab_texts.why_lines(answer, self._now()),
            "requests": lambda answer, width: tab_texts.request_lines(answer, self._now(), width),
        }
        return found[name]

    def _overview(self, session_id: str, width: int) -> PageLines:
        if session_id not in self._board.rows:
            return ["the session is no longer in the list"]
        lines = target_lines(self._shown(session_id), self._now_s(), width)
        return list(map(texts.detail_line, lines))

    def _shown(self, session_id: str) -> Target:
        """The session with the request that its overview shows."""
        return shown_target(Target(self._board.rows.get(session_id)), self._found())

    def _children(self, session_id: str, width: int) -> PageLines:
        rows = self._board.rows
        found = forest_of(rows.values(), rows).below(session_id) if session_id in rows else []
        lines = forest_of(found, rows).lines()
        now_s, widths = self._now_s(), widths_of(width, filled_columns(found))
        return tab_texts.children_lines(
            [session_cells(line, widths, now_s, state="", fresh=True) for line in lines]
        )

    def _row(self, session_id: str) -> BoardRow | None:
        return self._board.rows.get(session_id)

    def _labels(self) -> Mapping[str, str]:
        return {row.id: row.label for row in self._board.rows.values()}

    def _workspace_option(self) -> list[str]:
        workspace = self._board.workspace
        return [] if workspace is None else ["--workspace", workspace]

    def _now_s(self) -> float:
        return self._board.now_s(time.monotonic())

    def _now(self) -> datetime:
        return utc(self._now_s())
