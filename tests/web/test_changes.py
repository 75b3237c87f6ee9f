"""The changes of sessions in browsers: who may ask, and what the process for git is asked."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
import pytest

from sm.linux.programs import ProgramResult
from sm.web.logins import WebScope
from tests.web.board_hub import answering_daemon
from tests.web.served_app import ServedApp, served_app
from tests.web.test_app import asked, bearer

REVIEW = {
    "session_id": "aaaa0001",
    "label": "engineer-login",
    "comments": [],
    "rounds": [{"number": 1, "tree": "c" * 40}],
}
HEAD = {"base": "a" * 40, "tree": "b" * 40}
MESSAGE = {
    "message_id": 7, "session_id": "aaaa0001", "label": "engineer-login", "status": "submitted", "reason": None,
    "mode": "auto",
}  # fmt: skip
ANSWERS = {
    "/v1/sessions/aaaa0001/review": REVIEW,
    "/v1/sessions/bbbb0002/review": {**REVIEW, "session_id": "bbbb0002", "rounds": []},
    "/v1/sessions/aaaa0001/review/drafts": {"id": 3},
    "/v1/sessions/aaaa0001/review/discard": REVIEW,
    "/v1/sessions/aaaa0001/review/send": {"number": 2, **MESSAGE},
    "/v1/messages/7": MESSAGE,
}


class PlayedProcess:
    """The process that runs git. `tasks`: what it was asked; it answers with `head` when `may_end` is set."""

    def __init__(self) -> None:
        self.tasks: list[Mapping[str, Any]] = []
        self.head: Mapping[str, Any] = HEAD
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def run(self, argv: object, text: bytes, within_s: float, **options: object) -> ProgramResult:
        self.tasks.append({name: value for name, value in orjson.loads(text).items() if name != "socket"})
        self.began.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ProgramResult(0, orjson.dumps(self.head) + b'\n{"files":[]}', b"")


@pytest.fixture
async def process() -> AsyncIterator[PlayedProcess]:
    played = PlayedProcess()
    with mock.patch("sm.web.changes.run_program", played.run):
        yield played


@pytest.fixture
async def app(tmp_path: Path, process: PlayedProcess) -> AsyncIterator[ServedApp]:
    async with answering_daemon(tmp_path, ANSWERS), served_app(tmp_path) as app:
        yield app


async def got(app: ServedApp, path: str, scope: WebScope = WebScope.LOOK) -> tuple[int, dict[str, Any]]:
    status, answer, _ = await asked(app, "GET", f"/api/changes{path}", bearer(app.token(scope)))
    return status, answer


async def posted(
    app: ServedApp, path: str, body: Mapping[str, object], scope: WebScope = WebScope.ALL
) -> tuple[int, dict[str, Any]]:
    headers = {**bearer(app.token(scope)), "Origin": app.origin}
    status, answer, _ = await asked(app, "POST", f"/api/changes{path}", headers, json=body)
    return status, answer


async def test_list_has_what_the_process_read_and_the_review_of_the_caller(
    app: ServedApp, process: PlayedProcess
) -> None:
    status, answer = await got(app, "/aaaa0001")
    assert (status, answer["review"], answer["changes"]) == (200, REVIEW, {"files": []})
    assert process.tasks == [{"act": "changes", "session": "aaaa0001", "base": ""}]
    assert not {*HEAD.values()} & {answer["shown"]}
    await got(app, "/aaaa0001?since=review")
    assert process.tasks[1]["base"] == "c" * 40
    assert (await got(app, "/bbbb0002?since=review"))[0] == 409
    assert (await got(app, "/aaaa0001?since=HEAD"))[0] == 400
    assert len(process.tasks) == 2


async def test_nothing_runs_for_a_caller_whom_the_daemon_refuses_or_without_a_login(
    app: ServedApp, process: PlayedProcess
) -> None:
    assert (await got(app, "/cccc0003"))[0] == 404
    assert (await asked(app, "GET", "/api/changes/aaaa0001", {"Sec-Fetch-Site": "same-origin"}))[0] == 401
    assert (await asked(app, "GET", "/api/changes/aaaa0001", bearer("0" * 43)))[0] == 401
    foreign = {**bearer(app.token()), "Origin": "http://example.org", "Sec-Fetch-Site": "cross-site"}
    assert (await asked(app, "GET", "/api/changes/aaaa0001", foreign))[0] == 403
    assert process.tasks == []


async def test_browser_names_a_list_that_it_has_got_and_never_an_object_of_git(
    app: ServedApp, process: PlayedProcess
) -> None:
    shown = (await got(app, "/aaaa0001"))[1]["shown"]
    status, answer = await got(app, f"/aaaa0001/file?shown={shown}&file=3&whole=1&base={'d' * 40}&path=x")
    assert (status, answer) == (200, {"files": []})
    expected = {"act": "file", "session": "aaaa0001", "file": 3, "whole": True, **HEAD}
    assert process.tasks[1] == expected
    assert (await got(app, f"/aaaa0001/pictures?shown={shown}&file=0"))[0] == 200
    count = len(process.tasks)
    assert (await got(app, f"/bbbb0002/file?shown={shown}&file=3"))[0] == 409
    assert (await got(app, f"/aaaa0001/file?shown={'b' * 40}&file=3"))[0] == 409
    for number in ("-1", "x", "", "1e3", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 9):
        assert (await got(app, f"/aaaa0001/file?shown={shown}&file={number}"))[0] == 400
    assert len(process.tasks) == count


async def test_refusal_of_the_process_reaches_the_browser_in_its_words(
    app: ServedApp, process: PlayedProcess
) -> None:
    process.head = {
        "error": {"code": "not_permitted", "message": "a sandboxed session", "hint": "look there"}
    }
    status, answer = await got(app, "/aaaa0001")
    assert (status, answer["error"]["message"], answer["error"]["hint"]) == (
        403,
        "a sandboxed session",
        "look there",
    )


async def test_reader_who_leaves_ends_the_process(app: ServedApp, process: PlayedProcess) -> None:
    process.may_end.clear()
    reading = asyncio.create_task(got(app, "/aaaa0001"))
    await process.began.wait()
    reading.cancel()
    await process.cancelled.wait()


async def test_questions_wait_for_each_other_and_too_many_are_refused(
    app: ServedApp, process: PlayedProcess
) -> None:
    process.may_end.clear()
    reading = [asyncio.create_task(got(app, "/aaaa0001")) for _ in range(12)]
    refused = 0
    for done in asyncio.as_completed(reading):
        status, answer = await done
        if status != 200:
            assert (status, "wait" in answer["error"]["message"]) == (429, True)
            refused += 1
        if refused == 4:
            process.may_end.set()
    assert (refused, len(process.tasks)) == (4, 8)


async def test_comments_need_a_scope_and_have_known_fields(app: ServedApp, process: PlayedProcess) -> None:
    draft = {
        "text": "why?",
        "path": "a.txt",
        "side": "new",
        "first": 1,
        "last": 1,
        "quote": "+a",
        "replaces": 0,
    }
    assert await posted(app, "/aaaa0001/drafts", draft, WebScope.ANSWER) == (200, {"id": 3})
    assert (await posted(app, "/aaaa0001/discard", {"ids": [3]}))[0] == 200
    for path in ("drafts", "discard", "send"):
        assert (await posted(app, f"/aaaa0001/{path}", {}, WebScope.LOOK))[0] == 403
        assert (await posted(app, f"/aaaa0001/{path}", {"tree": "b" * 40}))[0] == 400
    headers = {**bearer(app.token()), "Origin": "http://example.org"}
    assert (await asked(app, "POST", "/api/changes/aaaa0001/drafts", headers, json=draft))[0] == 403
    assert process.tasks == []


async def test_round_keeps_what_was_reviewed_before_it_is_sent(
    app: ServedApp, process: PlayedProcess
) -> None:
    shown = (await got(app, "/aaaa0001"))[1]["shown"]
    process.head = {"head": "e" * 40}
    status, answer = await posted(app, "/aaaa0001/send", {"ids": [3], "mode": "auto", "shown": shown})
    assert (status, answer["round"]) == (200, 2)
    assert answer["words"].startswith("Round 2: ")
    assert process.tasks[1] == {"act": "keep", "session": "aaaa0001", **HEAD}
    assert (await posted(app, "/aaaa0001/send", {"ids": [3], "shown": "none"}))[0] == 409


async def test_counts_and_drafts_are_read_for_a_request(app: ServedApp, process: PlayedProcess) -> None:
    assert await got(app, "/aaaa0001/counts") == (200, {"files": []})
    assert process.tasks == [{"act": "counts", "session": "aaaa0001"}]
    assert await got(app, "/aaaa0001/drafts") == (200, {"drafts": []})
    for path in ("counts", "drafts"):
        assert (await got(app, f"/cccc0003/{path}"))[0] == 404
    assert len(process.tasks) == 1
