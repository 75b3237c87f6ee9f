"""The queue of the page in a real browser: lines that unfold, answers to several requests, failures and results."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, WebSocketRoute

from sm.client.http import Client, new_key
from sm.core.lifecycle import is_live
from sm.core.statuses import Status
from tests.browser import AXE, DESKTOP, Tab, Visitor, shared_chromium, skip_without
from tests.fixtures import context_fixture
from tests.instance import SHOWN
from tests.integration.played_claude import Agent, Dialog, Stage
from tests.web_server import WebServer, web_server

pytestmark = pytest.mark.browser

browser = context_fixture("module", shared_chromium.use)
stage = context_fixture("module", Stage)
PHONE = (390, 844)
EDIT = {"file_path": "a.py", "old_string": "b\nold", "new_string": "b\nnew\nmore"}
QUESTION = {
    "question": "Which size?",
    "header": "Size",
    "options": [
        {"label": "Large", "description": "for desks"},
        {"label": "Tiny", "description": "for wrists"},
    ],
    "multiSelect": False,
}
STILL = "() => { const now = performance.now(); performance.now = () => now; }"
"""Stops the clock of the page."""
LATER = "() => { const now = performance.now.bind(performance); performance.now = () => now() + 60_000; }"
"""Sets the clock of the page a minute ahead."""
IN_SIGHT = """lines => lines.filter((line) => {
  const { top, bottom } = line.getBoundingClientRect();
  const list = line.closest(".need-scroll").getBoundingClientRect();
  return top >= Math.max(0, list.top) - 1 && bottom <= Math.min(innerHeight, list.bottom) + 1;
}).length"""


@pytest.fixture(scope="module")
def server(browser: Browser, stage: Stage) -> Iterator[WebServer]:
    (stage.home / "shop").mkdir()
    stage.sm("workspace", "create", "shop", "--working-dir", str(stage.home / "shop"))
    with web_server(stage, "--scope", "all") as server:
        yield server


@pytest.fixture(scope="module")
def visitor(browser: Browser, server: WebServer) -> Visitor:
    return Visitor(browser, server)


@pytest.fixture(autouse=True)
def emptied(stage: Stage) -> Iterator[None]:
    """End and hide all sessions behind each test."""
    yield
    client = Client(str(stage.socket))
    sessions = client.get("/v1/sessions")
    for session in sessions:
        if is_live(Status(session["status"])):
            client.post(f"/v1/sessions/{session['session_id']}/kill", {"force": True})
            stage.ended(session["session_id"])
        client.post(f"/v1/sessions/{session['session_id']}/archive", {})


def ask(agent: Agent, command: str, description: str = "") -> Dialog:
    more = {"description": description} if description else {}
    dialog = agent.open_dialog("Bash", {"command": command, **more})
    dialog.start_wait()
    return dialog


def asks(stage: Stage, command: str, *names: str) -> list[Dialog]:
    """One agent for each name, which all ask for the same command in the same workspace."""
    agents = [stage.agent("Plain", "--name", name, "--workspace", "shop") for name in names]
    return [ask(agent, command, f"for {name}") for agent, name in zip(agents, names, strict=True)]


def behaviour(dialog: Dialog) -> str:
    """The decision that the agent gets. After it, its dialog is over."""
    decision = str(dialog.take_decision()["hookSpecificOutput"]["decision"]["behavior"])
    dialog.agent.end_tool(dialog)
    return decision


def lines(tab: Tab) -> list[str]:
    """The entries from top to bottom, with a sign for those that have passed."""
    found: list[str] = tab.find(".needs [data-need]").evaluate_all(
        "lines => lines.map((line) => line.dataset.need + (line.matches('.passed') ? ' passed' : ''))"
    )
    return found


def line(tab: Tab, key: str) -> Locator:
    return tab.find(f'.needs [data-need="{key}"]')


def is_open(tab: Tab, key: str) -> bool:
    return line(tab, key).locator('.need-open[aria-expanded="true"]').count() == 1


def top_of(entry: Locator) -> float:
    box = entry.bounding_box()
    assert box is not None
    return box["y"]


def focused(tab: Tab) -> str:
    return str(tab.page.evaluate("document.activeElement.closest('[data-need]')?.dataset.need"))


def focus(tab: Tab, key: str) -> None:
    tab.press("N")
    tab.until(lambda: focused(tab) != "None", "a line has the focus")
    for _ in lines(tab):
        if focused(tab) == key:
            return
        tab.press("j")
    assert focused(tab) == key


# The lines


@pytest.mark.parametrize(("size", "wanted"), [(DESKTOP, 12), (PHONE, 6)])
def test_many_requests_are_in_sight_at_once(
    stage: Stage, visitor: Visitor, size: tuple[int, int], wanted: int
) -> None:
    hook = stage.agent().hook()
    for number in range(19):
        hook.send("/v1/requests", new_key(), {"question": f"Which colour has part {number}?"})
        assert hook.receive()[0] == "ok"
    touch = size == PHONE
    with visitor.tab(size, has_touch=touch, is_mobile=touch) as tab:
        tab.until(lambda: len(tab.requests()) == 19, "all requests")
        assert tab.find(".need").evaluate_all(IN_SIGHT) >= wanted


def test_line_says_what_is_asked_and_unfolds_in_place(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent("Plain", "--name", "editor", "--workspace", "shop")
    dialog = agent.open_dialog("Edit", EDIT)
    with visitor.tab() as tab:
        entry = tab.request(dialog.name)
        text = entry.inner_text()
        assert "Edit: a.py +2 -1" in text and "shop" in text and "plain-editor" in text
        assert "|+ new" not in text
        before = top_of(entry)
        focus(tab, dialog.name)
        tab.press("Enter")
        tab.until(lambda: "|+ new" in entry.inner_text(), "the change")
        assert top_of(entry) == before
        asks(stage, "make", "late")
        tab.until(lambda: len(tab.requests()) == 2, "a newer request")
        assert is_open(tab, dialog.name)
        assert top_of(entry) == before
        assert focused(tab) == dialog.name
        tab.press("Escape")
        tab.until(lambda: "|+ new" not in entry.inner_text(), "the folded line")
        assert focused(tab) == dialog.name


def test_lines_stay_where_they_are_while_one_is_open(stage: Stage, visitor: Visitor) -> None:
    first, second, third = asks(stage, "make", "a", "b", "c")
    with visitor.tab() as tab:
        entry = tab.request(second.name)
        tab.request(third.name)
        entry.locator(".need-open").click()
        tab.until(lambda: is_open(tab, second.name), "the open line")
        before = top_of(entry)
        tab.page.evaluate(LATER)
        approval = stage.start_command("approve", first.name)
        assert behaviour(first) == "allow"
        approval.communicate()
        tab.until(lambda: "by operator" in line(tab, first.name).inner_text(), "who answered the one above")
        assert top_of(entry) == before
        tab.press("Escape")
        tab.page.mouse.move(5, 5)
        tab.until(lambda: lines(tab) == [second.name, third.name], "the line that has passed is gone")


def test_question_and_its_options_stand_once(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("AskUserQuestion", {"questions": [QUESTION]})
    dialog.start_wait()
    with visitor.tab() as tab:
        entry = tab.request(dialog.name)

        def counts() -> list[int]:
            text = entry.inner_text()
            return [text.count(words) for words in ("Which size?", "Large", "Tiny", "for wrists")]

        assert counts() == [1, 1, 1, 0]
        assert entry.locator(".need-check input").count() == 0, "it is answered alone"
        entry.locator(".need-open").click()
        tab.until(lambda: is_open(tab, dialog.name), "the form")
        assert counts() == [1, 1, 1, 1]
        tab.request(dialog.name)
        entry.locator("textarea").fill("two of them")
        tab.press("Enter")
        assert "two of them" in str(dialog.take_decision())


def test_request_whose_line_leaves_words_out_is_shown_in_full_before_it_is_approved(
    stage: Stage, visitor: Visitor
) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Edit", EDIT)
    dialog.start_wait()
    with visitor.tab() as tab:
        entry = tab.request(dialog.name)
        entry.locator('[data-act="approve"]').click()
        tab.shows(f"{dialog.name} is now shown in full; press again")
        assert "|+ new" in entry.inner_text()
        assert dialog.request["answer"] is None
        tab.request(dialog.name)
        entry.locator('[data-act="approve"]').click()
        assert behaviour(dialog) == "allow"


def test_long_command_is_shown_in_full_before_it_is_approved(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent()
    dialog = ask(agent, f"echo {'x' * 300} ; rm -rf /")
    with visitor.tab() as tab:
        tab.request(dialog.name).locator('[data-act="approve"]').click()
        tab.shows(f"{dialog.name} is now shown in full; press again")
        assert "; rm -rf /" in line(tab, dialog.name).inner_text()
        assert dialog.request["answer"] is None


def test_answer_moves_to_the_next_line_and_keeps_it_as_open_as_the_answered_one(
    stage: Stage, visitor: Visitor
) -> None:
    first, second, third = asks(stage, "make", "a", "b", "c")
    with visitor.tab() as tab:
        tab.request(first.name)
        focus(tab, first.name)
        tab.press("a")
        assert behaviour(first) == "allow"
        tab.until(lambda: focused(tab) == second.name, "the next line")
        assert not is_open(tab, second.name)
        tab.press("Enter")
        tab.until(lambda: is_open(tab, second.name), "it is open")
        tab.request(second.name)
        tab.press("a")
        assert behaviour(second) == "allow"
        tab.until(lambda: focused(tab) == third.name and is_open(tab, third.name), "the last line is open")
        tab.request(third.name)
        tab.press("a")
        assert behaviour(third) == "allow"
        tab.until(lambda: tab.page.evaluate("document.activeElement.id") == "needs-title", "the title")


def test_answer_that_is_refused_is_told_at_its_line(stage: Stage, visitor: Visitor) -> None:
    """The test answers the page in place of the server."""
    first, second = asks(stage, "make", "a", "b")

    def refuse(route: WebSocketRoute) -> None:
        remote = route.connect_to_server()

        def from_page(message: str | bytes) -> None:
            frame = json.loads(message)
            refused = {"t": "done", "n": frame.get("n"), "ok": False, "words": "the disk is full"}
            if frame["t"] == "act":
                route.send(json.dumps(refused))
            else:
                remote.send(message)

        route.on_message(from_page)

    with visitor.tab() as tab:
        tab.page.route_web_socket("**/ws", refuse)
        tab.page.reload()
        tab.request(first.name)
        tab.request(second.name)
        focus(tab, first.name)
        tab.press("a")
        tab.until(
            lambda: "not done: the disk is full" in line(tab, first.name).inner_text(),
            "the reason at the line",
        )
        assert focused(tab) == second.name
        assert line(tab, first.name).locator('[data-act="approve"][aria-disabled="false"]').count() == 1


def test_reason_of_a_denial_is_kept_when_its_form_is_closed(stage: Stage, visitor: Visitor) -> None:
    (dialog,) = asks(stage, "make", "a")
    with visitor.tab() as tab:
        entry = tab.request(dialog.name)
        entry.locator('[data-act="deny"]').click()
        field = entry.locator("textarea")
        tab.until(lambda: tab.page.evaluate("document.activeElement.tagName") == "TEXTAREA", "the field")
        tab.page.keyboard.type("not")
        tab.press("Shift+Enter")
        tab.page.keyboard.type("now")
        tab.press("Escape")
        tab.until(lambda: field.count() == 0 and focused(tab) == dialog.name, "the form is closed")
        tab.press("d")
        tab.until(lambda: field.count() == 1 and field.input_value() == "not\nnow", "the words are kept")
        tab.request(dialog.name)
        tab.press("Enter")
        decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
        assert decision["behavior"] == "deny" and "not\nnow" in decision["message"]


def test_words_for_requests_survive_a_reload_until_they_are_sent(stage: Stage, visitor: Visitor) -> None:
    first, second = asks(stage, "make", "a", "b")
    agent = stage.agent("Plain", "--name", "asker", "--workspace", "shop")
    question = agent.open_dialog("AskUserQuestion", {"questions": [{"question": "Why?", "options": []}]})
    question.start_wait()
    with visitor.tab() as tab:
        for dialog, words in ((first, "not\nnow"), (second, "never")):
            tab.request(dialog.name).locator('[data-act="deny"]').click()
            line(tab, dialog.name).locator("textarea").fill(words)
        tab.request(question.name).locator('[data-act="answer"]').click()
        line(tab, question.name).locator("textarea").fill("because")
        tab.page.reload()
        tab.is_in_phase("live")
        for dialog, words in ((first, "not\nnow"), (second, "never")):
            field = line(tab, dialog.name).locator("textarea")
            tab.until(lambda: field.count() == 1, "the form is open again")  # noqa: B023 - awaited
            assert field.input_value() == words
        tab.request(question.name).locator('[data-act="answer"]').click()
        assert line(tab, question.name).locator("textarea").input_value() == "because"
        tab.request(first.name).locator('[data-act="submit"]').click()
        assert behaviour(first) == "deny"
        tab.page.reload()
        tab.is_in_phase("live")
        tab.until(lambda: first.name not in tab.requests(), "it is answered")

        def kept() -> str:
            return str(tab.page.evaluate("Object.values(sessionStorage).join()"))

        tab.until(lambda: "not\\nnow" not in kept(), "the words that were sent are forgotten")
        assert "never" in kept() and "because" in kept()


def test_reason_of_a_denial_is_kept_while_the_server_has_no_requests_yet(
    stage: Stage, visitor: Visitor
) -> None:
    """The test sends the frames of a server that has just begun."""
    (dialog,) = asks(stage, "make", "a")
    frames: list[tuple[WebSocketRoute, dict[str, object]]] = []

    def pass_on(route: WebSocketRoute) -> None:
        remote = route.connect_to_server()

        def from_server(message: str | bytes) -> None:
            frame = json.loads(message)
            if frame["t"] == "board" and frame.get("needs"):
                frames.append((route, frame))
            route.send(message)

        remote.on_message(from_server)

    with visitor.tab() as tab:
        tab.page.route_web_socket("**/ws", pass_on)
        tab.page.reload()
        tab.request(dialog.name).locator('[data-act="deny"]').click()
        field = tab.find("textarea")
        field.fill("not now")
        route, frame = frames[-1]
        same = frame | {"snapshot": False, "rows": {}, "gone": []}
        route.send(json.dumps(same | {"needs": [], "loading": True}))
        tab.until(lambda: field.count() == 0, "no request")
        route.send(json.dumps(same | {"loading": False}))
        tab.until(lambda: field.count() == 1 and field.input_value() == "not now", "the words")


def test_menu_has_what_the_board_offers_beside_the_buttons(stage: Stage, visitor: Visitor) -> None:
    first, second = asks(stage, "make", "a", "b")
    with visitor.tab() as tab:
        tab.request(first.name).locator('[data-act="more"]').click()
        menu = tab.find(".need-menu")
        tab.until(lambda: menu.count() == 1, "the menu")
        text = menu.inner_text()
        assert (
            "Select 2 equal" in text
            and "Attach to the terminal" in text
            and f"sm approve {first.name}" in text
        )
        tab.press("Escape")
        tab.until(lambda: menu.count() == 0, "no menu")
        line(tab, second.name).locator('[data-act="more"]').click()
        menu.locator('[data-act="equal"]').click()
        tab.shows("2 selected")


# Several at once


def test_equal_requests_are_approved_together_after_their_list_is_shown(
    stage: Stage, visitor: Visitor
) -> None:
    equal = asks(stage, "npm install", "a", "b", "c")
    (other,) = asks(stage, "npm test", "d")
    with visitor.tab() as tab:
        for dialog in (*equal, other):
            tab.request(dialog.name)
        line(tab, equal[0].name).locator('[data-act="equal"]').click()
        bar = tab.find(".batch")
        tab.until(lambda: "3 selected" in bar.inner_text(), "the selection")
        assert "the same command in the same workspace: 3 of 4" in bar.inner_text()
        bar.locator('[data-act="approve-all"]').click()
        listed = tab.find("[data-batch]")
        tab.until(lambda: listed.count() == 3, "the list")
        assert "| for b" in listed.nth(1).inner_text() and "plain-b" in listed.nth(1).inner_text()
        assert "| npm install" in tab.find("dialog").inner_text()
        do = tab.find('[data-act="do-batch"]')
        assert do.inner_text() == "Approve 3"
        assert all(dialog.request["answer"] is None for dialog in equal)
        tab.until(lambda: do.get_attribute("aria-disabled") == "false", "the button is alive")
        do.click()
        assert [behaviour(dialog) for dialog in equal] == ["allow"] * 3
        tab.shows("approved: 3 of 3")
        assert other.request["answer"] is None
        assert bar.count() == 0


def test_key_for_a_rule_asks_about_one_request_of_a_selection(stage: Stage, visitor: Visitor) -> None:
    equal = asks(stage, "make", "a", "b")
    with visitor.tab() as tab:
        for dialog in equal:
            tab.request(dialog.name)
        focus(tab, equal[0].name)
        tab.press("=", "L")
        tab.until(lambda: tab.find('[data-form="always"]').count() == 1, "the question before the rule")
        assert "Always allow this" in tab.find("dialog").inner_text()
        tab.press("Escape")
        tab.until(lambda: tab.find("dialog").count() == 0, "no dialog")
        assert focused(tab) == equal[0].name


def test_list_is_not_answered_when_it_has_just_appeared(stage: Stage, visitor: Visitor) -> None:
    """The page's clock stands still, so the half second never passes by itself."""
    equal = asks(stage, "make", "a", "b")
    with visitor.tab() as tab:
        for dialog in equal:
            tab.request(dialog.name)
        focus(tab, equal[0].name)
        tab.press("=")
        tab.page.evaluate(STILL)
        tab.press("a")
        tab.until(lambda: tab.find("[data-batch]").count() == 2, "the list")
        tab.find('[data-act="do-batch"]').click(force=True)
        tab.shows("Too early")
        assert all(dialog.request["answer"] is None for dialog in equal)


