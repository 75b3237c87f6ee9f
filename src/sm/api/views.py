"""The documented JSON of everything that the daemon shows (docs/protocol.md)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import orjson

from sm.api.answers import (
    CheckpointView,
    EventView,
    LetterView,
    MessageView,
    RequestView,
    SessionView,
    WorkspaceView,
)
from sm.core.lifecycle import is_live
from sm.core.messages import Message
from sm.core.models import Caller, Checkpoint, Event, Session, Workspace
from sm.core.requests import Request
from sm.core.timestamps import iso
from sm.messaging.messages import RenderedMessage
from sm.services import Services


class Views:
    """Shows sessions, events and workspaces as their caller may see them.

    The JSON text of a session is cached until the session changes, since lists are long and often asked for.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._texts: dict[str, tuple[Session, int | None, bool, orjson.Fragment]] = {}

    def session(self, caller: Caller, session: Session) -> SessionView:
        """The session as the caller sees it. Only the session itself sees a parent that is hidden from it."""
        monitor = self._services.monitor
        shown = self._services.sessions.without_hidden_names(caller, session)
        return session_json(shown, monitor.activity_s(session.id), stale=monitor.is_stale(session.id))

    def sessions(self, caller: Caller, sessions: Sequence[Session]) -> list[SessionView]:
        """As `session`, with a cached text wherever the caller sees the whole session."""
        shown = self._services.sessions.without_hidden_names
        views = [self._text(s) if shown(caller, s) is s else self.session(caller, s) for s in sessions]
        return cast("list[SessionView]", views)  # orjson writes a fragment as the object that it holds

    def _text(self, session: Session) -> orjson.Fragment:
        monitor = self._services.monitor
        activity_s, stale = monitor.activity_s(session.id), monitor.is_stale(session.id)
        kept = self._texts.get(session.id)
        if kept is not None and kept[0] is session and kept[1:3] == (activity_s, stale):
            return kept[3]
        text = orjson.Fragment(orjson.dumps(session_json(session, activity_s, stale=stale)))
        self._texts[session.id] = (session, activity_s, stale, text)
        return text

    def forget(self, session_id: str) -> None:
        """Drop the cached text of a removed session."""
        self._texts.pop(session_id, None)

    def event(self, caller: Caller, event: Event) -> EventView:
        sessions = self._services.sessions
        caller_session = sessions.caller_session(caller)
        own = caller_session is None or caller_session.id == event.session_id
        if not own and sessions.is_hidden(caller_session, event.parent_session_id):
            event = replace(event, parent_session_id=None)
        return event_json(event)

    def workspace(self, caller: Caller, workspace: Workspace) -> WorkspaceView:
        sessions = self._services.workspaces.sessions(caller, workspace.slug)
        return workspace_json(workspace, len(sessions), sum(is_live(s.status) for s in sessions))

    def request(self, request: Request) -> RequestView:
        session = self._services.store.sessions.get(request.session_id)
        return request_json(request, session.display_name if session else None)


def session_json(session: Session, activity_s: int | None = None, *, stale: bool = False) -> SessionView:
    """One session, without `children`. `activity_s`: when its terminal last printed something."""
    return {
        "session_id": session.id,
        "name": session.name,
        "friendly_name": session.friendly_name,
        "title": session.title,
        "agent_type": session.agent_type,
        "provider": session.provider,
        "model": session.model,
        "status": session.status,
        "status_source": session.status_source,
        "status_reason": session.status_reason,
        "status_at": session.status_at,
        "status_stale": stale,
        "mode": session.mode,
        "parent_session_id": session.parent_id,
        "created_by": session.created_by,
        "working_dir": session.working_dir,
        "workspace": session.workspace,
        "trust_level": session.trust_level,
        "effective_mode": session.effective_mode,
        "tmux_session": session.terminal,
        "pid": session.process.pid if session.process else None,
        "exit_code": session.exit.code if session.exit else None,
        "exit_signal": session.exit.signal if session.exit else None,
        "created_at": session.created_at,
        "started_at": session.started_at,
        "completed_at": session.completed_at,
        "completion_status": session.completion_status,
        "completion_message": session.completion_message,
        "note": session.note,
        "last_activity_at": session.status_at
        if activity_s is None
        else max(session.status_at, iso(activity_s)),
        "archived": session.archived,
        "worktree": None
        if session.worktree is None
        else {"path": session.worktree, "branch": session.branch},
        "children": [],
    }


