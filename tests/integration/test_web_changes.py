"""The tab with the changes of a session in a real browser, with the real git and daemon."""

import base64
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser import DESKTOP, PHONE, SCHEMES, Tab, Visitor, shared_chromium
from tests.fixtures import context_fixture
from tests.git_repositories import git, make_app
from tests.integration.played_claude import Stage
from tests.web_server import WebServer, web_server

pytestmark = pytest.mark.browser

ATTACK = "<img src=x onerror=\"document.title='owned'\">"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)

browser = context_fixture("module", shared_chromium.use)
stage = context_fixture("module", Stage)


@pytest.fixture(scope="module")
def server(browser: Browser, stage: Stage) -> Iterator[WebServer]:
    with web_server(stage, "--scope", "all") as server:
        yield server


@pytest.fixture(scope="module")
def visitor(browser: Browser, server: WebServer) -> Visitor:
    return Visitor(browser, server)


@pytest.fixture(scope="module")
def repo(stage: Stage) -> Path:
    repo = make_app(stage.work)
    (repo / "api" / "login.py").write_text("".join(f"def step_{n}():\n    return {n}\n\n" for n in range(40)))
    (repo / "api" / "old_name.py").write_text("".join(f"line {n}\n" for n in range(30)))
    (repo / "logo.png").write_bytes(PIXEL)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "second")
    return repo


Worktree = tuple[str, Path]
_NUMBERS = itertools.count()


@pytest.fixture
def worktree(stage: Stage, repo: Path) -> Iterator[Worktree]:
    """A session with a worktree in which it has changed nothing yet."""
    session = stage.spawn("Sh", "exec sleep 1000", "--worktree", "--name", f"tree-{next(_NUMBERS)}", cwd=repo)
    yield session["session_id"], Path(session["worktree"]["path"])
    stage.sm("kill", session["session_id"], "--force")
    stage.ended(session["session_id"])


def change(path: Path) -> None:
    login = (path / "api" / "login.py").read_text()
    login = login.replace("return 7\n", "return seven()\n").replace("return 20\n", "return 20 + 1\n")
    (path / "api" / "login.py").write_text(login)
    (path / "api" / "a.txt").unlink()
    (path / "api" / "new_name.py").write_text((path / "api" / "old_name.py").read_text() + "one more\n")
    (path / "api" / "old_name.py").unlink()
    (path / "api" / "fresh.ts").write_text("export const size: number = 3;\n")
    (path / "logo.png").write_bytes(PIXEL + b"\0")


def open_changes(tab: Tab, session: str) -> None:
    tab.open(f"#/s/{session}/changes")
    tab.until(lambda: tab.find(".diff-files[data-complete]").count() == 1, "all files")


def file_of(tab: Tab, path: str) -> Any:
    return tab.find(f'.diff-file[aria-label="{path}"]')


def test_changes_are_shown_by_file(visitor: Visitor, worktree: Worktree) -> None:
    session, path = worktree
    change(path)
    with visitor.tab() as tab:
        open_changes(tab, session)
        tab.shows("5 files", "return seven()")
        labels = tab.find(".diff-file").evaluate_all("all => all.map((file) => file.ariaLabel)")
        assert labels == ["api/a.txt", "api/fresh.ts", "api/login.py", "api/new_name.py", "logo.png"]
        assert "api/old_name.py → api/new_name.py" in file_of(tab, "api/new_name.py").inner_text()
        assert "deleted" in file_of(tab, "api/a.txt").inner_text()
        assert tab.find(".diff-tree li").all_inner_texts()[0] == "api/"
        login = file_of(tab, "api/login.py")
        tab.until(lambda: login.locator(".hljs-keyword").count() > 0, "colours")
        tab.until(lambda: "|".join(login.locator(".word").all_inner_texts()) == "7|seven()| + |1", "words")
        assert login.locator(".dl.add .no").first.get_attribute("data-number") is None
        assert "step_12" not in login.inner_text()
        login.get_by_text("Whole file").click()
        tab.until(lambda: "step_12" in login.inner_text(), "the whole file")
        login.get_by_text("Whole file").click()
        tab.until(lambda: "step_12" not in login.inner_text(), "the changes again")
        tab.until(lambda: tab.find(".pictures img").count() == 2, "both pictures")
        widths = tab.find(".pictures img").evaluate_all("all => all.map((one) => one.naturalWidth)")
        assert widths == [1, 1]