def test_request_that_was_answered_meanwhile_stays_with_its_reason(stage: Stage, visitor: Visitor) -> None:
    first, second = asks(stage, "make", "a", "b")
    with visitor.tab() as tab:
        for dialog in (first, second):
            tab.request(dialog.name)
        focus(tab, first.name)
        tab.press("=", "a")
        tab.until(lambda: tab.find("[data-batch]").count() == 2, "the list")
        denial = stage.start_command("deny", second.name)
        assert behaviour(second) == "deny"
        denial.communicate()
        tab.until(lambda: "no longer open" in tab.find("dialog").inner_text(), "the reason")
        do = tab.find('[data-act="do-batch"]')
        tab.until(lambda: do.get_attribute("aria-disabled") == "false", "the button is alive")
        do.click()
        assert behaviour(first) == "allow"
        tab.shows("1 approved, 1 failed")
        assert "no longer open" in tab.find(f'[data-batch="{second.name}"]').inner_text()


def test_selection_is_made_with_keys_and_with_the_pointer(stage: Stage, visitor: Visitor) -> None:
    found = asks(stage, "make", "a", "b", "c", "d")
    names = [dialog.name for dialog in found]
    with visitor.tab() as tab:
        for name in names:
            tab.request(name)

        def chosen() -> list[str]:
            marked: list[str] = tab.find(".need.selected").evaluate_all(
                "lines => lines.map((line) => line.dataset.need)"
            )
            return marked

        focus(tab, names[0])
        tab.press("x", "j", "j", "Shift+X")
        tab.until(lambda: chosen() == names[:3], "a range by keys")
        tab.press("Escape")
        tab.until(lambda: chosen() == [], "no selection")
        line(tab, names[1]).locator("input").click()
        line(tab, names[3]).locator("input").click(modifiers=["Shift"])
        tab.until(lambda: chosen() == names[1:], "a range with the pointer")
        tab.press("d")
        tab.until(lambda: tab.find("dialog textarea").count() == 1, "the reason for all")
        tab.page.keyboard.type("not now")
        do = tab.find('[data-act="do-batch"]')
        tab.until(lambda: do.get_attribute("aria-disabled") == "false", "the button is alive")
        tab.press("Enter")
        assert [behaviour(dialog) for dialog in found[1:]] == ["deny"] * 3
        assert found[0].request["answer"] is None