def workspace_json(workspace: Workspace, sessions: int, live: int) -> WorkspaceView:
    """One workspace, and the number of its sessions, in all and live."""
    given = workspace.capabilities
    return {
        "slug": workspace.slug,
        "working_dir": workspace.directory,
        "trust_level": workspace.trust_level,
        "capabilities": {
            "mcps": "all" if given.mcps is None else list(given.mcps),
            "skills": "all" if given.skills is None else list(given.skills),
            "agents": "all" if given.agents is None else list(given.agents),
        },
        "strict_mcps": workspace.strict_mcps,
        "sandbox": dict(workspace.sandbox),
        "created_at": workspace.created_at,
        "deleted_at": workspace.deleted_at,
        "sessions": sessions,
        "live": live,
    }


def nest(parents: Iterable[SessionView], children: Mapping[str, list[SessionView]]) -> list[SessionView]:
    """The sessions, each with its descendants in `children`."""
    nested: list[SessionView] = []
    for parent in parents:
        below = nest(children.get(parent["session_id"], ()), children)
        nested.append({**parent, "children": below})
    return nested


def pruned(tree: Iterable[SessionView], wanted: Collection[str]) -> list[SessionView]:
    """The nested sessions whose id is wanted, and all their ancestors: a tree has no gaps."""
    kept: list[SessionView] = []
    for node in tree:
        below = pruned(node["children"], wanted)
        if below or node["session_id"] in wanted:
            kept.append({**node, "children": below})
    return kept


def event_json(event: Event) -> EventView:
    return {
        "seq": event.seq,
        "type": event.type,
        "session_id": event.session_id,
        "parent_session_id": event.parent_session_id,
        "timestamp": event.timestamp,
        "message": event.message,
        "metadata": dict(event.metadata),
    }


def checkpoint_json(checkpoint: Checkpoint) -> CheckpointView:
    return {
        "timestamp": checkpoint.timestamp,
        "message": checkpoint.message,
        "metadata": dict(checkpoint.metadata),
    }


def message_json(message: Message) -> MessageView:
    return {
        "message_id": message.id,
        "session_id": message.session_id,
        "from": message.sender,
        "status": message.state,
        "mode": message.mode,
        "evidence": message.evidence,
        "reason": message.reason,
        "created_at": message.created_at,
        "submitted_at": message.submitted_at,
        "acknowledged_at": message.acknowledged_at,
        "expires_at": message.expires_at,
    }


def letter_json(letter: RenderedMessage) -> LetterView:
    return {**message_json(letter.message), "text": letter.text, "shown": letter.shown}


def request_json(request: Request, name: str | None) -> RequestView:
    """A request of the session that is called `name`.

    `options` are the options of the only question. `answer` is null before the decision; an `open` request with
    an `answer` waits for its dialog to take the answer. `agent` null: the agent itself asks, no sub-agent.
    """
    answer = request.answer
    return {
        "request_id": request.name,
        "session_id": request.session_id,
        "kind": request.kind,
        "tool": request.tool,
        "arguments": None if request.arguments is None else dict(request.arguments),
        "agent": request.agent or None,
        "cut": request.cut,
        "questions": [
            {"question": q.question, "options": list(q.options), "multiple": q.multiple}
            for q in request.questions
        ],
        "options": list(request.questions[0].options) if len(request.questions) == 1 else [],
        "state": request.state,
        "answer": None
        if answer is None
        else {"approved": answer.approved, "answers": list(answer.answers), "message": answer.message},
        "answered_by": request.answered_by,
        "reason": request.reason,
        "created_at": request.created_at,
        "expires_at": request.expires_at,
        "name": name,
    }
