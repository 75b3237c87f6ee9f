"""The documented JSON of everything the daemon shows (design section 13). Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sm.core.messages import Message
from sm.core.models import Checkpoint, Event, Session, Workspace
from sm.core.requests import Request
from sm.core.timestamps import iso


def session_json(session: Session, activity_s: int | None = None, *, stale: bool = False) -> dict[str, Any]:
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


def workspace_json(workspace: Workspace, sessions: int, live: int) -> dict[str, Any]:
    """One workspace. `capabilities`: a list of names, or "all"; `trust_level` null: as the configuration says."""
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


def nest(
    parents: Iterable[dict[str, Any]], children: Mapping[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The sessions, each with its own in `children`, all the way down."""
    nested = []
    for parent in parents:
        below = nest(children.get(parent["session_id"], ()), children)
        nested.append({**parent, "children": below})
    return nested


def pruned(tree: Iterable[dict[str, Any]], wanted: Collection[str]) -> list[dict[str, Any]]:
    """The nested sessions whose id is wanted, and those above them: a tree has no gaps."""
    kept = []
    for node in tree:
        below = pruned(node["children"], wanted)
        if below or node["session_id"] in wanted:
            kept.append({**node, "children": below})
    return kept


def event_json(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "type": event.type,
        "session_id": event.session_id,
        "parent_session_id": event.parent_session_id,
        "timestamp": event.timestamp,
        "message": event.message,
        "metadata": dict(event.metadata),
    }


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "timestamp": checkpoint.timestamp,
        "message": checkpoint.message,
        "metadata": dict(checkpoint.metadata),
    }


def message_json(message: Message, text: str | None = None) -> dict[str, Any]:
    shown = {
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
    return shown if text is None else {**shown, "text": text}


def request_json(request: Request) -> dict[str, Any]:
    """`options` are those of the only question; `answer` is what was decided, null before. An `open` one with an
    `answer` is one whose dialog has not taken it yet. `agent`: the sub-agent that asks, null: the agent itself.
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
    }
