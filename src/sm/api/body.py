"""The body of a request: its bytes, the JSON object in them, and the model that checks the fields."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Self

import orjson
from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from sm.core.models import RequestKey
from sm.core.nesting import DEPTH_MAX, is_shallow
from sm.errors import ProtocolMismatch, UsageError
from sm.wire import KEY_HEADER, KEY_MAX, PROTOCOL, PROTOCOL_HEADER


class BodyBuffer:
    """The received bytes of a body. `count` is called with every change of their number."""

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        self._content = bytearray()

    def add(self, piece: bytes) -> int:
        """Append `piece` and return the total number of bytes."""
        self._content += piece
        self._count(len(piece))
        return len(self._content)

    def take(self) -> bytearray:
        """Return and drop all bytes, so that a waiting request does not count."""
        content, self._content = self._content, bytearray()
        self._count(-len(content))
        return content


BODY = web.RequestKey("body", BodyBuffer)
"""The complete body of a request, which the middleware received within the limits of the socket."""
_DIGITS_MAX = 9
_SECONDS = "must be a number of seconds, at most a day"
_LIST = "must be a list"
_WHOLE_NUMBERS = "must be a list of whole numbers"
_TOO_LARGE = "contains a number out of range"
_OF_FIELD = {
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "list_type": _LIST,
    "dict_type": "must be an object",
    "float_type": _SECONDS,
    "finite_number": _SECONDS,
    "greater_than_equal": _SECONDS,
    "less_than_equal": _SECONDS,
}
_OF_ITEM = {
    "string_type": "must be a list of strings",
    "int_type": _WHOLE_NUMBERS,
    "int_from_float": _WHOLE_NUMBERS,
    "greater_than_equal": _TOO_LARGE,
    "less_than_equal": _TOO_LARGE,
}


class Body(BaseModel):
    """The model of a request's body. A missing field has its default; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)
    declared: ClassVar[type[Any] | None] = None
    """The dataclass from which the model was made."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """The checked fields of `value`. Raises UsageError."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise UsageError(_refusal(error.errors(include_url=False)[0])) from None


class EmptyBody(Body):
    """A body without fields."""


def _refusal(error: ErrorDetails) -> str:
    name, *inner = error["loc"]
    if not inner:
        return f"{name} {_OF_FIELD[error['type']]}"
    if isinstance(inner[0], int):
        return f"{name} {_OF_ITEM[error['type']]}"
    return f"the values of {name} must be {'whole numbers' if error['type'].startswith('int') else 'strings'}"


async def read_json(request: web.Request) -> dict[str, Any]:
    """The JSON object in the body of the request. Raises UsageError."""
    raw = request[BODY].take()
    try:
        value = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError as error:
        raise UsageError(f"the request body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("the request body must be a JSON object")
    if raw.count(b"{") + raw.count(b"[") > DEPTH_MAX and not is_shallow(value):
        raise UsageError(f"the request body is nested more than {DEPTH_MAX} levels deep")
    return value


def fingerprint(action: str, body: Mapping[str, Any]) -> str:
    """A digest of the fields that two requests with one Idempotency-Key must share: all but `wait_s`."""
    fields = {name: value for name, value in body.items() if name != "wait_s"}
    text = orjson.dumps([action, fields], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()


def read_key(request: web.Request, body: Mapping[str, Any]) -> RequestKey | None:
    """The Idempotency-Key of the request; None without one. Raises UsageError."""
    return request_key(request.headers.get(KEY_HEADER), request.path, body)


def request_key(text: str | None, action: str, body: Mapping[str, Any]) -> RequestKey | None:
    """The key with the text of its header; None without one. Raises UsageError."""
    if text is None:
        return None
    if not (0 < len(text) <= KEY_MAX and text.isascii() and text.isprintable()):
        raise UsageError(f"{KEY_HEADER} must be 1 to {KEY_MAX} printable ASCII characters")
    return RequestKey(text, fingerprint(action, body))


def check_protocol(request: web.Request) -> None:
    """Raise ProtocolMismatch for a client with a newer protocol."""
    version = request.headers.get(PROTOCOL_HEADER, str(PROTOCOL))
    if not version.isdecimal() or len(version) > _DIGITS_MAX or int(version) > PROTOCOL:
        raise ProtocolMismatch(
            f"the daemon speaks protocol {PROTOCOL}, this client speaks {version[:20]}", "sm daemon restart"
        )


def check_time(text: str, name: str) -> str:
    """Check that `text` is a time after 1970 with a time zone, and return it. Raises UsageError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{name} must be an ISO 8601 time") from None
    if at.tzinfo is None:
        raise UsageError(f"{name} must have a time zone")
    if at.timestamp() < 0:
        raise UsageError(f"{name} must be after 1970")
    return text
