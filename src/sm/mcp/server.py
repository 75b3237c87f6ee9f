"""Answers JSON-RPC messages: requests through the SDK, cancellations by ending the call that they name.

The server keeps nothing between two messages but the calls in flight.
"""

import asyncio
import gc
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from sm.core.dataclass import dataclass
from sm.core.nesting import DEPTH_MAX, is_shallow
from sm.core.text import well_formed_json
from sm.errors import NotPermitted
from sm.mcp.calls import Calls
from sm.mcp.exchange import Exchange
from sm.services import FirstTurns
from sm.services.parts import DoorParts
from sm.store.audit import Record
from sm.wire import ANSWER_READ, CLIENT_HEADER, KEY_HEADER

if TYPE_CHECKING:
    from sm.mcp.sdk import SdkServer

_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_ID_MAX = 1_000
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
"""The escape of half a surrogate pair, also of one with its other half."""
_CLIENT_MAX = 128

_CallName = tuple[str, str, str | int]
"""The caller, the id of its client process and the id of the request."""


@dataclass(slots=True)
class _CallInFlight:
    task: asyncio.Task[dict[str, Any]]
    retry_key: str | None
    is_cancelled: bool = False

    async def cancel(self) -> None:
        """Cancel the call, and return when it has ended. Its request gets no response."""
        self.is_cancelled = True
        self.task.cancel()
        await asyncio.wait({self.task})


def _parsed(message: bytes | bytearray) -> object:
    """The JSON value. Raises ValueError.

    A client sends half a character, such as `"\\ud83d"`, when its model cut an emoji. It is valid JSON (RFC 8259, 8.2)
    that orjson refuses.
    """
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError:
        if not _HALF_CHARACTER.search(message):
            raise
    try:
        value = json.loads(message, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return well_formed_json(value) if is_shallow(value) else value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


class McpServer:
    """The front door of MCP. `enabled`, `resources` and `tools` are those of the configuration's section `mcp`."""

    def __init__(
        self,
        parts: DoorParts,
        first_turns: FirstTurns,
        record: Record,
        *,
        enabled: bool,
        resources: bool,
        tools: str | tuple[str, ...],
    ) -> None:
        self._calls = Calls(parts, record, tools)
        self._first_turns = first_turns
        self._enabled = enabled
        self._resources = resources
        self._sdk: SdkServer | None = None
        self._loading = asyncio.Lock()
        self._in_flight: dict[_CallName, _CallInFlight] = {}

    async def answer(self, message: bytes | bytearray, exchange: Exchange) -> bytes | None:
        """The response to the message; None for a notification, a response and a cancelled request.

        Raises NotPermitted when MCP is switched off, and ConnectionError when the caller has gone.
        """
        if not self._enabled:
            raise NotPermitted("MCP is switched off", "set mcp.enabled in config.yaml, and use sm meanwhile")
        try:
            value = _parsed(message)
        except ValueError:
            return _refused(None, _PARSE_ERROR, "the message is not JSON")
        if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
            return _refused(None, _INVALID_REQUEST, "the message must be one JSON-RPC 2.0 object")
        if not is_shallow(value):
            return _refused(None, _INVALID_REQUEST, f"nested more than {DEPTH_MAX} levels deep")
        if "method" not in value and ("result" in value or "error" in value):
            return None  # the server asks nothing
        request_id, method = value.get("id"), value.get("method")
        is_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
        if "id" in value and not (is_id and len(str(request_id)) <= _ID_MAX):
            return _refused(None, _INVALID_REQUEST, "id must be a text or a whole number")
        if not isinstance(method, str) or not isinstance(value.get("params", {}), dict):
            return _refused(request_id, _INVALID_REQUEST, "method must be a text, and params an object")
        if "id" not in value:
            if method == ANSWER_READ and exchange.caller.session_id is not None:
                self._first_turns.tools_read(exchange.caller.session_id)
            if method == "notifications/cancelled":
                await self._cancel(exchange, value.get("params", {}).get("requestId"))
            return None
        return await self._request(value, exchange)

    async def _request(self, request: Mapping[str, Any], exchange: Exchange) -> bytes | None:
        session_id = exchange.caller.session_id
        if session_id is not None:
            self._first_turns.server_began(session_id)
        response = await self._respond(request, exchange)
        if response is None:
            return None
        if session_id is not None and request["method"] == "tools/list" and "result" in response:
            exchange.report_read()
        return orjson.dumps(response)

    async def _respond(self, request: Mapping[str, Any], exchange: Exchange) -> dict[str, Any] | None:
        """The response; None for a cancelled request."""
        sdk = self._sdk or await self._load()
        name = self._name(exchange, request["id"])
        if name is None:
            return await sdk.answer(exchange, request)
        retry_key = exchange.headers.get(KEY_HEADER.lower())
        earlier = self._in_flight.get(name)
        if earlier is not None and (retry_key is None or earlier.retry_key != retry_key):
            return _error(request["id"], _INVALID_REQUEST, "a request with this id is in flight")
        if earlier is not None:  # the client repeats a call whose connection it has lost
            await earlier.cancel()
        # A task of its own can be cancelled without the connection.
        call = _CallInFlight(asyncio.create_task(sdk.answer(exchange, request)), retry_key)
        self._in_flight[name] = call
        try:
            await asyncio.wait({call.task})
        finally:
            call.task.cancel()
            if self._in_flight.get(name) is call:
                del self._in_flight[name]
        if call.is_cancelled:
            return None
        if call.task.cancelled():
            raise ConnectionResetError("the daemon stops")
        return call.task.result()

    async def _cancel(self, exchange: Exchange, request_id: object) -> None:
        """Cancel the caller's own call; ignore an id that is not in flight."""
        name = self._name(exchange, request_id) if isinstance(request_id, str | int) else None
        call = None if name is None else self._in_flight.get(name)
        if call is not None:
            await call.cancel()

    def _name(self, exchange: Exchange, request_id: str | int) -> _CallName | None:
        """The name of a call in flight; None for a client without an id, which cancels by closing its connection."""
        client = exchange.headers.get(CLIENT_HEADER.lower(), "")[:_CLIENT_MAX]
        return (str(exchange.caller), client, request_id) if client else None

    async def _load(self) -> "SdkServer":
        async with self._loading:
            if self._sdk is None:
                # A full collection would hold the event loop for 60 ms. The imports leave no garbage.
                gc.disable()
                try:
                    self._sdk = await asyncio.to_thread(_import, self._calls, self._resources)
                    gc.freeze()
                finally:
                    gc.enable()
            return self._sdk


def _import(calls: Calls, resources: bool) -> "SdkServer":
    from sm.mcp.sdk import SdkServer

    return SdkServer(calls, resources=resources)


def _error(request_id: object, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _refused(request_id: object, code: int, message: str) -> bytes:
    return orjson.dumps(_error(request_id, code, message))
