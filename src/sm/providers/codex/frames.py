"""Tells the frames of the app-server's JSON-RPC apart. Pure.

A frame is one JSON object without the member `jsonrpc`. Frames come from a program that agents can write to, so
nothing here raises.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from sm.core.dataclass import dataclass
from sm.providers import values
from sm.providers.links import RequestId

_ID_MAX = 200
_NUMBER_MAX = 2**63


@dataclass(frozen=True, slots=True)
class RpcCall:
    """A request, which the other side answers with the same id."""

    id: RequestId
    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RpcNotification:
    method: str
    params: Mapping[str, Any]
    emitted_at: float | None = None
    """Seconds since the epoch, or None if the program does not say."""


@dataclass(frozen=True, slots=True)
class RpcResult:
    id: RequestId
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RpcFailure:
    id: RequestId
    message: str


Frame: TypeAlias = RpcCall | RpcNotification | RpcResult | RpcFailure


def decoded(text: str | bytes) -> object:
    """The JSON value of a text, or None if the text has none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # thousands of brackets
        return None


def read_frame(value: object) -> Frame | None:
    """The frame that a JSON value is, or None for another value."""
    members = values.mapping(value)
    id, method = request_id(members.get("id")), members.get("method")
    params = values.mapping(members.get("params"))
    if isinstance(method, str) and method:
        if id is not None:
            return RpcCall(id, method, params)
        return None if "id" in members else RpcNotification(method, params, _emitted_at(members))
    if id is None:
        return None
    if "error" in members:
        return RpcFailure(id, values.word(values.mapping(members["error"]).get("message")) or "unknown error")
    return RpcResult(id, values.mapping(members["result"])) if "result" in members else None


def request_id(value: object) -> RequestId | None:
    """A JSON-RPC id, else None. Rejects True, which is an int in Python."""
    if type(value) is int:
        return value if abs(value) < _NUMBER_MAX else None
    return value if isinstance(value, str) and len(value) <= _ID_MAX else None


def _emitted_at(members: Mapping[str, Any]) -> float | None:
    at = members.get("emittedAtMs")
    return (
        at / 1000 if type(at) is int and values.is_time(at / 1000 if abs(at) < _NUMBER_MAX else 0) else None
    )