def test_texts_and_names_of_changed_files_are_text(visitor: Visitor, worktree: Worktree) -> None:
    session, path = worktree
    (path / "api" / f"{ATTACK.replace('/', '')}\u202e.py").write_text(
        f"'''{ATTACK}\u202e\n+++ b/other\n@@ -1 +1 @@\n"
    )
    (path / "api" / "a.txt").write_text(f"one\rdiff --git a/fake b/fake\r+{ATTACK}\n-- a/x\n++ b/y\n")
    (path / "<script>.js").write_text("<script>document.title='owned'</script>\n")
    with visitor.tab() as tab:
        open_changes(tab, session)
        tab.shows("3 files", f"{ATTACK}<U+202E>", "one<U+000D>diff --git a/fake b/fake<U+000D>")
        assert tab.find(".diff-file").count() == 3
        tab.find('[data-act="drafts"]').click()
        row = file_of(tab, "api/a.txt").locator(".dl.add").first
        row.locator(".no").nth(1).click()
        tab.page.keyboard.type(ATTACK)
        tab.press("Control+Enter")
        tab.until(lambda: tab.find(".note[data-draft]").count() == 2, "the draft, and in the list")
        assert tab.find("img").count() == 0
        assert "owned" not in tab.page.title()


def test_comments_become_a_round(visitor: Visitor, worktree: Worktree, stage: Stage) -> None:
    session, path = worktree
    change(path)
    with visitor.tab() as tab:
        open_changes(tab, session)
        login = file_of(tab, "api/login.py")
        tab.until(lambda: login.locator(".dl.add").count() == 2, "the lines")
        login.locator(".dl.add .no").nth(1).click()
        tab.page.keyboard.type("why seven?")
        tab.press("Control+Enter")
        tab.until(lambda: tab.find(".row-notes .note[data-draft]").count() == 1, "the draft")
        login.locator(".dl.del .no").nth(2).click()
        login.locator(".dl.add .no").nth(3).click(modifiers=["Shift"])
        tab.press("Escape")
        file_of(tab, "api/fresh.ts").get_by_text("Comment", exact=True).click()
        tab.page.keyboard.type("a type of its own")
        tab.find("form.note .go").click()
        tab.shows("Drafts (2)")
        (first, second) = stage.json("review", session, "--list")["comments"]
        assert (first["path"], first["side"], first["text"]) == ("api/fresh.ts", None, "a type of its own")
        assert (second["side"], second["last"], second["quote"]) == ("new", 23, "+    return seven()")
        tab.page.reload()
        tab.is_in_phase("live")
        open_changes(tab, session)
        tab.until(lambda: "why seven?" in login.inner_text(), "the draft is kept")
        tab.press("L")
        tab.find('[data-act="send-round"]').click()
        tab.shows("Round 1:", "Drafts (0)", "Since my last review (round 1)")
        (letter,) = [message["text"] for message in stage.json("log", session)]
        assert "1. api/fresh.ts (the whole file)\na type of its own\n" in letter
        assert "2. api/login.py:23\n| +    return seven()\nwhy seven?\n" in letter
        (path / "api" / "fresh.ts").write_text("export type Size = number;\n")
        tab.find(".diff-bar select").select_option("review")
        tab.until(lambda: tab.find(".diff-file").count() == 1, "one file since the review")
        tab.shows("export type Size", "export const size")


def test_draft_of_a_range_names_its_lines(visitor: Visitor, worktree: Worktree, stage: Stage) -> None:
    session, path = worktree
    (path / "api" / "fresh.ts").write_text("one\ntwo\nthree\nfour\n")
    with visitor.tab() as tab:
        open_changes(tab, session)
        lines = file_of(tab, "api/fresh.ts").locator(".dl.add .no[data-number]")
        tab.until(lambda: lines.count() == 4, "the lines")
        lines.nth(1).click()
        lines.nth(3).click(modifiers=["Shift"])
        tab.page.keyboard.type("shor")
        tab.open(f"#/s/{session}/why")
        open_changes(tab, session)
        tab.until(lambda: tab.find("form.note textarea").count() == 1, "the form with what was typed")
        assert tab.find("form.note textarea").input_value() == "shor"
        tab.find("form.note textarea").press("End")
        tab.page.keyboard.type("ter")
        tab.press("Control+Enter")
        tab.shows("draft, lines 2-4")
        (draft,) = stage.json("review", session, "--list")["comments"]
        assert (draft["first"], draft["last"], draft["quote"]) == (2, 4, "+four")
        tab.find(".row-notes").get_by_text("Delete").click()
        tab.shows("Drafts (0)")
        assert stage.json("review", session, "--list")["comments"] == []


