"""The sheet that starts an agent, in a real browser with a real server, daemon and tmux."""

import json
from collections.abc import Iterator, Sequence

import pytest
from playwright.sync_api import Browser, Locator, WebSocketRoute

from sm.client.http import Client
from sm.core.lifecycle import is_live
from sm.core.statuses import Status
from tests.browser import AXE, DESKTOP, PHONE, SCHEMES, Tab, Visitor, shared_chromium, skip_without
from tests.fixtures import context_fixture
from tests.git_repositories import make_app
from tests.integration.played_claude import Stage
from tests.web_server import web_server

pytestmark = pytest.mark.browser

browser = context_fixture("module", shared_chromium.use)
stage = context_fixture("module", Stage)


@pytest.fixture(scope="module")
def visitor(browser: Browser, stage: Stage) -> Iterator[Visitor]:
    make_app(stage.work)
    with web_server(stage, "--scope", "all") as server:
        yield Visitor(browser, server)


@pytest.fixture(autouse=True)
def emptied(stage: Stage) -> Iterator[None]:
    yield
    for session in Client(str(stage.socket)).get("/v1/sessions"):
        if is_live(Status(session["status"])):
            stage.sm("kill", session["session_id"], "--force")
            stage.ended(session["session_id"])


def open_sheet(tab: Tab) -> Locator:
    start = tab.find('.tools [data-act="spawn"]')
    tab.until(lambda: start.get_attribute("aria-disabled") == "false", "a start is possible")
    tab.find("#treegrid").focus()
    tab.press("n")
    form = tab.find('[data-form="spawn"]')
    tab.until(lambda: form.locator('[name="agent_type"] option[value="Sh"]').count() == 1, "the agent types")
    return form


def enter(form: Locator, **values: str) -> None:
    for name, value in values.items():
        entry = form.locator(f'[name="{name}"]')
        if entry.evaluate("element => element.tagName") == "SELECT":
            entry.select_option(value)
        else:
            entry.fill(value)


def shows(tab: Tab, form: Locator, *texts: str) -> None:
    tab.until(lambda: all(text in form.inner_text() for text in texts), f"the sheet shows {texts}")


def is_alone(tab: Tab, form: Locator, name: str) -> None:
    """Check that this field alone has a problem, which its entry names, and that it has the focus."""
    wrong = form.locator("[aria-invalid]")
    tab.until(
        lambda: wrong.evaluate_all("all => all.map((one) => one.name)") == [name], f"a problem of {name}"
    )
    assert wrong.get_attribute("aria-describedby") == form.locator('[role="alert"]').get_attribute("id")
    tab.until(lambda: wrong.evaluate("element => element === document.activeElement"), "the focus")


def test_agent_starts_with_the_sheet_and_errors_stand_at_their_fields(stage: Stage, visitor: Visitor) -> None:
    app = stage.work / "app"
    with visitor.tab() as tab:
        form = open_sheet(tab)
        enter(form, agent_type="Sh", prompt="exec sleep 1000", name="formed", working_dir="here")
        tab.press("Control+Enter")
        shows(tab, form, "an absolute path is needed")
        is_alone(tab, form, "working_dir")
        enter(form, working_dir=str(stage.work / "missing"))
        shows(tab, form, "does not exist")
        enter(form, working_dir=str(app))
        shows(tab, form, "git repository", f"in a new git worktree of {app}", "--name formed")
        assert form.locator('[name="place"]').is_checked()
        form.locator('[name="place"]').uncheck()
        tab.until(lambda: form.locator('[name="branch"]').count() == 0, "no branch without a worktree")
        form.locator('[name="place"]').check()
        tab.until(lambda: form.locator('[name="branch"]').count() == 1, "the branch")
        enter(form, branch="main")
        tab.press("Control+Enter")
        shows(tab, form, "branch main is checked out in")
        is_alone(tab, form, "branch")
        enter(form, branch="fix", budget="usd=much")
        tab.press("Control+Enter")
        shows(tab, form, "invalid value for --budget")
        is_alone(tab, form, "budget")
        enter(form, budget="usd=5")
        form.locator('[data-act="do-spawn"]').click()
        tab.until(lambda: form.count() == 0, "the end of the sheet")
        tab.shows("sh-formed")
        session = stage.session("sh-formed")
        place = f"#/s/{session['session_id']}/peek"
        tab.until(lambda: tab.attribute("place") == place, "the page of the new session")
        assert session["worktree"]["branch"] == "fix"
        assert session["budget"]["limits"]["usd"] == 5


