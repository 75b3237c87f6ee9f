"""The documented JSON of everything that the daemon shows (docs/protocol.md)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar, cast

import orjson

from sm.api import answers
from sm.core.lifecycle import is_live
from sm.core.messages import Message
from sm.core.models import Caller, Event, Session, Workspace
from sm.core.requests import Request
from sm.core.timestamps import iso
from sm.messaging.messages import RenderedMessage
from sm.services import Services
from sm.sessions.manager import SessionResult
from sm.sessions.restore import RestoreResult

View = TypeVar("View")
SessionTexts = dict[str, tuple[Session, int | None, bool, orjson.Fragment]]
"""The JSON text of each session, with everything that it depends on: lists are long and often asked for."""


@dataclass(frozen=True, slots=True)
class Views:
    """Shows sessions, events and workspaces as `caller` may see them."""

    services: Services
    caller: Caller
    texts: SessionTexts

    def session(self, session: Session) -> answers.SessionView:
        """The session as the caller sees it. Only the session itself sees a parent that is hidden from it."""
        monitor = self.services.monitor
        shown = self.services.sessions.without_hidden_names(self.caller, session)
        return session_json(shown, monitor.activity_s(session.id), stale=monitor.is_stale(session.id))

    def sessions(self, sessions: Iterable[Session]) -> list[answers.SessionView]:
        """As `session`, with a cached text wherever the caller sees the whole session."""
        shown, caller = self.services.sessions.without_hidden_names, self.caller
        sees_all = caller.session_id is None
        views = [self._text(s) if sees_all or shown(caller, s) is s else self.session(s) for s in sessions]
        # orjson writes a fragment as the object that it holds.
        return cast("list[answers.SessionView]", views)

    def _text(self, session: Session) -> orjson.Fragment:
        monitor = self.services.monitor
        activity_s, stale = monitor.activity_s(session.id), monitor.is_stale(session.id)
        kept = self.texts.get(session.id)
        if kept is not None and kept[0] is session and kept[1:3] == (activity_s, stale):
            return kept[3]
        text = orjson.Fragment(orjson.dumps(session_json(session, activity_s, stale=stale)))
        self.texts[session.id] = (session, activity_s, stale, text)
        return text

    def started(self, result: SessionResult) -> answers.StartedView:
        """The answer of a route that starts or ends a session."""
        return {**self.session(result.session), "warnings": list(result.warnings)}

    def event(self, event: Event) -> answers.EventView:
        sessions = self.services.sessions
        caller_session = sessions.caller_session(self.caller)
        own = caller_session is None or caller_session.id == event.session_id
        if not own and sessions.is_hidden(caller_session, event.parent_session_id):
            event = replace(event, parent_session_id=None)
        return shaped(answers.EventView, event)

    def workspace(self, workspace: Workspace) -> answers.WorkspaceView:
        sessions = self.services.workspaces.sessions(self.caller, workspace.slug)
        given = asdict(workspace.capabilities)
        return shaped(
            answers.WorkspaceView,
            workspace,
            working_dir=workspace.directory,
            capabilities={kind: "all" if names is None else names for kind, names in given.items()},
            sessions=len(sessions),
            live=sum(is_live(s.status) for s in sessions),
        )

    def request(self, request: Request) -> answers.RequestView:
        session = self.services.store.sessions.get(request.session_id)
        return shaped(
            answers.RequestView,
            request,
            request_id=request.name,
            name=session.display_name if session else None,
            agent=request.agent or None,
            options=request.questions[0].options if len(request.questions) == 1 else [],
        )


def shaped(view: type[View], source: object, **own: Any) -> View:
    """An object of the documented type `view`: its fields are `own`, and for the rest attributes of `source`."""
    fields = view.__annotations__
    return cast(View, {name: own[name] if name in own else getattr(source, name) for name in fields})


def session_json(
    session: Session, activity_s: int | None = None, *, stale: bool = False
) -> answers.SessionView:
    """One session, without `children`. `activity_s`: when its terminal last printed something."""
    process, exit = session.process, session.exit
    return shaped(
        answers.SessionView,
        session,
        session_id=session.id,
        status_stale=stale,
        parent_session_id=session.parent_id,
        tmux_session=session.terminal,
        pid=process.pid if process else None,
        exit_code=exit.code if exit else None,
        exit_signal=exit.signal if exit else None,
        last_activity_at=session.status_at if activity_s is None else max(session.status_at, iso(activity_s)),
        worktree=None if session.worktree is None else {"path": session.worktree, "branch": session.branch},
        children=[],
    )


def nest(
    sessions: Iterable[Session],
    children: Mapping[str, Sequence[Session]],
    wanted: Collection[str],
    view: Callable[[Session], answers.SessionView],
) -> list[answers.SessionView]:
    """The wanted sessions and all their ancestors, since a tree has no gaps. `children`: by the id of their parent."""
    nested: list[answers.SessionView] = []
    for session in sessions:
        below = nest(children.get(session.id, ()), children, wanted, view)
        if below or session.id in wanted:
            nested.append({**view(session), "children": below})
    return nested


def message_json(message: Message) -> answers.MessageView:
    return shaped(
        answers.MessageView, message, message_id=message.id, status=message.state, **{"from": message.sender}
    )


def letter_json(letter: RenderedMessage) -> answers.LetterView:
    return {**message_json(letter.message), "text": letter.text, "shown": letter.shown}


def failures_json(done: RestoreResult) -> list[answers.FailureView]:
    return [shaped(answers.FailureView, error, session_id=session_id) for session_id, error in done.failed]
