"""Proposed completions in `sm top`: their changes beside the request, and draft comments that go with a denial."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.cli.tui import proposals
from sm.cli.tui.proposals import CHANGES_KEY
from sm.cli.tui.screens import KeyQuestion
from sm.client.http import Client, session_path
from tests.cli.tui.view import View, top
from tests.git_repositories import make_app
from tests.instance import Instance
from tests.waits import until_async


@pytest.fixture(scope="module")
def home() -> Iterator[Instance]:
    with Instance() as instance:
        instance.start_daemon()
        make_app(instance.work)
        yield instance


@pytest.fixture
def proposal(home: Instance) -> tuple[str, str]:
    """A session that has changed two files and proposes its completion, and the request."""
    words = ("Sleeper", "x", "--lifecycle", "supervised", "--worktree")
    session = home.spawn(*words, cwd=home.work / "app")
    path = Path(session["worktree"]["path"])
    (path / "api" / "a.txt").write_text("b\nc\n")
    (path / "new.txt").write_text("new\n")
    session_id = session["session_id"]
    home.sm("complete", "built", env=home.as_session(session_id))
    (request,) = home.json("requests", session_id)
    return session_id, request["request_id"]


def keep_draft(home: Instance, session_id: str) -> None:
    Client(str(home.socket)).post(session_path(session_id, "/review/drafts"), {"text": "too short"})


async def test_page_of_a_proposal_counts_its_changes_and_leads_to_them(
    home: Instance, proposal: tuple[str, str]
) -> None:
    session_id, key = proposal
    async with top(home, (110, 30)) as view:
        await view.select_request(key)
        await view.press("enter")
        await view.shows("Changes:   2 files +3 -1 (sm diff ", f"sm deny {key} --review")
        await view.shows(f"{CHANGES_KEY}: changes  a: approve  d: deny")

        async def is_open() -> bool:
            await view.press(CHANGES_KEY)  # dead for a moment, as all keys of a page that has just appeared
            return f"sm diff {session_id} (Esc: back)" in view.text()

        await until_async(is_open, "the changes")
        await view.shows(" api/a.txt +2 -1")
        await view.press("escape")
        await view.shows(f"{key} (Esc: back)")
        await view.press("escape")
        await view.hides(f"{key} (Esc: back)")


async def choose(view: View, key: str) -> None:
    async def is_chosen() -> bool:
        if isinstance(view.app.screen, KeyQuestion):
            await view.press(key)  # dead for a moment
        return not isinstance(view.app.screen, KeyQuestion)

    await until_async(is_chosen, "the answer")


async def test_key_that_was_typed_before_the_question_about_the_drafts_answers_nothing(
    home: Instance, proposal: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, key = proposal
    keep_draft(home, session_id)
    monkeypatch.setattr(proposals, "DEAD_S", math.inf)
    async with top(home, (110, 30)) as view:
        await view.select_request(key)
        await view.press("d", "enter")
        await view.shows("y: yes, n: without")
        await view.press("y", "n", "x")
        await view.shows("y: yes, n: without")
        await view.press("escape")
        await view.hides("y: yes, n: without")
    assert home.json("requests", key)["state"] == "open"


async def test_denial_takes_the_drafts_and_says_so_before(home: Instance, proposal: tuple[str, str]) -> None:
    session_id, key = proposal
    keep_draft(home, session_id)
    async with top(home, (110, 30)) as view:
        await view.select_request(key)
        await view.press("d", *"later", "enter")
        await view.shows(f"Deny {key} with your 1 draft comment, as one round?")
        await view.press("escape")
        await view.hides("draft comment")
        assert home.json("requests", key)["state"] == "open"
        await view.press("d")
        await view.shows("Reason, may be empty:", "later")
        await view.press("enter")
        await view.shows("y: yes, n: without")
        await choose(view, "y")
        await view.shows(f"done: sm deny {key} --review")
    (letter,) = home.json("inbox", "--take", env=home.as_session(session_id))
    assert letter["text"].startswith(f"Your completion ({key}) was denied.")
    assert "1. the whole change\ntoo short\n\nlater\n" in letter["text"]
    assert home.json("review", session_id, "--list")["comments"] == []


async def test_denial_without_the_drafts_leaves_them(home: Instance, proposal: tuple[str, str]) -> None:
    session_id, key = proposal
    keep_draft(home, session_id)
    async with top(home, (110, 30)) as view:
        await view.select_request(key)
        await view.press("d", *"no", "enter")
        await view.shows("y: yes, n: without")
        await choose(view, "n")
        await view.shows(f"done: sm deny {key} no")
    assert len(home.json("review", session_id, "--list")["comments"]) == 1


async def test_question_about_the_drafts_closes_when_somebody_else_answers(
    home: Instance, proposal: tuple[str, str]
) -> None:
    session_id, key = proposal
    keep_draft(home, session_id)
    async with top(home, (110, 30)) as view:
        await view.select_request(key)
        await view.press("d", "enter")
        await view.shows("y: yes, n: without")
        home.sm("approve", key)
        await view.hides("y: yes, n: without")
        await view.shows(f"{key}: approved by operator")
    assert len(home.json("review", session_id, "--list")["comments"]) == 1
