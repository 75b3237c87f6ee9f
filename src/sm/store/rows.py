"""How things stand in the database: the only place that knows both a row and what it stands for. Pure.

Decoding is tolerant: a value that this version does not know never loses a row (lessons.md, Daemon).
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sm.core.messages import Message, Notice
from sm.core.models import Capabilities, Exit, Launch, Process, Session, Workspace
from sm.core.requests import Answer, Question, Request
from sm.core.states import (
    MessageMode,
    MessageState,
    Mode,
    NoticeKind,
    RequestKind,
    RequestState,
    Status,
    TrustLevel,
)


def encoded(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decoded(text: str | None) -> dict[str, Any]:
    """Tolerant: what cannot be read is empty, the row is not lost for it."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _trust(text: str) -> TrustLevel:
    # A level this version does not know must not read as the most trusted one (lessons.md, Authority).
    return TrustLevel.DIRECT if text == TrustLevel.DIRECT else TrustLevel.SANDBOXED


_PLAIN = tuple(
    f.name
    for f in fields(Session)
    if f.name
    not in {"status", "mode", "trust_level", "effective_mode", "process", "exit", "archived", "runs"}
)
COLUMNS = (
    *_PLAIN,
    *("status", "mode", "trust_level", "effective_mode", "archived"),
    *("openings", "pid", "pid_started", "ended", "exit_code", "exit_signal"),
)


def to_row(session: Session) -> dict[str, Any]:
    row = {name: getattr(session, name) for name in _PLAIN}
    row["status"] = session.status.value
    row["mode"] = session.mode.value
    row["trust_level"] = session.trust_level.value
    row["effective_mode"] = session.effective_mode.value
    row["archived"] = int(session.archived)
    row["openings"] = session.runs
    row["pid"] = session.process.pid if session.process else None
    row["pid_started"] = session.process.started if session.process else None
    row["ended"] = int(session.exit is not None)
    row["exit_code"] = session.exit.code if session.exit else None
    row["exit_signal"] = session.exit.signal if session.exit else None
    return row


def from_row(row: Mapping[str, Any]) -> Session:
    plain = {name: row[name] for name in _PLAIN}
    return Session(
        **plain,
        status=Status(row["status"]),
        mode=Mode(row["mode"]),
        trust_level=_trust(row["trust_level"]),
        effective_mode=_trust(row["effective_mode"]),
        archived=bool(row["archived"]),
        runs=row["openings"],
        process=Process(row["pid"], row["pid_started"]) if row["pid"] is not None else None,
        exit=Exit(row["exit_code"], row["exit_signal"]) if row["ended"] else None,
    )


WORKSPACE_COLUMNS = tuple(f.name for f in fields(Workspace))


def workspace_row(workspace: Workspace) -> dict[str, Any]:
    row = {name: getattr(workspace, name) for name in WORKSPACE_COLUMNS}
    row["trust_level"] = None if workspace.trust_level is None else workspace.trust_level.value
    row["capabilities"] = encoded(
        {f.name: getattr(workspace.capabilities, f.name) for f in fields(Capabilities)}
    )
    row["strict_mcps"] = int(workspace.strict_mcps)
    row["sandbox"] = encoded(dict(workspace.sandbox))
    return row


def workspace_from(row: Mapping[str, Any]) -> Workspace:
    plain = {name: row[name] for name in WORKSPACE_COLUMNS}
    given = decoded(row["capabilities"])
    return Workspace(
        **plain
        | {
            "trust_level": None if row["trust_level"] is None else _trust(row["trust_level"]),
            "capabilities": Capabilities(**{f.name: _names(given, f.name) for f in fields(Capabilities)}),
            "strict_mcps": bool(row["strict_mcps"]),
            "sandbox": decoded(row["sandbox"]),
        }
    )


def _names(given: Mapping[str, Any], kind: str) -> tuple[str, ...] | None:
    # Only what was written as "all" is all: a row that cannot be read gives nothing away.
    value = given.get(kind, ())
    return None if value is None else tuple(map(str, value)) if isinstance(value, list) else ()


def launch_to_json(launch: Launch) -> str:
    """Without the MCP servers: their own file has them (`Sandbox.prepare`), and what they log in with stays there."""
    return encoded({f.name: getattr(launch, f.name) for f in fields(Launch) if f.name != "mcp_config"})


def launch_from_json(text: str) -> Launch:
    value = decoded(text)
    known = {f.name: value[f.name] for f in fields(Launch) if f.name in value}
    return Launch(**known | {"argv": tuple(known["argv"]), "flags": tuple(known.get("flags", ()))})


MESSAGE_COLUMNS = tuple(f.name for f in fields(Message))


def message_row(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in MESSAGE_COLUMNS}


def message_from(row: Mapping[str, Any]) -> Message:
    plain = {name: row[name] for name in MESSAGE_COLUMNS}
    return Message(**plain | {"mode": MessageMode(row["mode"]), "state": MessageState(row["state"])})


REQUEST_COLUMNS = tuple(f.name for f in fields(Request))


def request_row(request: Request) -> dict[str, Any]:
    row = {name: getattr(request, name) for name in REQUEST_COLUMNS}
    row["arguments"] = None if request.arguments is None else encoded(dict(request.arguments))
    row["questions"] = encoded(
        [{"question": q.question, "options": q.options, "multiple": q.multiple} for q in request.questions]
    )
    answer = request.answer
    row["answer"] = (
        None
        if answer is None
        else encoded({"approved": answer.approved, "answers": answer.answers, "message": answer.message})
    )
    return row


def request_from(row: Mapping[str, Any]) -> Request:
    plain = {name: row[name] for name in REQUEST_COLUMNS}
    answer = decoded(row["answer"])
    return Request(
        **plain
        | {
            "kind": RequestKind(row["kind"]),
            "state": RequestState(row["state"]),
            "cut": bool(row["cut"]),
            "arguments": None if row["arguments"] is None else decoded(row["arguments"]),
            "questions": tuple(
                Question(str(q.get("question", "")), tuple(q.get("options", ())), bool(q.get("multiple")))
                for q in _list(row["questions"])
                if isinstance(q, dict)
            ),
            "answer": Answer(
                bool(answer.get("approved")), tuple(answer.get("answers", ())), answer.get("message")
            )
            if row["answer"] is not None
            else None,
        }
    )


def _list(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return []
    return value if isinstance(value, list) else []


NOTICE_COLUMNS = tuple(f.name for f in fields(Notice))


def notice_row(notice: Notice) -> dict[str, Any]:
    return {name: getattr(notice, name) for name in NOTICE_COLUMNS}


def notice_from(row: Mapping[str, Any]) -> Notice:
    return Notice(**{name: row[name] for name in NOTICE_COLUMNS} | {"kind": NoticeKind(row["kind"])})