def test_keys_move_through_the_changes(visitor: Visitor, worktree: Worktree) -> None:
    session, path = worktree
    for name in ("one", "two", "three"):
        (path / f"{name}.py").write_text("".join(f"{name} = {n}\n" for n in range(60)))
    with visitor.tab() as tab:
        open_changes(tab, session)
        tab.find("#tab-panel").focus()
        current: Callable[[], Any] = lambda: tab.find(".diff-tree [aria-current]").get_attribute("title")  # noqa: E731
        tab.press("j")
        tab.until(lambda: current() == "three.py", "the second file")
        tab.press("k")
        tab.until(lambda: current() == "one.py", "the first file again")
        tab.press("j", "j", "j", "k", "k", "k")
        tab.until(lambda: current() == "one.py", "the first file, from the last one")
        tab.press(".", ".")
        tab.until(lambda: "one = 1" in tab.find(".dl.at").inner_text(), "the second line is marked")
        tab.press("Enter")
        tab.shows("Comment on one.py:2")
        tab.press("Escape")
        tab.until(lambda: tab.find("form.note").count() == 0, "no form")
        tab.press("V")
        tab.until(lambda: tab.find(".dl.two").count() > 0, "side by side")
        tab.press("z")
        tab.until(
            lambda: tab.find(".diff-file .fold").first.get_attribute("aria-expanded") == "false", "folded"
        )
        tab.press("?")
        tab.shows("In the changes", "Side by side, or unified")


def test_large_changes_come_by_parts(visitor: Visitor, worktree: Worktree) -> None:
    """Files with many lines wait for a person, and only lines near the visible part have elements."""
    session, path = worktree
    (path / "a_large.txt").write_text("".join(f"row {n}\n" for n in range(4_000)))
    (path / "b_long.txt").write_text("".join(f"row {n}\n" for n in range(1_400)))
    (path / "c_wide.txt").write_text("x" * 5_000 + "\n")
    with visitor.tab() as tab:
        open_changes(tab, session)
        large, long = file_of(tab, "a_large.txt"), file_of(tab, "b_long.txt")
        tab.until(lambda: long.locator(".dl").count() > 0, "the first lines")
        assert large.locator(".dl").count() == 0
        assert long.locator(".dl").count() < 400
        large.get_by_text("Show 4,000 lines").click()
        tab.until(lambda: large.locator(".dl").count() > 0, "its lines")
        tab.press("j", "j")
        tab.shows("3,000 more characters")
        tab.until(lambda: large.locator(".dl").count() == 0, "lines out of sight are forgotten")


def test_refusals_are_words(visitor: Visitor, stage: Stage) -> None:
    session = stage.spawn("Sh", "exec sleep 1000", "--name", "no-repository")["session_id"]
    with visitor.tab() as tab:
        tab.open(f"#/s/{session}/changes")
        tab.shows("does not work in a git repository")
    stage.sm("kill", session, "--force")


def test_git_does_not_run_where_sm_diff_refuses_it(
    visitor: Visitor, worktree: Worktree, repo: Path, stage: Stage
) -> None:
    session, path = worktree
    git(repo, "config", "filter.x.clean", "touch ran")
    (path / ".gitattributes").write_text("*.txt filter=x\n")
    (path / "api" / "a.txt").write_text("b\n")
    reason = stage.refused("diff", session, exit_code=4).splitlines()[0].removeprefix("sm: ")
    with visitor.tab() as tab:
        tab.open(f"#/s/{session}/changes")
        tab.shows(reason)
    git(repo, "config", "--unset", "filter.x.clean")
    assert not list(stage.work.rglob("ran"))


def test_login_that_only_looks_sees_changes_and_cannot_comment(
    browser: Browser, stage: Stage, server: WebServer, worktree: Worktree
) -> None:
    session, path = worktree
    change(path)
    context = browser.new_context()
    tab = Tab(context, stage.sm("web", "link", "--scope", "look").strip())
    tab.is_in_phase("live")
    open_changes(tab, session)
    tab.shows("return seven()")
    tab.find(".dl.add .no").first.click()
    tab.page.keyboard.type("no")
    tab.shows("this login may not: its scope is look")
    status = tab.page.evaluate(
        "async (id) => (await fetch(`/api/changes/${id}/drafts`, {method: 'POST', body: '{\"text\": \"x\"}', headers:"
        " {Authorization: `Bearer ${localStorage['sm.token']}`, 'Content-Type': 'application/json'}})).status",
        session,
    )
    assert status == 403
    assert stage.json("review", session, "--list")["comments"] == []
    context.close()


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_changes_pass_the_checks_of_accessibility(
    visitor: Visitor, worktree: Worktree, size: tuple[int, int]
) -> None:
    session, path = worktree
    change(path)
    with visitor.tab(size) as tab:
        open_changes(tab, session)
        tab.until(lambda: tab.find(".hljs-keyword").count() > 0, "colours")
        tab.find(".dl.add .no").first.click()
        tab.page.keyboard.type("why?")
        tab.press("Control+Enter")
        tab.press("L")
        assert tab.violations(*SCHEMES) == []
