"""Asks the daemon over its socket, on behalf of a login."""

import io
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from sm.client.http import TIMEOUT_S, DaemonAway, refusal_of
from sm.errors import DaemonUnavailable, ProtocolMismatch
from sm.web.logins import WebLogin
from sm.wire import HEARTBEAT_S, KEY_HEADER, LOGIN_HEADER, PROTOCOL, PROTOCOL_HEADER

_CONNECTIONS_MAX = 64
_ANSWER_MAX_BYTES = 64 * 1024 * 1024
_LINE_MAX_BYTES = 4 * 1024 * 1024
_CONNECT_S = 5.0


class DaemonLink:
    """Open it in the event loop that uses it.

    Every call raises the daemon's refusals as the errors of errors.py, DaemonAway without a daemon, and
    DaemonUnavailable for one that does not answer in time.
    """

    def __init__(self, socket_path: str) -> None:
        self._path = socket_path
        self._session = aiohttp.ClientSession(
            "http://daemon",
            connector=aiohttp.UnixConnector(socket_path, limit=_CONNECTIONS_MAX),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_LINE_MAX_BYTES,
        )

    async def close(self) -> None:
        await self._session.close()

    async def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        login: WebLogin | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        async with self.exchange("GET", path, login=login, query=query, timeout_s=timeout_s) as response:
            return orjson.loads(await response.read())

    async def post(
        self, path: str, body: Mapping[str, object], *, login: WebLogin, key: str, timeout_s: float
    ) -> Any:
        """`key`: the idempotency key. No retry is made here."""
        content = orjson.dumps(dict(body))
        async with self.exchange(
            "POST", path, login=login, content=content, key=key, timeout_s=timeout_s
        ) as response:
            return orjson.loads(await response.read())

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        path: str,
        *,
        login: WebLogin | None,
        query: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
        content: bytes | io.BytesIO | None = None,
        content_type: str = "application/json",
        key: str | None = None,
        timeout_s: float | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose status is not an error; its body can be read while the context is open.

        `timeout_s` is None if the answer is an event stream, which has a heartbeat.
        """
        headers = {"Content-Type": content_type}
        if login is not None:
            headers[LOGIN_HEADER] = login.name
        if key is not None:
            headers[KEY_HEADER] = key
        timeout = aiohttp.ClientTimeout(
            total=timeout_s, sock_connect=_CONNECT_S, sock_read=3 * HEARTBEAT_S if timeout_s is None else None
        )
        try:
            async with self._session.request(
                method,
                path,
                params=query,
                data=content,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                if response.headers.get(PROTOCOL_HEADER) != str(PROTOCOL):
                    raise ProtocolMismatch("the daemon speaks another protocol", "sm daemon restart")
                if response.status >= 400:
                    raise refusal_of(response.status, await response.content.read(_ANSWER_MAX_BYTES))
                yield response
        except (TimeoutError, aiohttp.ServerTimeoutError):
            raise DaemonUnavailable("the daemon did not respond in time", "sm daemon logs") from None
        except (aiohttp.ClientConnectorError, FileNotFoundError):
            raise DaemonAway(f"no daemon is running at {self._path}", "sm daemon start") from None
        except aiohttp.ClientError as error:
            raise DaemonAway(f"lost the connection to the daemon: {type(error).__name__}") from None

    async def events(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Any]:
        """Yield the data of server-sent events. Raises DaemonAway when the stream breaks; it returns at its end."""
        async with self.exchange("GET", path, login=None, query=query, timeout_s=None) as response:
            async for line in response.content:
                if line.startswith(b"data: "):
                    yield orjson.loads(line[6:])