def test_nothing_that_was_typed_is_lost(stage: Stage, visitor: Visitor) -> None:
    with visitor.tab() as tab:
        form = open_sheet(tab)
        enter(form, agent_type="Sh", prompt="echo one\nexec sleep 1000", working_dir=str(stage.work))
        tab.press("Escape")
        tab.until(lambda: form.count() == 0, "the sheet is closed")
        form = open_sheet(tab)
        assert form.locator('[name="prompt"]').input_value() == "echo one\nexec sleep 1000"
        tab.page.reload()
        tab.is_in_phase("live")
        form = open_sheet(tab)
        assert form.locator('[name="prompt"]').input_value() == "echo one\nexec sleep 1000"
        assert form.locator('[name="working_dir"]').input_value() == str(stage.work)
        shows(tab, form, f"Starts Sh in {stage.work}.")
        form.locator('[data-act="clear-spawn"]').click()
        tab.until(lambda: form.locator('[name="prompt"]').input_value() == "", "an empty task")


def test_another_agent_begins_with_all_but_the_task_and_the_name(stage: Stage, visitor: Visitor) -> None:
    with visitor.tab() as tab:
        form = open_sheet(tab)
        enter(form, agent_type="Sh", working_dir=str(stage.work))
        for name in ("first", "second"):
            enter(form, prompt=f"echo {name}; exec sleep 1000", name=name)
            form.locator('[data-act="do-another"]').click()
            task = form.locator('[name="prompt"]')
            tab.until(lambda: task.input_value() == "", "an empty task")  # noqa: B023 - awaited
            tab.until(lambda: task.evaluate("one => one === document.activeElement"), "the focus")  # noqa: B023
            assert form.locator('[name="name"]').input_value() == ""
            shows(tab, form, f"Started Sh {name}. The fields are for another agent now.")
            assert form.locator('[name="working_dir"]').input_value() == str(stage.work)
        tab.press("Escape")
        assert tab.attribute("place") in ("", "#/")
        tab.page.mouse.move(5, 5)  # under the pointer the list holds still
        tab.shows("sh-first", "sh-second")
        form = open_sheet(tab)
        assert form.locator('[name="agent_type"]').input_value() == "Sh"


def test_late_answer_leaves_what_was_typed_meanwhile_and_other_dialogs_alone(
    stage: Stage, visitor: Visitor
) -> None:
    """The test holds back the answers to two starts."""
    held = list[tuple[WebSocketRoute, str]]()
    starts = list[str]()

    def pass_on(route: WebSocketRoute) -> None:
        remote = route.connect_to_server()

        def from_page(message: str | bytes) -> None:
            if json.loads(message).get("action") == "spawn":
                starts.append(str(message))
            remote.send(message)

        def from_server(message: str | bytes) -> None:
            if json.loads(message)["t"] == "done":
                held.append((route, str(message)))
            else:
                route.send(message)

        route.on_message(from_page)
        remote.on_message(from_server)

    def seen(frames: Sequence[object], count: int) -> None:
        # A look at the page lets the frames through.
        tab.until(lambda: tab.text() and len(frames) == count, f"{count} frames")

    def answer() -> None:
        seen(held, 1)
        route, message = held.pop()
        route.send(message)
        tab.shows("done: sm spawn")

    with visitor.tab() as tab:
        tab.page.route_web_socket("**/ws", pass_on)
        tab.page.reload()
        tab.is_in_phase("live")
        form = open_sheet(tab)
        task = form.locator('[name="prompt"]')
        enter(form, agent_type="Sh", prompt="exec sleep 1000", working_dir=str(stage.work))
        tab.press("Control+Enter")
        seen(starts, 1)
        enter(form, prompt="exec sleep 2000")
        answer()
        assert task.input_value() == "exec sleep 2000"

        tab.press("Control+Enter")
        seen(starts, 2)
        tab.press("Escape")
        tab.until(lambda: form.count() == 0, "the sheet is closed")
        form = open_sheet(tab)
        assert form.locator('[data-act="do-spawn"]').get_attribute("aria-disabled") == "true"
        tab.press("Control+Enter", "Escape")
        tab.until(lambda: form.count() == 0, "the sheet is closed again")
        tab.press("?")
        tab.until(lambda: tab.find("dialog table").count() > 0, "the help")
        answer()
        assert tab.find("dialog table").count() > 0
        assert tab.attribute("place") in ("", "#/")
        assert len(starts) == 2


def test_task_that_is_too_long_says_so(visitor: Visitor) -> None:
    with visitor.tab() as tab:
        form = open_sheet(tab)
        form.locator('[name="prompt"]').fill("x" * 10_001)
        shows(tab, form, "the task has 10,001 characters")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_sheet_has_no_violations_and_fills_a_phone(visitor: Visitor, size: tuple[int, int]) -> None:
    skip_without(AXE.exists(), "axe-core")
    with visitor.tab(size) as tab:
        form = open_sheet(tab)
        enter(form, working_dir="/missing/directory")
        shows(tab, form, "does not exist")
        form.locator(".start-more summary").click()
        assert tab.violations(*SCHEMES) == []
        box = tab.find("dialog").bounding_box()
        assert box is not None
        assert (box["width"], box["height"]) == size if size == PHONE else box["width"] < size[0]
        start = form.locator('[data-act="do-spawn"]').bounding_box()
        assert start is not None
        assert start["y"] + start["height"] <= size[1]
