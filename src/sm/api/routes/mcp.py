"""The route of MCP, which carries JSON-RPC messages to the MCP server and its answers back."""

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

from aiohttp import web

from sm.api.body import BODY, request_key
from sm.api.context import ApiRequest
from sm.api.event_streams import STREAMS
from sm.api.operation_routes import OperationTable
from sm.core.models import Caller, RequestKey
from sm.operations import event_operations as operations
from sm.wire import KEY_HEADER, PROTOCOL, PROTOCOL_HEADER, REPORT_READ_HEADER

routes = OperationTable()


class HttpExchange:
    """One MCP message and its answer, which becomes an event stream if other messages are sent before it."""

    def __init__(self, request: ApiRequest) -> None:
        self._request = request
        self._stream: web.StreamResponse | None = None
        self._headers: dict[str, str] = {}

    @property
    def caller(self) -> Caller:
        return self._request.caller

    @cached_property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self._request.http.headers.items()}

    def is_connected(self) -> bool:
        return self._request.is_connected()

    def key(self, action: str, fields: Mapping[str, Any]) -> RequestKey | None:
        """The Idempotency-Key of the request, for `action` with `fields`. Raises UsageError."""
        return request_key(self.headers.get(KEY_HEADER.lower()), action, fields)

    async def hold(self, condition: Callable[[], bool], wait_s: float) -> bool:
        """Wait as `ApiRequest.long_poll`, for as long as the caller likes. A stopping daemon cancels the wait."""
        streams, task = self._request.http.app[STREAMS], asyncio.current_task()
        assert task is not None
        streams.add(task)
        try:
            return await self._request.long_poll(condition, wait_s, most_s=wait_s)
        finally:
            streams.discard(task)

    def report_read(self) -> None:
        self._headers[REPORT_READ_HEADER] = "1"

    async def send(self, message: bytes) -> None:
        if self._stream is None:
            self._stream = web.StreamResponse(
                headers={
                    "Content-Type": "text/event-stream",
                    "Cache-Control": "no-store",
                    PROTOCOL_HEADER: str(PROTOCOL),
                }
            )
            await self._stream.prepare(self._request.http)
        await self._stream.write(b"event: message\ndata: %b\n\n" % message)

    async def finish(self, answer: bytes | None) -> web.StreamResponse:
        """The complete HTTP answer; `answer` is None if the message has none."""
        if self._stream is not None:
            if answer is not None:
                await self.send(answer)
            return self._stream
        if answer is None:
            return web.Response(status=202)
        return web.Response(body=answer, content_type="application/json", headers=self._headers)


class MessageServer(Protocol):
    """Answers MCP messages."""

    async def answer(self, message: bytes | bytearray, exchange: HttpExchange) -> bytes | None: ...


MESSAGES = web.AppKey("messages", MessageServer)


@routes.carries_out(operations.EXCHANGE_MCP)
async def mcp(request: ApiRequest) -> web.StreamResponse:
    exchange = HttpExchange(request)
    message = request.http[BODY].take()
    return await exchange.finish(await request.http.app[MESSAGES].answer(message, exchange))
