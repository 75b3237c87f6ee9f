"""Builds the answers of sums, sessions and others."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import orjson

from sm.core.dataclass import dataclass
from sm.core.forest import Forest
from sm.core.labels import label, label_of, short_label
from sm.core.messages import Message
from sm.core.models import Caller, Event, Session, is_between_processes, last_exit
from sm.core.requests import Request
from sm.core.states import CallerKind
from sm.core.timestamps import iso
from sm.core.tree_totals import Totals
from sm.messaging.inbox import RenderedMessage
from sm.policy.written_rules import WrittenRule
from sm.services import (
    Attachers,
    Authorizer,
    Monitor,
    ProgramChecks,
    Reads,
    SessionFields,
    Sessions,
    SessionSums,
)
from sm.sessions.restore import RestoreResult
from sm.sessions.spawn import SessionResult
from sm.wire_types.event_answers import EventView
from sm.wire_types.fields import LEFT_OUT
from sm.wire_types.message_answers import LetterView, MessageView
from sm.wire_types.request_answers import RequestView, WrittenRuleView
from sm.wire_types.session_answers import (
    CAPABILITY_FIELDS,
    FailureView,
    LossView,
    PausedView,
    ProgramView,
    RestartsView,
    SessionView,
    SessionWithSums,
    StartedView,
    WorktreeView,
)
from sm.wire_types.usage_answers import SessionSumsView, SumsView, TokensView, TreeSumsView

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


View = TypeVar("View", bound="DataclassInstance")
SessionTexts = dict[str, tuple[Session, int | None, bool, str | None, orjson.Fragment]]
"""A cache of each session's JSON text with all values that it depends on, because long lists are frequent."""
SumsTexts = dict[str, tuple[orjson.Fragment, int, float, orjson.Fragment, Totals, Totals]]
"""As SessionTexts, of texts with sums: the text without them, the version of the sums, the end of its minutes, the
text, and the totals of the session and of its tree."""

_MINUTES_STEP_S = 6.0
"""The minutes of one working session change as often as this."""


def session_sums_json(own: Totals, tree: Totals, now_s: float) -> SessionSumsView:
    return SessionSumsView(
        SumsView(*_sums(own, now_s)),
        TreeSumsView(*_sums(tree, now_s), tree.sessions, tree.live, tree.removed),
    )


def _sums(sums: Totals, now_s: float) -> tuple[TokensView | None, bool, float | None, bool, float]:
    return (
        None if sums.counted is None else TokensView.of(sums.counted),
        sums.unread > 0,
        sums.known_cost_usd,
        sums.unpriced > 0,
        sums.minutes(now_s),
    )


