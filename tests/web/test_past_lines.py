"""The last lines of a terminal for browsers, with their styles."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sm.web.logins import WebScope
from tests.web.board_hub import answering_daemon
from tests.web.served_app import ServedApp, served_app
from tests.web.test_app import asked, bearer

OUTPUT = "/v1/sessions/1a2b3c4d/output"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[ServedApp]:
    async with served_app(tmp_path) as app:
        yield app


async def test_lines_have_their_styles_and_a_style_goes_on_in_the_next_line(
    app: ServedApp, tmp_path: Path
) -> None:
    lines = ["a \x1b[31mred", "still\x1b[0m not", ""]
    path = f"{OUTPUT}?lines=20&seen=1&styled=1"
    async with answering_daemon(tmp_path, {path: {"lines": lines, "archived": False}}):
        headers = bearer(app.token(WebScope.LOOK))
        status, answer, _ = await asked(app, "GET", "/api/past-lines/1a2b3c4d?lines=20", headers)
    assert (status, answer["archived"]) == (200, False)
    assert answer["lines"] == [[["a ", ""], ["red", "fg:1"]], [["still", "fg:1"], [" not", ""]], []]


@pytest.mark.parametrize("lines", ["", "0", "10001", "-1", "x", "1" * 9])
async def test_number_of_lines_is_checked(app: ServedApp, lines: str) -> None:
    headers = bearer(app.token())
    assert (await asked(app, "GET", f"/api/past-lines/1a2b3c4d?lines={lines}", headers))[0] == 400


async def test_lines_need_a_login(app: ServedApp) -> None:
    assert (await asked(app, "GET", "/api/past-lines/1a2b3c4d?lines=2", {}))[0] == 403
