"""The checks of HTTP requests, and the headers of answers."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sm.web.app import HEADERS
from sm.web.logins import WebScope
from sm.web.page_files import STATIC, PageFiles
from sm.web.relay import GET_ROUTES
from sm.wire import LEFT_HEADER, NEXT_HEADER
from tests.web.board_hub import answering_daemon
from tests.web.served_app import ServedApp, served_app


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[ServedApp]:
    async with served_app(tmp_path) as app:
        yield app


async def asked(
    app: ServedApp, method: str, path: str, headers: Mapping[str, str], **options: Any
) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    async with app.http.request(method, app.origin + path, headers=headers, **options) as answer:
        is_json = answer.content_type == "application/json"
        return answer.status, await answer.json() if is_json else {}, answer.headers


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Sec-Fetch-Site": "same-origin"}


async def test_page_is_public_and_every_answer_has_the_headers(app: ServedApp) -> None:
    for path, status in (("/", 200), ("/static/index.html", 200), ("/static/none.js", 404), ("/none", 403)):
        code, _, headers = await asked(app, "GET", path, {})
        assert code == status
        assert {name: headers[name] for name in HEADERS} == HEADERS
        assert "Server" not in headers
        assert "Access-Control-Allow-Origin" not in headers
        assert "Set-Cookie" not in headers
    assert (await asked(app, "GET", "/", {}))[2]["Cache-Control"] == "no-store"


async def test_files_of_the_page_are_kept_by_the_browser_under_an_address_of_their_content(
    app: ServedApp,
) -> None:
    async with app.http.get(f"{app.origin}/") as answer:
        page = await answer.text()
    addresses = re.findall(r'(?:href|src)="(/static/[0-9a-f]{16}/[^"]+)"', page)
    assert len(addresses) == page.count("/static/")
    for address in addresses:
        code, _, headers = await asked(app, "GET", address, {})
        assert (code, headers["Cache-Control"]) == (200, "max-age=31536000, immutable")
        assert {name: headers[name] for name in HEADERS} == HEADERS
    code, _, headers = await asked(app, "GET", f"{addresses[0]}.none", {})
    assert (code, headers["Cache-Control"]) == (404, "no-store")


async def test_page_asks_for_all_of_its_modules_at_once(app: ServedApp) -> None:
    async with app.http.get(f"{app.origin}/") as answer:
        page = await answer.text()
    preloaded = re.findall(r'<link rel="modulepreload" href="/static/[^/]+/([^"]+)">', page)
    assert {"state.js", "guard.js", "vendor/lit/lit.js"} < set(preloaded)
    assert len(preloaded) == len(set(preloaded))
    for name in preloaded:
        imported = re.findall(r'^import\b[^;]*?"\./([^"]+)";', (STATIC / name).read_text(), re.MULTILINE)
        assert set(imported) <= set(preloaded), name


def test_first_page_is_small_and_leaves_out_what_is_loaded_when_it_is_opened() -> None:
    sizes = PageFiles().gzipped_bytes("index.html")
    assert {"index.html", "app.css", "main.js", "early.js", "state.js", "vendor/lit/lit.js"} < set(sizes)
    assert not {
        "changes.js",
        "chart.js",
        "session.js",
        "spend.js",
        "start.js",
        "terminal.js",
        "timeline.js",
        "changes.css",
        "vendor/code/code.js",
        "vendor/xterm/xterm.js",
    } & set(sizes)
    assert sum(sizes.values()) < 60_000, sizes


async def test_scripts_and_styles_are_served_without_lines_of_comments(app: ServedApp) -> None:
    prefix = PageFiles().prefix
    for name in ("main.js", "app.css", "vendor/lit/lit.js"):
        async with app.http.get(f"{app.origin}{prefix}{name}") as answer:
            served, source = await answer.text(), (STATIC / name).read_text()
        if name.startswith("vendor/"):
            assert served == source
            continue
        assert served.count("\n") == source.count("\n") or name.endswith(".css")
        assert "/*" not in served and not re.search(r"^\s*//", served, re.MULTILINE)
        code = [line for line in source.splitlines() if not re.match(r"\s*(//|/\*)", line)]
        assert [line for line in served.splitlines() if line.strip()] == [
            line for line in code if line.strip()
        ]


async def test_terminal_page_has_a_policy_with_inline_styles_and_else_the_same(app: ServedApp) -> None:
    code, _, headers = await asked(app, "GET", "/attach", {})
    assert code == 200
    policy = HEADERS["Content-Security-Policy"]
    own = policy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'").replace("lit-html", "'none'")
    assert set(headers["Content-Security-Policy"].split("; ")) == set(own.split("; "))
    for name in HEADERS.keys() - {"Content-Security-Policy"}:
        assert headers[name] == HEADERS[name]
    assert "unsafe" not in policy


async def test_static_files_do_not_lead_out_of_their_directory(app: ServedApp) -> None:
    for path in (
        "/static/../app.py",
        "/static/..%2Fapp.py",
        "/static/%2e%2e/app.py",
        "/static/",
        "/static//etc/passwd",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(app.origin.rpartition(":")[2]))
        host = app.origin.removeprefix("http://")
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        assert int(answer.split()[1]) in (403, 404), answer
        assert b"def " not in answer
        writer.close()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7433", "127.0.0.1", "localhost:3000"])
async def test_another_host_is_refused_on_every_path(app: ServedApp, host: str) -> None:
    token = app.token()
    for method, path in (
        ("GET", "/"),
        ("GET", "/attach"),
        ("GET", "/static/index.html"),
        ("GET", "/api/v1/usage"),
        ("GET", "/ws"),
        ("GET", "/attach/ws"),
    ):
        headers = {"Host": host, "Origin": f"http://{host}", **bearer(token)}
        assert (await asked(app, method, path, headers))[0] == 421
    code = app.code()
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert (await asked(app, "POST", "/login", headers, json={"code": code}))[0] == 421
    assert (await asked(app, "POST", "/login", {"Origin": app.origin}, json={"code": code}))[0] == 200


async def test_absolute_request_target_is_refused(app: ServedApp) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(app.origin.rpartition(":")[2]))
    host = app.origin.removeprefix("http://")
    writer.write(f"GET http://evil.example/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    assert int(answer.split()[1]) in (400, 421)
    writer.close()


@pytest.mark.parametrize(
    "origin", [None, "null", "http://localhost:3000", "https://127.0.0.1", "http://evil.example"]
)
async def test_login_from_another_origin_takes_no_code(app: ServedApp, origin: str | None) -> None:
    code = app.code()
    headers = {} if origin is None else {"Origin": origin}
    assert (await asked(app, "POST", "/login", headers, json={"code": code}))[0] == 403
    assert (await asked(app, "POST", "/login", {"Origin": app.origin}, json={"code": code}))[0] == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_request_from_another_site_is_refused(app: ServedApp, site: str) -> None:
    headers = {**bearer(app.token()), "Origin": app.origin, "Sec-Fetch-Site": site}
    assert (await asked(app, "GET", "/api/v1/usage", headers))[0] == 403


async def test_code_is_taken_once_and_its_answer_names_the_login(app: ServedApp) -> None:
    code, origin = app.code(WebScope.LOOK, "wall"), {"Origin": app.origin}
    status, body, _ = await asked(app, "POST", "/login", origin, json={"code": code})
    assert (status, body["name"], body["scope"]) == (200, "wall", "look")
    status, body, _ = await asked(app, "POST", "/login", origin, json={"code": code})
    assert (status, body["error"]["code"]) == (401, "unauthenticated")


async def test_wrong_codes_are_limited_and_a_right_one_still_passes(app: ServedApp) -> None:
    origin, code = {"Origin": app.origin}, app.code()
    answers = await asyncio.gather(
        *(asked(app, "POST", "/login", origin, json={"code": f"wrong {n}"}) for n in range(20))
    )
    assert sorted(status for status, _, _ in answers) == [401] * 5 + [429] * 15
    assert (await asked(app, "POST", "/login", origin, json={"code": code}))[0] == 200


async def test_wrong_tokens_are_limited_and_a_right_one_still_passes(app: ServedApp) -> None:
    token = app.token()
    answers = [await asked(app, "GET", "/api/v1/usage", bearer(f"wrong{n}")) for n in range(8)]
    assert [status for status, _, _ in answers] == [401] * 5 + [429] * 3
    # Without a daemon, but let in.
    assert (await asked(app, "GET", "/api/v1/usage", bearer(token)))[0] == 503


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"code": 1}', b'{"code": null}', b'{"code": "' + b"x" * 300 + b'"}']
)
async def test_invalid_login_content_is_refused(app: ServedApp, content: bytes) -> None:
    headers = {"Origin": app.origin, "Content-Type": "application/json"}
    assert (await asked(app, "POST", "/login", headers, data=content))[0] == 400


async def test_login_as_a_form_is_refused(app: ServedApp) -> None:
    assert (await asked(app, "POST", "/login", {"Origin": app.origin}, data={"code": app.code()}))[0] == 400


async def test_large_body_is_refused(app: ServedApp) -> None:
    headers = {"Origin": app.origin, "Content-Type": "application/json"}
    assert (await asked(app, "POST", "/login", headers, data=b" " * (64 * 1024 + 1)))[0] == 413


async def test_token_in_the_url_or_in_a_cookie_does_nothing(app: ServedApp) -> None:
    token = app.token()
    for query in (f"token={token}", f"access_token={token}", f"Authorization=Bearer%20{token}"):
        assert (await asked(app, "GET", f"/api/v1/usage?{query}", {"Sec-Fetch-Site": "same-origin"}))[
            0
        ] == 401
    headers = {"Sec-Fetch-Site": "same-origin", "Cookie": f"token={token}; Authorization=Bearer {token}"}
    assert (await asked(app, "GET", "/api/v1/usage", headers))[0] == 401


async def test_revoked_login_may_read_nothing(app: ServedApp) -> None:
    token = app.token(name="phone")
    assert (await asked(app, "GET", "/api/v1/usage", bearer(token)))[0] == 503
    app.store.revoke("phone")
    assert (await asked(app, "GET", "/api/v1/usage", bearer(token)))[0] == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/live"),
        ("GET", "/api/v1/events/stream"),
        ("GET", "/api/v1/sandbox"),
        ("GET", "/api/v1/pairings"),
        ("GET", "/api/v1/inbox"),
        ("GET", "/api/v1/sessions/x/attach"),
        ("GET", "/api/v1/sessions/x/../../daemon/stop"),
        ("GET", "/api/v1/sessions/a%2F..%2F..%2Fhealth/y"),
        ("POST", "/api/v1/daemon/stop"),
        ("POST", "/api/v1/sessions"),
        ("POST", "/api/v1/workspaces"),
        ("POST", "/api/v1/sessions/x/kill"),
        ("POST", "/api/v1/mcp"),
        ("POST", "/api/v1/usage"),
        ("PUT", "/api/v1/workspaces"),
        ("OPTIONS", "/api/v1/workspaces"),
        ("GET", "/v1/usage"),
        ("GET", "/api/v2/usage"),
    ],
)
async def test_only_routes_of_the_list_exist(app: ServedApp, method: str, path: str) -> None:
    headers = {**bearer(app.token()), "Origin": app.origin, "Content-Type": "application/json"}
    assert (await asked(app, method, path, headers))[0] in (404, 405)


async def test_every_route_needs_a_login(app: ServedApp) -> None:
    for path in (*GET_ROUTES, "/lanes"):
        headers = {"Sec-Fetch-Site": "same-origin"}
        status, _, _ = await asked(app, "GET", f"/api{path.replace('{ref}', 'x')}", headers)
        assert status in (401, 429)


async def test_page_of_a_list_says_where_the_next_one_begins(app: ServedApp, tmp_path: Path) -> None:
    paging = {NEXT_HEADER: "2026-01-27T15:10:00.000Z_1a2b3c4d", LEFT_HEADER: "12"}
    async with answering_daemon(tmp_path, {"/v1/sessions": []}, paging):
        path = "/api/v1/sessions?before=2026-01-27T15:11:00.000Z_&limit=50"
        status, body, headers = await asked(app, "GET", path, bearer(app.token()))
    assert status == 200
    assert not body
    assert {name: headers[name] for name in paging} == paging
