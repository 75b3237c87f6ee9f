"""Files that a browser attaches to a message: who may send one, how large it is, and what the daemon gets."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from aiohttp import web

from sm.capabilities.files.operations import UPLOAD
from sm.web.logins import WebScope
from sm.web.page_files import STATIC
from sm.web.uploads import FILE_MAX_BYTES
from sm.wire import LOGIN_HEADER, PROTOCOL, PROTOCOL_HEADER
from tests.web.served_app import ServedApp, served_app
from tests.web.test_app import asked, bearer

TAKEN = {"file_id": "f-1", "name": "a b.png", "size": 3, "media_type": "image/png"}
PATH = "/api/v1/files?name=a%20b.png"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[ServedApp]:
    async with served_app(tmp_path) as app:
        yield app


@contextlib.asynccontextmanager
async def file_daemon(
    tmp_path: Path, status: int = 201, answer: Mapping[str, Any] = TAKEN
) -> AsyncIterator[list[tuple[str, str, str, str, bytes]]]:
    """A daemon that answers all requests like this.

    Yields what it was asked about files: method, path, type, login and body.
    """
    taken = list[tuple[str, str, str, str, bytes]]()

    async def take(request: web.Request) -> web.Response:
        content = await request.read()
        login = request.headers.get(LOGIN_HEADER, "")
        if request.path.startswith("/v1/files"):
            taken.append((request.method, request.path_qs, request.content_type, login, content))
        return web.json_response(answer, status=status, headers={PROTOCOL_HEADER: str(PROTOCOL)})

    served = web.Application(client_max_size=FILE_MAX_BYTES + 1)
    served.router.add_route("*", "/{path:.*}", take)
    runner = web.AppRunner(served)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "sm.sock")).start()
    try:
        yield taken
    finally:
        await runner.cleanup()


def headers_of(app: ServedApp, scope: WebScope = WebScope.ANSWER) -> dict[str, str]:
    return {
        **bearer(app.token(scope, "phone")),
        "Origin": app.origin,
        "Content-Type": "application/octet-stream",
    }


async def test_file_reaches_the_daemon_as_it_is(app: ServedApp, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096 * 10
    assert len(content) == FILE_MAX_BYTES
    async with file_daemon(tmp_path) as taken:
        status, answer, _ = await asked(app, "POST", PATH, headers_of(app), data=io.BytesIO(content))
    assert (status, answer) == (201, TAKEN)
    ((method, path, kind, login, body),) = taken
    assert (method, path, kind, login) == (
        "POST",
        "/v1/files?name=a+b.png",
        "application/octet-stream",
        "phone",
    )
    assert body == content


async def test_file_is_forgotten_when_the_person_removes_it(app: ServedApp, tmp_path: Path) -> None:
    async with file_daemon(tmp_path, 200, {}) as taken:
        status, _, _ = await asked(app, "DELETE", "/api/v1/files/f-1%2F..", headers_of(app))
    assert status == 200
    assert [(method, path) for method, path, *_ in taken] == [("DELETE", "/v1/files/f-1%2F..")]


@pytest.mark.parametrize("ref", [".", "..", "%2E%2E"])
async def test_removal_names_one_file(app: ServedApp, tmp_path: Path, ref: str) -> None:
    async with file_daemon(tmp_path) as taken:
        status, _, _ = await asked(app, "DELETE", f"/api/v1/files/{ref}", headers_of(app))
    assert status in (400, 404, 405)
    assert taken == []


@pytest.mark.parametrize(("method", "path"), [("POST", PATH), ("DELETE", "/api/v1/files/f-1")])
async def test_login_that_may_only_look_sends_no_file(
    app: ServedApp, tmp_path: Path, method: str, path: str
) -> None:
    async with file_daemon(tmp_path) as taken:
        status, answer, _ = await asked(app, method, path, headers_of(app, WebScope.LOOK), data=b"x")
    assert (status, answer["error"]["code"]) == (403, "not_permitted")
    assert taken == []


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example"])
@pytest.mark.parametrize(("method", "path"), [("POST", PATH), ("DELETE", "/api/v1/files/f-1")])
async def test_file_of_another_origin_is_refused(
    app: ServedApp, tmp_path: Path, method: str, path: str, origin: str | None
) -> None:
    headers = headers_of(app)
    del headers["Origin"]
    async with file_daemon(tmp_path) as taken:
        given = headers | ({"Origin": origin} if origin else {})
        assert (await asked(app, method, path, given, data=b"x"))[0] == 403
    assert taken == []


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "multipart/form-data; boundary=x"])
async def test_file_is_sent_as_plain_bytes(app: ServedApp, tmp_path: Path, kind: str) -> None:
    async with file_daemon(tmp_path) as taken:
        status, _, _ = await asked(app, "POST", PATH, headers_of(app) | {"Content-Type": kind}, data=b"x")
    assert status == 400
    assert taken == []


def test_limit_is_that_of_the_daemon() -> None:
    assert UPLOAD.file_max_bytes == FILE_MAX_BYTES
    assert "const FILE_MAX_BYTES = 10 * 1024 * 1024;" in (STATIC / "files.js").read_text()


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield bytes(1 << 20)


@pytest.mark.parametrize("is_announced", [True, False])
async def test_file_that_is_too_large_is_refused_in_words(
    app: ServedApp, tmp_path: Path, *, is_announced: bool
) -> None:
    data: Any = io.BytesIO(bytes(FILE_MAX_BYTES + 1)) if is_announced else pieces(11)
    async with file_daemon(tmp_path) as taken:
        status, answer, _ = await asked(app, "POST", PATH, headers_of(app), data=data)
    assert status == 413
    assert answer["error"]["message"] == "the file is larger than 10,485,760 bytes"
    assert taken == []


async def test_files_in_receipt_are_limited_together(app: ServedApp, tmp_path: Path) -> None:
    begun, rest = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield bytes(600)
        begun.set()
        await rest.wait()
        yield b"end"

    headers = headers_of(app)
    async with file_daemon(tmp_path) as taken:
        with mock.patch("sm.web.uploads._RECEIVED_MAX_BYTES", 1000):
            first = asyncio.create_task(asked(app, "POST", PATH, headers, data=slow()))
            await begun.wait()
            while True:  # until the server has the first piece
                status, answer, _ = await asked(app, "POST", PATH, headers, data=bytes(600))
                if status == 429:
                    break
            assert answer["error"]["message"].startswith("other files")
            taken.clear()
            rest.set()
            assert (await first)[0] == 201
            assert (await asked(app, "POST", PATH, headers, data=bytes(600)))[0] == 201
    assert [len(body) for *_, body in taken] == [603, 600]


async def test_refusal_of_the_daemon_comes_back_in_its_words(app: ServedApp, tmp_path: Path) -> None:
    error = {"error": {"code": "usage", "message": "the name has a control character", "hint": "rename it"}}
    async with file_daemon(tmp_path, 400, error):
        status, answer, _ = await asked(app, "POST", PATH, headers_of(app), data=b"x")
    assert status == 400
    assert answer == error


async def test_file_is_not_kept_without_a_daemon(app: ServedApp) -> None:
    status, answer, _ = await asked(app, "POST", PATH, headers_of(app), data=b"x")
    assert (status, answer["error"]["code"]) == (503, "daemon_unavailable")
