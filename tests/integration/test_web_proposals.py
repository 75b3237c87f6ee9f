"""Proposed completions in a real browser: their changes beside the buttons, and a denial with draft comments."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import DESKTOP, PHONE, Tab, Visitor, shared_chromium
from tests.fixtures import context_fixture
from tests.git_repositories import git, make_app
from tests.integration.played_claude import Stage
from tests.web_server import web_server

pytestmark = pytest.mark.browser

browser = context_fixture("module", shared_chromium.use)
stage = context_fixture("module", Stage)
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def visitor(browser: Browser, stage: Stage) -> Iterator[Visitor]:
    make_app(stage.work)
    with web_server(stage, "--scope", "all") as server:
        yield Visitor(browser, server)


@pytest.fixture
def proposal(stage: Stage) -> Iterator[tuple[str, str]]:
    """A session that has changed two files and proposes its completion, and the request."""
    words = ("Sh", "exec sleep 1000", "--lifecycle", "supervised", "--worktree")
    session = stage.spawn(*words, "--name", f"work-{next(_NUMBERS)}", cwd=stage.work / "app")
    path = Path(session["worktree"]["path"])
    (path / "api" / "a.txt").write_text("b\nc\n")
    (path / "new.py").write_text("def new():\n    return 1\n")
    session_id = session["session_id"]
    stage.sm("complete", "built it", env=stage.as_session(session_id))
    (request,) = stage.json("requests", session_id)
    yield session_id, request["request_id"]
    stage.sm("kill", session_id, "--force")
    stage.ended(session_id)


def unfold(tab: Tab, key: str) -> None:
    entry = tab.find(f'[data-need="{key}"]')
    entry.locator(".need-open").click()
    tab.until(lambda: "Changes: 2 files +4 \N{MINUS SIGN}1" in entry.inner_text(), "the numbers")
    assert entry.locator(".diff-file").count() == 0
    entry.locator('[data-act="changes"]').click()
    tab.until(lambda: entry.locator(".diff-files[data-complete]").count() == 1, "all files")


def comment(tab: Tab, words: str) -> None:
    """Keep a draft about the first added line."""
    tab.until(lambda: tab.find(".dl.add .no").count() > 0, "the lines")
    tab.find(".dl.add .no").nth(1).click()
    tab.page.keyboard.type(words)
    tab.press("Control+Enter")
    tab.until(lambda: tab.find(".row-notes .note[data-draft]").count() == 1, "the draft")


def test_queue_shows_the_changes_and_a_denial_takes_the_drafts(
    visitor: Visitor, proposal: tuple[str, str], stage: Stage
) -> None:
    session, key = proposal
    with visitor.tab() as tab:
        tab.open("#/")
        unfold(tab, key)
        comment(tab, "why b?")
        tab.find(".dl.add .no").nth(3).click()
        tab.page.keyboard.type("not kept")
        tab.request(key).locator('[data-act="deny"]').click()
        tab.shows("Your 1 draft comment about the changes goes with it, as one round.")
        tab.find(f'[data-need="{key}"] .need-input textarea').fill("not yet")
        tab.request(key).locator('[data-act="submit"]').click()
        tab.shows("a comment is not kept yet")
        assert stage.json("requests", key)["state"] == "open"
        tab.find("form.note").get_by_text("Cancel").click()
        tab.request(key).locator('[data-act="submit"]').click()
        tab.shows(f"done: sm deny {key} --review")
        assert tab.problems == []
    (letter,) = stage.json("inbox", "--take", env=stage.as_session(session))
    assert letter["text"].startswith(f"Your completion ({key}) was denied.")
    assert "1. the whole change\nnot yet\n\n2. api/a.txt:1\n| +b\nwhy b?\n" in letter["text"]
    listed = stage.json("review", session, "--list")
    assert (listed["comments"], [sent["count"] for sent in listed["rounds"]]) == ([], [2])
    tree = listed["rounds"][0]["tree"]
    assert git(stage.work / "app", "cat-file", "-t", tree) == "tree"  # for --since-last


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_request_stands_above_the_changes_and_a_refused_denial_costs_no_draft(
    visitor: Visitor, proposal: tuple[str, str], stage: Stage, size: tuple[int, int]
) -> None:
    session, key = proposal
    with visitor.tab(size) as tab:
        tab.open(f"#/s/{session}/changes")
        tab.until(lambda: tab.find(".panel .diff-files[data-complete]").count() == 1, "all files")
        assert tab.find(f'[data-need="{key}"]').count() == 1
        comment(tab, "why b?")
        tab.request(key).locator('[data-act="deny"]').click()
        tab.shows("Deny with 1 draft comment")
        assert tab.violations() == []
        stage.sm("review", session, "--discard", "--yes")
        tab.request(key).locator('[data-act="submit"]').click()
        tab.shows("was changed, sent or deleted")
        assert stage.json("requests", key)["state"] == "open"
        tab.shows("You have no draft comments about the changes.")
        assert tab.find(".row-notes .note[data-draft]").count() == 0
        tab.request(key).locator('[data-act="approve"]').click()
        tab.shows(f"done: sm approve {key}")
        assert tab.problems == []


def test_comment_that_is_typed_in_the_queue_goes_along_to_the_tab_with_the_changes(
    visitor: Visitor, proposal: tuple[str, str], stage: Stage
) -> None:
    session, key = proposal
    with visitor.tab() as tab:
        tab.open("#/")
        tab.request(key).locator('[data-act="deny"]').click()
        tab.shows("You have no draft comments about the changes.")
        unfold(tab, key)
        tab.find(".dl.add .no").nth(1).click()
        tab.page.keyboard.type("why b?")
        tab.page.evaluate(f"location.hash = '#/s/{session}/changes'")
        tab.until(lambda: tab.find(".panel .diff-files[data-complete]").count() == 1, "all files")
        typed = tab.find(".panel form.note textarea")
        tab.until(lambda: typed.count() == 1 and typed.input_value() == "why b?", "the typed comment")
        typed.press("Control+Enter")
        tab.shows("Deny with 1 draft comment")
        tab.page.evaluate("location.hash = '#/'")
        tab.shows("Deny with 1 draft comment")
        tab.request(key).locator('[data-act="submit"]').click()
        tab.shows(f"done: sm deny {key} --review")
        assert tab.problems == []
    assert [sent["count"] for sent in stage.json("review", session, "--list")["rounds"]] == [1]
