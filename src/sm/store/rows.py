"""Converts between rows of the database and the classes of core. Pure.

Decoding is tolerant: an unknown value never loses a row.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, Generic, TypeVar

from sm.core.effects import Effect, EffectState
from sm.core.messages import SM_ITSELF, Message, Notice
from sm.core.models import (
    Capabilities,
    Checkpoint,
    Event,
    Exit,
    Launch,
    PermissionMode,
    Process,
    Session,
    Workspace,
)
from sm.core.next_process import Restarts
from sm.core.pauses import Pause
from sm.core.requests import Answer, Question, Request
from sm.core.states import (
    EventType,
    MessageMode,
    MessageState,
    Mode,
    NoticeKind,
    RequestKind,
    RequestState,
    TrustLevel,
)
from sm.core.statuses import Status
from sm.core.telegram_model import (
    CardDraft,
    DroppedCall,
    Outgoing,
    TelegramButton,
    TelegramChat,
    WatchedText,
)
from sm.core.telegram_threads import ForumFacts, ProgressCard, Topic, TopicState
from sm.core.timers import Timer

T = TypeVar("T")


class RowTable(Generic[T]):
    """Maps a dataclass to a table, by default one column for each field.

    `encode` and `decode` convert fields that SQLite cannot store. `split` names the columns of a field that is stored
    in several columns or under another name: `encode` returns a tuple of them, `decode` takes them as arguments.
    """

    def __init__(
        self,
        name: str,
        type: type[T],
        *,
        encode: Mapping[str, Callable[[Any], Any]] | None = None,
        decode: Mapping[str, Callable[..., Any]] | None = None,
        split: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.name = name
        self._type = type
        self._encode = encode or {}
        self._decode = decode or {}
        self._split = split or {}
        self._plain = tuple(f.name for f in fields(type) if f.name not in self._split)  # type: ignore[arg-type]
        columns = [*self._plain, *(column for columns in self._split.values() for column in columns)]
        self.columns = ", ".join(columns)
        self.select = f"SELECT {self.columns} FROM {name}"  # noqa: S608 - constant names

    def row(self, value: T) -> dict[str, Any]:
        row = {name: getattr(value, name) for name in self._plain}
        for name, encode in self._encode.items():
            stored = encode(getattr(value, name))
            if name in self._split:
                row.update(zip(self._split[name], stored, strict=True))
            else:
                row[name] = stored
        return row

    def load(self, row: sqlite3.Row) -> T:
        columns = dict(row)
        values = {name: columns[name] for name in self._plain}
        for name, decode in self._decode.items():
            split = self._split.get(name)
            values[name] = decode(*[columns[column] for column in split or (name,)])
        return self._type(**values)


def insertion(
    table: str, row: Mapping[str, Any], *, verb: str = "INSERT", conflict: str = ""
) -> tuple[str, tuple[Any, ...]]:
    """The INSERT statement and its parameters. `conflict`: an ON CONFLICT clause."""
    marks = ", ".join("?" * len(row))
    sql = f"{verb} INTO {table} ({', '.join(row)}) VALUES ({marks}) {conflict}"
    return sql, tuple(row.values())


def encode_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decode_json(text: str | None) -> dict[str, Any]:
    value = _parsed(text or "{}")
    return value if isinstance(value, dict) else {}


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def encoded_mapping(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else encode_json(dict(value))


def _trust(text: str) -> TrustLevel:
    # An unknown level must not read as the most trusted one.
    return TrustLevel.DIRECT if text == TrustLevel.DIRECT else TrustLevel.SANDBOXED


def _topic_state(text: str) -> TopicState:
    # Nobody knows whether a topic in a state of a newer version exists.
    return TopicState(text) if text in set(TopicState) else TopicState.LOST


def _pause(text: str | None) -> Pause | None:
    if text is None:
        return None
    given = decode_json(text)
    if "budget" in given:  # its name until version 14
        given["hold"] = given["budget"]
    known = {f.name: given[f.name] for f in fields(Pause) if f.name in given}
    spends = known.get("spends")
    known["spends"] = tuple(map(str, spends)) if isinstance(spends, list) else ()
    # A session whose pause cannot be read stays paused.
    return Pause(**{"at": "", "by": SM_ITSELF, "reason": "unknown", **known})


def _restarts(text: str | None) -> Restarts | None:
    if text is None:
        return None
    given = decode_json(text)
    known = {f.name: given[f.name] for f in fields(Restarts) if f.name in given}
    times = known.get("times")
    return Restarts(**{**known, "times": tuple(map(str, times)) if isinstance(times, list) else ()})


def _capabilities(text: str) -> Capabilities:
    given = decode_json(text)
    return Capabilities(*(_names(given.get(f.name, ())) for f in fields(Capabilities)))


def _names(value: object) -> tuple[str, ...] | None:
    # Only None means all: an unreadable value must grant nothing.
    return None if value is None else tuple(map(str, value)) if isinstance(value, list) else ()


def _texts(text: str) -> tuple[str, ...]:
    value = _parsed(text)
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _numbers(text: str) -> tuple[int, ...]:
    value = _parsed(text)
    return tuple(number for number in value if isinstance(number, int)) if isinstance(value, list) else ()


def _questions(text: str) -> tuple[Question, ...]:
    questions = _parsed(text)
    return tuple(
        Question(str(q.get("question", "")), tuple(q.get("options", ())), bool(q.get("multiple")))
        for q in (questions if isinstance(questions, list) else [])
        if isinstance(q, dict)
    )


def _answer(text: str | None) -> Answer | None:
    if text is None:
        return None
    answer = decode_json(text)
    return Answer(bool(answer.get("approved")), tuple(answer.get("answers", ())), answer.get("message"))


SESSIONS = RowTable(
    "sessions",
    Session,
    split={
        "shares_name": (),
        "runs": ("openings",),
        "process": ("pid", "pid_started"),
        "exit": ("ended", "exit_code", "exit_signal"),
    },
    encode={
        "paused": lambda pause: None if pause is None else encode_json(asdict(pause)),
        "restarts": lambda restarts: None if restarts is None else encode_json(asdict(restarts)),
        "runs": lambda runs: (runs,),
        "process": lambda process: (process.pid, process.started) if process else (None, None),
        "exit": lambda end: (True, end.code, end.signal) if end else (False, None, None),
    },
    decode={
        "status": Status,
        "mode": Mode,
        "trust_level": _trust,
        "effective_mode": _trust,
        "archived": bool,
        "told_operator": bool,
        "paused": _pause,
        "restarts": _restarts,
        "runs": int,
        "process": lambda pid, started: None if pid is None else Process(pid, started),
        "exit": lambda ended, code, signal: Exit(code, signal) if ended else None,
    },
)
WORKSPACES = RowTable(
    "workspaces",
    Workspace,
    encode={"capabilities": lambda given: encode_json(asdict(given)), "sandbox": encoded_mapping},
    decode={
        "trust_level": lambda text: None if text is None else _trust(text),
        "capabilities": _capabilities,
        "strict_mcps": bool,
        "lifecycle": lambda text: None if text is None else Mode(text),
        "sandbox": decode_json,
    },
)
MESSAGES = RowTable("messages", Message, decode={"mode": MessageMode, "state": MessageState})
REQUESTS = RowTable(
    "requests",
    Request,
    encode={
        "arguments": encoded_mapping,
        "questions": lambda questions: encode_json([asdict(question) for question in questions]),
        "answer": lambda answer: None if answer is None else encode_json(asdict(answer)),
    },
    decode={
        "kind": RequestKind,
        "state": RequestState,
        "cut": bool,
        "arguments": lambda text: None if text is None else decode_json(text),
        "questions": _questions,
        "answer": _answer,
    },
)
NOTICES = RowTable("notices", Notice, decode={"kind": NoticeKind})
EVENTS = RowTable(
    "events",
    Event,
    encode={"metadata": encoded_mapping},
    decode={"type": EventType, "metadata": decode_json},
)
CHECKPOINTS = RowTable(
    # An event holds the metadata of its checkpoint. Checkpoints of older databases hold their own.
    "(SELECT c.id, c.session_id, c.timestamp, c.message, iif(c.metadata = '', e.metadata, c.metadata) AS metadata"
    " FROM checkpoints c LEFT JOIN events e ON c.metadata = '' AND e.seq = c.id)",
    Checkpoint,
    encode={"metadata": encoded_mapping},
    decode={"metadata": decode_json},
)
TIMERS = RowTable("timers", Timer, encode={"data": encoded_mapping}, decode={"data": decode_json})
OUTBOX = RowTable("outbox", Effect, encode={"payload": encoded_mapping}, decode={"payload": decode_json})

_IN_PAYLOAD = ("chat_id", "method", "parameters", "need", "lost_answers", "subject", "about")


def outgoing_payload(call: Outgoing) -> str:
    return encode_json({name: getattr(call, name) for name in _IN_PAYLOAD})


def outgoing(row: sqlite3.Row) -> Outgoing:
    """The call to Telegram in a row of the outbox."""
    payload = decode_json(row["payload"])
    known = {name: payload[name] for name in _IN_PAYLOAD if name in payload}
    return Outgoing(id=row["id"], state=EffectState(row["state"]), created_at=row["created_at"], **known)


TELEGRAM_CHATS = RowTable("telegram_chats", TelegramChat)
DROPPED_CALLS = RowTable("telegram_dropped", DroppedCall)
TELEGRAM_BUTTONS = RowTable("telegram_buttons", TelegramButton)
TELEGRAM_TEXTS = RowTable("telegram_texts", WatchedText, decode={"is_told": bool})
TELEGRAM_DRAFTS = RowTable(
    "telegram_drafts",
    CardDraft,
    encode={"answers": encode_json, "ticked": encode_json},
    decode={"answers": _texts, "ticked": _numbers},
)
TOPICS = RowTable("telegram_topics", Topic, decode={"state": _topic_state, "is_closed": bool})
PROGRESS_CARDS = RowTable("telegram_progress", ProgressCard, decode={"is_live": bool})
FORUMS = RowTable(
    "telegram_forums",
    ForumFacts,
    encode={"owners": lambda owners: encode_json(list(owners))},
    decode={"is_forum": bool, "can_manage": bool, "owners": _numbers, "is_told": bool},
)


SHELL_LIMITS = "shell_limits"
TOLD = "told:"
"""The beginning of the names of rows of `meta` about announcements that the operator got."""
"""The name of a row of the table `meta`."""


def launch_to_json(launch: Launch) -> str:
    """Omits the MCP servers: their credentials stay in their own file (`Sandbox.prepare`)."""
    stored = {f.name: getattr(launch, f.name) for f in fields(Launch) if f.name != "mcp_config"}
    permission = None if launch.permission is None else asdict(launch.permission)
    return encode_json({**stored, "permission": permission})


def launch_from_json(text: str) -> Launch:
    value = decode_json(text)
    known = {f.name: value[f.name] for f in fields(Launch) if f.name in value}
    permission = known.get("permission")
    known["permission"] = None if permission is None else PermissionMode(**permission)
    return Launch(**known | {"argv": tuple(known["argv"]), "flags": tuple(known.get("flags", ()))})