@dataclass(frozen=True, slots=True)
class Views:
    """Shows sessions, events and workspaces as `caller` may see them."""

    caller: Caller
    texts: SessionTexts
    sums_texts: SumsTexts
    _: KW_ONLY
    lists: Sessions
    authorizer: Authorizer
    monitor: Monitor
    programs: ProgramChecks
    usage: SessionSums
    store: Reads
    fields: SessionFields
    attachers: Attachers

    def session(self, session: Session) -> SessionView:
        """The session without names that are hidden from the caller. The session itself sees its hidden parent."""
        monitor, id = self.monitor, session.id
        return SessionView(**self.session_fields(session, monitor.activity_s(id), stale=monitor.is_stale(id)))

    def session_fields(self, session: Session, activity_s: int | None, *, stale: bool) -> dict[str, Any]:
        """The fields of `session`, with the time of the last output in its terminal and the staleness of its status."""
        shown = self.lists.without_hidden_names(self.caller, session)
        return session_fields(
            shown,
            activity_s,
            stale=stale,
            parent_label=self._parent_label(shown),
            fields=self._fields(session),
            takes_files=self._takes_files(session),
        )

    def sessions(self, sessions: Iterable[Session]) -> list[SessionView]:
        """As `session`, with cached texts of sessions that the caller sees completely."""
        shown, caller = self.lists.without_hidden_names, self.caller
        sees_all = caller.kind is CallerKind.OPERATOR
        changing = set[str]().union(*(field.ids() for field in self.fields))
        views = [
            self._text(s) if (sees_all or shown(caller, s) is s) and s.id not in changing else self.session(s)
            for s in sessions
        ]
        # orjson serializes a fragment as its object.
        return cast("list[SessionView]", views)

    async def sessions_with_sums(self, sessions: Iterable[Session]) -> list[SessionWithSums]:
        """As `sessions`, each with the sums of itself and of its descendants that the caller sees."""
        usage, now_s, shown = self.usage, self.monitor.now(), list(sessions)
        sums = await usage.sums(self.caller, shown)
        version, cache, views = usage.version, self.sums_texts, list[object]()
        sees_all = self.lists.sees_all(self.caller)
        for session, view in zip(shown, cast("list[object]", self.sessions(shown)), strict=True):
            cached = cache.get(session.id)
            is_fresh = cached is not None and cached[0] is view and cached[1] == version and now_s < cached[2]
            if sees_all and is_fresh and cached is not None:
                views.append(cached[3])
                continue
            own, tree = usage.own(session.id), sums(session.id)
            if not isinstance(view, orjson.Fragment):
                views.append(SessionWithSums(**vars(view), sums=session_sums_json(own, tree, now_s)))
            elif sees_all:
                views.append(self._text_with_sums(session.id, view, own, tree, now_s))
            else:  # the texts in the cache are of readers that see all sessions
                views.append(_with_sums(view, own, tree, now_s))
        return cast("list[SessionWithSums]", views)

    def _text_with_sums(
        self, session_id: str, text: orjson.Fragment, own: Totals, tree: Totals, now_s: float
    ) -> orjson.Fragment:
        cached = self.sums_texts.get(session_id)
        is_same = cached is not None and cached[0] is text and cached[4] is own and cached[5] is tree
        if cached is not None and is_same and now_s < cached[2]:
            until_s, whole = cached[2], cached[3]
        else:
            until_s = now_s + _MINUTES_STEP_S / tree.working if tree.working else math.inf
            whole = _with_sums(text, own, tree, now_s)
        if not self.store.sessions.is_kept(session_id):
            return whole
        self.sums_texts[session_id] = (text, self.usage.version, until_s, whole, own, tree)
        return whole

    def _text(self, session: Session) -> orjson.Fragment:
        monitor = self.monitor
        activity_s, stale = monitor.activity_s(session.id), monitor.is_stale(session.id)
        parent_label = self._parent_label(session)
        cached = self.texts.get(session.id)
        known = (activity_s, stale, parent_label)
        if cached is not None and cached[0] is session and cached[1:4] == known:
            return cached[4]
        view = session_json(
            session,
            activity_s,
            stale=stale,
            parent_label=parent_label,
            takes_files=self._takes_files(session),
        )
        text = orjson.Fragment(orjson.dumps(view))
        if self.store.sessions.is_kept(session.id):
            self.texts[session.id] = (session, *known, text)
        return text

    def _takes_files(self, session: Session) -> bool:
        return self.attachers.takes_files(session.provider, session.agent_type)

    def _fields(self, session: Session) -> Mapping[str, Any]:
        """The fields of capabilities that have a value and that the caller may see."""
        fields = [field for field in self.fields if session.id in field.ids()]
        if not all(field.is_public for field in fields) and not self.authorizer.may_read(
            self.caller, session
        ):
            fields = [field for field in fields if field.is_public]
        return {field.name: field.value(session.id) for field in fields}

    def forget(self, session_id: str) -> None:
        """Drop the cached texts of a removed session."""
        self.texts.pop(session_id, None)
        self.sums_texts.pop(session_id, None)

    def _parent_label(self, session: Session) -> str | None:
        return None if session.parent_id is None else self._label_of(session.parent_id)

    def _label_of(self, word: str) -> str:
        return label_of(word, self.store.sessions.get(word))

    def started(self, result: SessionResult) -> StartedView:
        """The answer of a route that starts or ends a session."""
        permission, program = result.permission, self.programs.state(result.session)
        return StartedView(
            **{**vars(self.session(result.session)), "warnings": result.warnings},
            permission_mode=LEFT_OUT if permission is None else permission.mode,
            permission_source=LEFT_OUT if permission is None else permission.source,
            program=LEFT_OUT if program is None else build_view(ProgramView, program),
        )

    def event(self, event: Event) -> EventView:
        principal = self.authorizer.principal(self.caller)
        own = principal is None or self.caller.session_id == event.session_id
        if not own and self.lists.is_hidden(principal, event.parent_session_id):
            event = replace(event, parent_session_id=None)
        return build_view(EventView, event)

    def message(self, message: Message) -> MessageView:
        return build_view(
            MessageView,
            message,
            message_id=message.id,
            status=message.state,
            from_=message.sender,
            from_label=self._label_of(message.sender),
            label=self.recipient(message.session_id),
            held_until=message.held_until if message.is_held else None,
        )

    def letter(self, rendered: RenderedMessage) -> LetterView:
        return build_view(
            LetterView, self.message(rendered.message), text=rendered.text, shown=rendered.shown
        )

    def recipient(self, session_id: str | None) -> str:
        """The recipient of a message, for people."""
        session = self.store.sessions.get(session_id or "")
        return short_label(session) if session else session_id or "operator"

    def request(self, request: Request) -> RequestView:
        session = self.store.sessions.get(request.session_id)
        return build_view(
            RequestView,
            request,
            request_id=request.name,
            name=session.display_name if session else None,
            label=self._label_of(request.session_id),
            answered_by_label=request.answered_by and self._label_of(request.answered_by),
            agent=request.agent or None,
            options=request.questions[0].options if len(request.questions) == 1 else [],
            always=None,
        )


