"""The sheet that starts an agent, for what a person has entered in a browser."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from sm.web.logins import WebScope
from tests.board.samples import row_data
from tests.board.test_spawn_sheet import KNOWN
from tests.web.board_hub import answering_daemon, board_of
from tests.web.served_app import ServedApp, served_app
from tests.web.test_app import asked, bearer

CHOICES = {"/v1/spawn-choices": KNOWN}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[ServedApp]:
    async with served_app(tmp_path) as app:
        yield app


async def sheet(app: ServedApp, scope: WebScope = WebScope.ALL, **entered: Any) -> tuple[int, dict[str, Any]]:
    headers = {**bearer(app.token(scope)), "Origin": app.origin}
    status, answer, _ = await asked(app, "POST", "/api/start-sheet", headers, json=entered)
    return status, answer


def field(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in answer["fields"] if each["name"] == name)


async def test_sheet_has_the_fields_the_command_and_what_happens(app: ServedApp, tmp_path: Path) -> None:
    async with answering_daemon(tmp_path, CHOICES):
        status, answer = await sheet(app, fields={"prompt": "go"})
    assert (status, answer["trouble"]) == (200, "")
    assert answer["command"] == "sm spawn --working-dir /w/app --worktree Engineer go"
    assert answer["prediction"] == "Starts Engineer in a new git worktree of /w/app."
    assert answer["values"]["place"] == "worktree"
    known = field(answer, "agent_type")
    assert (known["kind"], known["value"], known["required"], known["rare"]) == (
        *("agent type", "Engineer", True),
        False,
    )
    assert known["suggestions"][1] == {"value": "Writer", "words": ""}
    assert field(answer, "place")["choices"][1]["value"] == "worktree"


async def test_daemon_is_asked_once_for_a_while_and_again_for_other_facts(
    app: ServedApp, tmp_path: Path
) -> None:
    async with answering_daemon(tmp_path, CHOICES) as paths:
        with mock.patch("sm.web.start_sheets._KNOWN_FOR_S", 3600.0):
            for fields in ({}, {"prompt": "g"}, {"prompt": "go"}, {"model": "haiku"}, {"model": "haiku "}):
                assert (await sheet(app, fields=fields))[0] == 200
    assert paths.count("/v1/spawn-choices") == 2


async def test_directory_is_absolute_and_a_parent_is_found_by_its_label(
    app: ServedApp, tmp_path: Path
) -> None:
    board_of(
        app.hub,
        [
            row_data("a", friendly_name="lead", name="lead"),
            row_data("b", friendly_name="twin", label="twin (b)"),
        ],
    )
    async with answering_daemon(tmp_path, CHOICES):
        with mock.patch.dict("os.environ", HOME="/home/me"):
            answer = (await sheet(app, fields={"working_dir": " ~/x/../app/ ", "place": ""}))[1]
        assert answer["command"] == "sm spawn --working-dir /home/me/app Engineer"
        for text, word in (("lead", "lead"), ("twin (b)", "b"), ("other", "other")):
            assert (await sheet(app, fields={"parent": text}))[1]["values"]["parent"] == word


async def test_refused_question_stands_at_its_field_and_nothing_is_lost(
    app: ServedApp, tmp_path: Path
) -> None:
    async with answering_daemon(tmp_path, CHOICES):
        await sheet(app)
    async with answering_daemon(tmp_path, {}):
        answer = (await sheet(app, fields={"parent": "nobody", "prompt": "go"}))[1]
    assert field(answer, "parent")["problem"] == "no such session"
    assert field(answer, "agent_type")["value"] == "Engineer"
    status, answer = await sheet(app, fields={"prompt": "go", "model": "x"})
    assert (status, field(answer, "prompt")["value"]) == (200, "go")
    assert answer["trouble"].startswith("no daemon is running")


async def test_refused_question_shows_no_facts_of_another_tab(app: ServedApp, tmp_path: Path) -> None:
    other = {
        **KNOWN,
        "types": [],
        "agent_type": None,
        "directory": {**KNOWN["directories"][0], "path": "/secret"},
    }
    answers = {
        "/v1/spawn-choices": KNOWN,
        "/v1/spawn-choices?working_dir=/secret": other,
        "/v1/spawn-choices?parent=nobody": None,
    }
    without = mock.patch.dict("os.environ", HOME="", CLAUDE_CONFIG_DIR="")  # they would be in the query
    async with answering_daemon(tmp_path, answers):
        with without:
            there = (await sheet(app, fields={"working_dir": "/secret"}))[1]
            answer = (await sheet(app, fields={"parent": "nobody"}))[1]
    assert field(there, "agent_type")["value"] == ""
    assert field(answer, "parent")["problem"] == "no such session"
    assert [known["value"] for known in field(answer, "agent_type")["suggestions"]] == ["Engineer", "Writer"]


@pytest.mark.parametrize(
    "entered", [{"fields": {"a": 1}}, {"more": 1}, {"fields": {str(n): "" for n in range(50)}}]
)
async def test_other_content_is_refused(app: ServedApp, entered: dict[str, Any]) -> None:
    assert (await sheet(app, **entered))[0] == 400


@pytest.mark.parametrize("scope", [WebScope.LOOK, WebScope.ANSWER])
async def test_login_that_may_not_start_agents_learns_nothing(
    app: ServedApp, tmp_path: Path, scope: WebScope
) -> None:
    async with answering_daemon(tmp_path, CHOICES) as paths:
        assert (await sheet(app, scope))[0] == 403
    assert "/v1/spawn-choices" not in paths