# Failures and results


def test_failures_and_results_are_lines_of_the_queue_and_are_marked_as_seen_together(
    stage: Stage, visitor: Visitor
) -> None:
    failed = [
        stage.spawn("Sh", f"echo boom; {SHOWN}; exit 3", "--name", name)["session_id"]
        for name in ("f1", "f2")
    ]
    done = [stage.agent("Plain", "--name", name) for name in ("d1", "d2")]
    for session_id in failed:
        stage.ended(session_id)
    for agent in done:
        stage.sm("complete", "all tests pass", env=stage.as_session(agent.id))
    with visitor.tab() as tab:
        tab.shows("Needs you: 2; done, not seen yet: 2", "all tests pass")
        assert lines(tab) == [*(f"failed {i}" for i in failed), *(f"done {agent.id}" for agent in done)]
        tab.until(
            lambda: line(tab, f"failed {failed[0]}").locator('[data-act="restore"]').count() == 1, "restore"
        )
        tab.find('[data-act="seen-failed"]').click()
        tab.shows("Nothing needs you")
        assert "done, not seen yet: 2" in tab.find("#needs-title").inner_text()
        tab.find('[data-act="seen-done"]').click()
        tab.hides("done, not seen yet")
        tab.page.mouse.move(5, 5)
        tab.until(lambda: lines(tab) == [], "an empty queue")
        box = tab.find(".needs").bounding_box()
        assert box is not None and box["height"] < 45


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_queue_has_no_violations_of_accessibility(
    stage: Stage, visitor: Visitor, size: tuple[int, int]
) -> None:
    skip_without(AXE.exists(), "axe-core")
    equal = asks(stage, "make", "a", "b")
    dialog = stage.agent().open_dialog("AskUserQuestion", {"questions": [QUESTION]})
    edit = stage.agent().open_dialog("Edit", EDIT)
    with visitor.tab(size, color_scheme="light") as tab:
        tab.request(dialog.name)
        line(tab, dialog.name).locator(".need-open").click()
        tab.request(edit.name).locator('[data-act="deny"]').click()
        line(tab, equal[0].name).focus()
        tab.press("=")
        tab.until(lambda: tab.find(".batch").count() == 1, "the selection")
        assert tab.violations() == []
        tab.press("a")
        do = tab.find('[data-act="do-batch"]')
        tab.until(lambda: do.count() == 1 and do.get_attribute("aria-disabled") == "false", "the list")
        assert tab.violations() == []