def _with_sums(text: orjson.Fragment, own: Totals, tree: Totals, now_s: float) -> orjson.Fragment:
    """The JSON text of a session with its sums as the last field."""
    sums = orjson.dumps(session_sums_json(own, tree, now_s))
    return orjson.Fragment(orjson.dumps(text)[:-1] + b',"sums":' + sums + b"}")


def written_rule_view(rule: WrittenRule, path: str) -> WrittenRuleView:
    """A rule of the file at `path`."""
    origin = f"{path}:{rule.line}" if rule.line else path
    return WrittenRuleView(rule.agent_type, rule.allow, rule.sandboxed, rule.text, origin)


def build_view(view: type[View], source: object, **own: Any) -> View:
    """An object of the documented type `view`, with the values in `own`, and attributes of `source` for the rest."""
    return view(**_fields(view, source, own))


def _fields(view: "type[DataclassInstance]", source: object, own: Mapping[str, Any]) -> dict[str, Any]:
    names = view.__dataclass_fields__
    return {name: own[name] if name in own else getattr(source, name) for name in names}


def session_json(
    session: Session,
    activity_s: int | None = None,
    *,
    stale: bool = False,
    parent_label: str | None = None,
    takes_files: bool = False,
) -> SessionView:
    """One session without `children` and without fields of capabilities, as `session_fields`."""
    fields = session_fields(
        session, activity_s, stale=stale, parent_label=parent_label, takes_files=takes_files
    )
    return SessionView(**fields)


def session_fields(
    session: Session,
    activity_s: int | None,
    *,
    stale: bool,
    parent_label: str | None,
    fields: Mapping[str, Any] = MappingProxyType({}),
    takes_files: bool = False,
) -> dict[str, Any]:
    """The fields of one session, without `children`. `activity_s`: the time of the last output in its terminal."""
    process, exit = session.process, last_exit(session) if is_between_processes(session) else session.exit
    own = dict(
        session_id=session.id,
        label=label(session),
        parent_label=parent_label,
        status_stale=stale,
        parent_session_id=session.parent_id,
        tmux_session=session.terminal,
        pid=process.pid if process else None,
        exit_code=exit.code if exit else None,
        exit_signal=exit.signal if exit else None,
        last_activity_at=session.status_at if activity_s is None else max(session.status_at, iso(activity_s)),
        paused=None if session.paused is None else PausedView.of(session.paused),
        restarts=None
        if session.restarts is None or not session.restarts.max
        else build_view(RestartsView, session.restarts),
        **{name: fields.get(name, empty) for name, empty in CAPABILITY_FIELDS.items()},
        worktree=None if session.worktree is None else WorktreeView(session.worktree, session.branch),
        takes_files=takes_files,
        children=(),
    )
    return _fields(SessionView, session, own)


def nest(
    sessions: Iterable[Session], view: Callable[[Session], SessionWithSums]
) -> Sequence[SessionWithSums]:
    """The sessions as a tree: each one in the `children` of its parent."""
    levels: dict[int, deque[SessionWithSums]] = {}
    for placed in reversed(Forest(sessions, lambda s: s.id, lambda s: s.parent_id).lines()):
        children = tuple(levels.pop(placed.depth + 1, ()))
        level = levels.setdefault(placed.depth, deque())
        level.appendleft(replace(view(placed.row), children=children))
    return tuple(levels.get(0, ()))


def losses_json(done: RestoreResult) -> list[LossView]:
    return [LossView(session_id, loss) for session_id, loss in done.losses]


def failures_json(done: RestoreResult) -> list[FailureView]:
    return [build_view(FailureView, error, session_id=session_id) for session_id, error in done.failed]
