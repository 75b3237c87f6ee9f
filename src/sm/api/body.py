"""What a request says: typed access to its body, query and headers. Whatever is wrong with it is a UsageError."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import orjson
from aiohttp import web

from sm.core.models import RequestKey, Session
from sm.core.states import EventType, Status
from sm.errors import ProtocolMismatch, UsageError
from sm.sessions.tree import matches
from sm.wire import KEY_HEADER, KEY_MAX, PROTOCOL, PROTOCOL_HEADER

T = TypeVar("T")


class Parcel:
    """The bytes of a body as they were received, counted until they are taken."""

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        self._content = bytearray()

    def add(self, piece: bytes) -> int:
        """Return how many bytes there are now."""
        self._content += piece
        self._count(len(piece))
        return len(self._content)

    def take(self) -> bytearray:
        """All of it, once: nothing is kept or counted of a request that is only held."""
        content, self._content = self._content, bytearray()
        self._count(-len(content))
        return content


BODY = web.RequestKey("body", Parcel)
"""The whole body of a request, which `edge.py` has received within its bounds."""
_DIGITS_MAX = 9
_DEPTH_MAX = 100
"""How deep a body may nest. It is written again, in a digest at least, and orjson reads more than it writes."""
_NUMBER_MAX = 10**18


class Body:
    """The JSON object of a request: UsageError for a wrong type, unknown fields are ignored."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value

    def _get(self, name: str, type: type[T]) -> T | None:
        value = self.value.get(name)
        if value is None or isinstance(value, type):
            return value
        raise UsageError(f"{name} must be a {type.__name__}")

    def text(self, name: str) -> str | None:
        return self._get(name, str)

    def flag(self, name: str) -> bool:
        return self._get(name, bool) or False

    def number(self, name: str) -> float | None:
        value = self.value.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 86_400:
            raise UsageError(f"{name} must be a number of seconds, at most a day")
        return float(value)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._get(name, list) or []
        if not all(isinstance(item, str) for item in value):
            raise UsageError(f"{name} must be a list of texts")
        return tuple(value)

    def numbers(self, name: str) -> tuple[int, ...]:
        value = self._get(name, list) or []
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            raise UsageError(f"{name} must be a list of whole numbers")
        if any(abs(item) > _NUMBER_MAX for item in value):
            raise UsageError(f"{name} has a number that nothing can have")
        return tuple(value)

    def mapping(self, name: str, of: type[T]) -> dict[str, T]:
        value = self._get(name, dict) or {}
        if not all(isinstance(item, of) for item in value.values()):
            raise UsageError(f"the values of {name} must be of type {of.__name__}")
        return value


async def read_body(request: web.Request) -> Body:
    raw = request[BODY].take()
    try:
        value = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("the body must be a JSON object")
    if raw.count(b"{") + raw.count(b"[") > _DEPTH_MAX and not _is_shallow(value):
        raise UsageError(f"the body is nested more than {_DEPTH_MAX} deep")
    return Body(value)


def _is_shallow(value: object) -> bool:
    level = [value]
    for _ in range(_DEPTH_MAX + 1):
        level = [inner for each in level for inner in _within(each)]
        if not level:
            return True
    return False


def _within(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def fingerprint(action: str, body: Mapping[str, Any]) -> str:
    """What must be equal for two requests with one Idempotency-Key to be one: all but how long they wait."""
    asked = {name: value for name, value in body.items() if name != "wait_s"}
    text = orjson.dumps([action, asked], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()


def read_key(request: web.Request, body: Body) -> RequestKey | None:
    text = request.headers.get(KEY_HEADER)
    if text is None:
        return None
    if not (0 < len(text) <= KEY_MAX and text.isascii() and text.isprintable()):
        raise UsageError(f"{KEY_HEADER} must be 1 to {KEY_MAX} printable ASCII characters")
    return RequestKey(text, fingerprint(request.path, body.value))


def check_protocol(request: web.Request) -> None:
    asked = request.headers.get(PROTOCOL_HEADER, str(PROTOCOL))
    if not asked.isdecimal() or len(asked) > _DIGITS_MAX or int(asked) > PROTOCOL:
        raise ProtocolMismatch(
            f"the daemon speaks protocol {PROTOCOL}, you speak {asked[:20]}", "sm daemon restart"
        )


def moment(text: str | None, name: str) -> str:
    """`text` as it is, which must be a time with its zone, after 1970."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        raise UsageError(f"{name} must be a time, ISO 8601") from None
    if at.tzinfo is None:
        raise UsageError(f"{name} must name its zone")
    if at.timestamp() < 0:
        raise UsageError(f"{name} must be after 1970")
    return text or ""


def narrowed(request: web.Request, sessions: Iterable[Session]) -> list[Session]:
    """Those that `status` and `search` of the query ask for."""
    words = request.query.get("search", "")
    if words:
        sessions = [s for s in sessions if matches(s, words)]
    wanted = request.query.get("status", "all")
    if wanted == "all":
        return list(sessions)
    if wanted not in Status.__members__.values():
        raise UsageError(f"unknown status {wanted[:40]}", f"use one of: all, {', '.join(Status)}")
    return [s for s in sessions if s.status == wanted]


def event_type(request: web.Request) -> str | None:
    wanted = request.query.get("type")
    if wanted is not None and wanted not in EventType.__members__.values():
        raise UsageError(f"unknown event type {wanted[:40]}", f"use one of: {', '.join(EventType)}")
    return wanted


def number(request: web.Request, name: str, default: Any, most: int | None) -> Any:
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise UsageError(f"{name} must be a whole number")
    return min(int(text), most) if most else int(text)
