"""The page of `sm web` in a real browser, with a real server, daemon and tmux. The test plays the hooks of agents."""

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, WebSocketRoute

import sm.web
from sm.client.http import Client
from sm.core.lifecycle import is_live
from sm.core.statuses import Status
from sm.core.timestamps import iso
from tests.browser import AXE, DESKTOP, PHONE, SCHEMES, Scheme, Tab, Visitor, shared_chromium, skip_without
from tests.fixtures import context_fixture
from tests.instance import SHOWN, Instance
from tests.integration.played_claude import Stage
from tests.web_server import SHELL, WebServer, web_server

pytestmark = pytest.mark.browser

STATIC = Path(sm.web.__file__).with_name("static")
ALLOWED = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
ATTACK = "<img src=x onerror=\"document.title='owned'\">"
STILL = "() => { const now = performance.now(); performance.now = () => now; }"
"""Stops the clock of the page."""
QUESTION = {
    "question": "Which size?",
    "header": "Size",
    "options": [{"label": "Large", "description": "l"}, {"label": "Tiny", "description": "t"}],
    "multiSelect": False,
}


def add_history(instance: Instance, session_id: str, copies: int) -> None:
    """Let a session have ended long ago, and so many copies of it, each a minute before the other."""
    instance.kill_daemon()
    with closing(sqlite3.connect(instance.state / "sm.db")) as db:
        for number in range(copies + 1):
            at = iso((datetime.now(UTC) - timedelta(days=9, minutes=number)).timestamp())
            db.execute("CREATE TEMP TABLE copy AS SELECT * FROM sessions WHERE id = ?", (session_id,))
            times = dict.fromkeys(("created_at", "started_at", "status_at", "completed_at", "seen_at"), at)
            own = {
                "id": f"{number:08x}",
                "name": f"sleeper-{number:08x}",
                "completion_message": f"wrote file{number}.",
            }
            values = {**times, **(own if number else {})}
            changes = ", ".join(f"{name} = ?" for name in values)
            db.execute(f"UPDATE copy SET {changes}", (*values.values(),))  # noqa: S608 - constant names
            db.execute("INSERT OR REPLACE INTO sessions SELECT * FROM copy")
            db.execute("DROP TABLE copy")
        db.commit()
    instance.start_daemon()


def action(tab: Tab, name: str) -> Locator:
    """The button of an action in the head of a session. The menu is opened if the button is there."""
    button = tab.find(f'.session [data-act="{name}"]')
    tab.until(lambda: button.count() == 1, f"{name} is possible")
    if not button.is_visible():
        tab.find(".session-menu summary").click()
    return button


browser = context_fixture("module", shared_chromium.use)
stage = context_fixture("module", Stage)


WORKSPACES = ("mill", "shop", "zoo")


@pytest.fixture(scope="module")
def server(browser: Browser, stage: Stage) -> Iterator[WebServer]:
    """After `browser`, so that a missing browser is found first. The server reads new workspaces rarely."""
    for slug in WORKSPACES:
        (stage.home / slug).mkdir()
        stage.sm("workspace", "create", slug, "--working-dir", str(stage.home / slug))
    with web_server(stage, "--scope", "all") as server:
        yield server


@pytest.fixture(scope="module")
def visitor(browser: Browser, server: WebServer) -> Visitor:
    return Visitor(browser, server)


@pytest.fixture(autouse=True)
def emptied(stage: Stage) -> Iterator[None]:
    """Empty the list behind each test: the page draws only the rows that are in sight."""
    yield
    client = Client(str(stage.socket))
    sessions = client.get("/v1/sessions")
    live = [session["session_id"] for session in sessions if is_live(Status(session["status"]))]
    for session_id in live:
        client.post(f"/v1/sessions/{session_id}/kill", {"force": True})
    for session_id in live:
        stage.ended(session_id)
    for session in sessions:
        client.post(f"/v1/sessions/{session['session_id']}/archive", {})


# The login


def test_link_logs_in_one_browser_once(
    browser: Browser, stage: Stage, server: WebServer, visitor: Visitor
) -> None:
    second = browser.new_context()
    tab = Tab(second, server.link)  # `visitor` has used it
    tab.is_in_phase("login")
    assert "The link did not work" in tab.text()
    assert tab.page.evaluate("Object.keys(localStorage)") == []
    second.close()
    with visitor.tab() as tab:
        assert tab.page.url == f"{server.origin}/"
        assert tab.context.cookies() == []
        tab.page.reload()
        tab.is_in_phase("live")


def test_page_with_a_login_that_is_not_valid_asks_for_another_one(
    browser: Browser, server: WebServer
) -> None:
    storage = [{"name": "sm.token", "value": "0" * 43}]
    state: Any = {"cookies": [], "origins": [{"origin": server.origin, "localStorage": storage}]}
    context = browser.new_context(storage_state=state)
    tab = Tab(context, server.origin)
    tab.is_in_phase("login")
    assert "This login is not valid any more." in tab.text()
    context.close()


def test_page_offers_to_load_again_when_a_module_is_lost(visitor: Visitor, server: WebServer) -> None:
    with visitor.tab() as tab:
        tab.page.route("**/state.js", lambda route: route.abort("internetdisconnected"))
        tab.page.goto(f"{server.origin}/?again")
        tab.shows("A part of this page could not be loaded.")
        tab.page.unroute("**/state.js")
        tab.page.get_by_text("Load it again").click()
        tab.is_in_phase("live")


def test_lost_page_of_a_session_offers_to_load_the_session_that_is_open(
    stage: Stage, visitor: Visitor
) -> None:
    ids = [stage.spawn("Sh", "exec sleep 1000", "--name", name)["session_id"] for name in ("one", "two")]
    with visitor.tab() as tab:
        tab.page.route("**/session.js", lambda route: route.abort("internetdisconnected"))
        for session_id in ids:
            tab.open(f"#/s/{session_id}/why")
            tab.shows("A part of this page could not be loaded.")
            address = tab.page.get_by_text("Load it again").evaluate("link => link.href")
            assert address.endswith(f"#/s/{session_id}/why")
        tab.page.unroute("**/session.js")
        tab.page.get_by_text("Load it again").click()
        tab.until(lambda: tab.find(f'.session[data-session="{ids[1]}"]').count() == 1, "its page")


def test_page_of_a_withdrawn_login_shows_nothing_more(browser: Browser, instance: Instance) -> None:
    instance.spawn("Sleeper", "x", "--name", "login")
    with web_server(instance, "--name", "wall") as server:
        context = browser.new_context()
        tab = Tab(context, server.link)
        tab.shows("sleeper-login")
        instance.sm("web", "revoke", "wall")
        tab.is_in_phase("login")
        assert "sleeper-login" not in tab.text()
        context.close()


# What the page shows


def test_page_shows_the_tree_and_follows_changes(stage: Stage, visitor: Visitor) -> None:
    parent = stage.spawn("Sh", "exec sleep 1000", "--name", "parent")["session_id"]
    child = stage.spawn("Sh", "exec sleep 1000", "--name", "child", "--parent", parent)["session_id"]
    with visitor.tab() as tab:
        tab.shows("sh-parent", "sh-child")
        assert tab.row(child).get_attribute("aria-level") == "2"
        stage.sm("note", "half done", env=stage.as_session(child))
        tab.until(lambda: "half done" in tab.row(child).inner_text(), "the note")
        tab.row(parent).locator(".twisty").click()
        tab.until(lambda: tab.row(child).count() == 0, "the child is folded away")
        tab.row(parent).locator(".twisty").click()
        tab.until(lambda: tab.row(child).count() == 1, "the child is shown again")
        tab.press("/")
        tab.page.keyboard.type("half done")
        tab.until(lambda: tab.order() == [child], "only the child matches")
        tab.press("Escape")
        tab.until(lambda: parent in tab.order(), "the filter is dropped")
        stage.sm("kill", parent, "--tree", "--force")
        tab.until(lambda: "killed" in tab.row(child).inner_text(), "the new status")


def test_texts_of_agents_are_text(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", f"echo '{ATTACK}'; exec sleep 1000", "--name", "hostile")["session_id"]
    stage.sm("note", ATTACK, env=stage.as_session(agent))
    stage.sm("checkpoint", ATTACK, env=stage.as_session(agent))
    asker = stage.agent()
    dialog = asker.open_dialog("Bash", {"command": f"{ATTACK}\N{RIGHT-TO-LEFT OVERRIDE}"})
    with visitor.tab() as tab:
        tab.until(lambda: tab.row(agent).count() == 1, "the row")
        tab.until(lambda: ATTACK in tab.row(agent).inner_text(), "the note")
        assert f"{ATTACK}<U+202E>" in tab.request(dialog.name).inner_text()
        for place in ("events", "why", "messages", "requests", "children", "actions"):
            tab.open(f"#/s/{agent}/{place}")
        for place in ("events", "timeline", "spend"):
            tab.open(f"#/{place}")
        assert tab.find("img").count() == 0
        assert "owned" not in tab.page.title()
    stage.sm("kill", agent, asker.id, "--force")


def test_rows_hold_still_while_the_pointer_is_on_the_list(stage: Stage, visitor: Visitor) -> None:
    first = stage.spawn("Sh", "exec sleep 1000", "--name", "zeta")["session_id"]
    other = stage.spawn("Sh", "exec sleep 1000", "--name", "beta")["session_id"]
    with visitor.tab() as tab:
        tab.until(lambda: {first, other} <= set(tab.order()), "both rows")
        tab.find(".tools select").select_option("name")
        tab.until(lambda: tab.order().index(other) < tab.order().index(first), "the order by name")
        before = tab.order()
        tab.row(first).hover()
        second = stage.spawn("Sh", "exec sleep 1000", "--name", "aaa")["session_id"]
        tab.shows("1 new")
        assert tab.order() == before
        tab.page.mouse.move(5, 5)
        tab.until(lambda: second in tab.order(), "the new row, when the list rests")
    stage.sm("kill", first, other, second, "--force")


def test_workspaces_switch_while_the_network_is_off(stage: Stage, visitor: Visitor) -> None:
    inside = stage.spawn("Sh", "exec sleep 1000", "--name", "inside", "--workspace", "shop")["session_id"]
    outside = stage.spawn("Sh", "exec sleep 1000", "--name", "outside")["session_id"]
    with visitor.tab() as tab:
        tab.until(lambda: {inside, outside} <= set(tab.order()), "both")
        tab.context.set_offline(True)
        tab.is_in_phase("lost")
        assert "what you see is" in tab.find(".lost").inner_text()
        tab.find('.chip:has-text("shop")').click()
        tab.until(lambda: tab.order() == [inside], "the workspace")
        tab.press("0")
        tab.until(lambda: outside in tab.order(), "all sessions")
        tab.context.set_offline(False)
        tab.is_in_phase("live")
        assert tab.find(".lost").count() == 0
        tab.find('.chip:has-text("shop")').click()
        tab.until(lambda: tab.order() == [inside], "the workspace")
        tab.context.set_offline(True)
        tab.is_in_phase("lost")
        tab.press("0")
        tab.until(
            lambda: {inside, outside} <= set(tab.order()), "all sessions, also without the server's order"
        )
        tab.context.set_offline(False)
        tab.is_in_phase("live")
    stage.sm("kill", inside, outside, "--force")


def test_sessions_below_one_are_listed_in_every_order_and_workspace(stage: Stage, visitor: Visitor) -> None:
    spawn = ("Sh", "exec sleep 1000", "--workspace", "shop", "--name")
    lead = stage.spawn(*spawn, "lead")["session_id"]
    inner = stage.spawn(*spawn, "inner", "--parent", lead)["session_id"]
    innermost = stage.spawn(*spawn, "innermost", "--parent", inner)["session_id"]
    with visitor.tab(place=f"#/s/{lead}/children") as tab:
        names = tab.find(".panel li a")
        below = ["sh-inner", "sh-innermost"]

        def shown() -> list[str]:
            return [name.split()[-1] for name in names.all_inner_texts()]

        tab.until(lambda: shown() == below, "the sessions below it")
        tab.find(".tools select").select_option("age")
        tab.find('.chip:has-text("zoo")').click()
        tab.until(lambda: tab.order() == [], "another workspace")
        assert sorted(shown()) == below
        action(tab, "kill").click()
        tab.until(
            lambda: tab.find('[data-act="kill-tree"]').inner_text() == "Kill it and the 2 below",
            "the question",
        )
        tab.press("Escape")
        tab.find('.chip:has-text("All")').click()
        tab.find(".tools select").select_option("tree")
        tab.until(lambda: lead in tab.order(), "all sessions")
    stage.sm("kill", innermost, inner, lead, "--force")


def test_timeline_gives_the_numbers_of_a_span_with_keys(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", "exec sleep 1000", "--name", "drawn")["session_id"]
    stage.sm("checkpoint", "half of it", env=stage.as_session(agent))
    with visitor.tab() as tab:
        tab.until(lambda: tab.row(agent).count() == 1, "the row")
        tab.press("T")
        tab.until(lambda: "sh-drawn" in tab.find(".lane-name").all_text_contents(), "the lane")
        names = tab.find(".lane-name").all_text_contents()
        words = tab.find(".lane-box figcaption")
        tab.find(".lane-box").focus()
        # The parts of the lanes above may be older than all of this lane.
        tab.press("ArrowDown", *["ArrowDown"] * names.index("sh-drawn"), *["ArrowRight"] * 5)
        tab.until(lambda: "sh-drawn: checkpoint at " in words.inner_text(), "the newest mark")
        assert words.inner_text().endswith('"half of it"')
        tab.press("ArrowLeft")
        tab.until(lambda: "sh-drawn: running for " in words.inner_text(), "the span before it")
        assert words.inner_text().endswith(" to now: the process started")
    stage.sm("kill", agent, "--force")


def test_brackets_and_the_palette_choose_a_workspace(stage: Stage, visitor: Visitor) -> None:
    chosen = '.chip[aria-pressed="true"]'
    with visitor.tab() as tab:
        tab.shows("zoo")
        tab.press("[")
        tab.until(lambda: "zoo" in tab.find(chosen).inner_text(), "the last workspace")
        tab.press("]")
        tab.until(lambda: "All" in tab.find(chosen).inner_text(), "all sessions")
        tab.press("Control+k")
        tab.page.keyboard.type("workspace mill")
        tab.until(lambda: tab.find("#choices li").count() == 1, "one entry")
        assert "sm ls --all --workspace mill" in tab.find("#choices").inner_text()
        tab.press("Enter")
        tab.until(lambda: "mill" in tab.find(chosen).inner_text(), "the workspace")


# What needs a person


def test_request_is_approved_in_place(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent()
    with visitor.tab() as tab:
        tab.until(lambda: tab.row(agent.id).count() == 1, "the agent")
        dialog = agent.open_dialog("Bash", {"command": "make install"})
        dialog.start_wait()
        entry = tab.request(dialog.name)
        assert "make install" in entry.inner_text()
        # An earlier test may have left a message that did not arrive.
        tab.until(lambda: re.fullmatch(r"\([1-9]\) sm", tab.page.title()), "the count")
        assert "make install" in tab.find("#speaker").inner_text()
        entry.locator('[data-act="approve"]').click()
        assert dialog.take_decision() == ALLOWED
        tab.until(
            lambda: tab.find(f'.needs li:not(.passed)[data-need="{dialog.name}"]').count() == 0, "it is over"
        )


def test_message_to_the_operator_is_marked_as_read_in_place(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent()
    sent = stage.json("send", "operator", "half <b> is done", env={"SM_SESSION_ID": agent.id})
    with visitor.tab() as tab:
        entry = tab.find(f'.needs li:not(.passed)[data-need="message {sent["message_id"]}"]')
        tab.until(lambda: entry.count() == 1, "the message")
        assert "to you: half <b> is done" in entry.inner_text()
        read = entry.locator('[data-act="read"]')
        tab.until(lambda: read.get_attribute("aria-disabled") == "false", "the button")
        read.click()
        tab.until(lambda: entry.count() == 0, "it is read")
    assert sent["message_id"] not in [m["message_id"] for m in stage.json("inbox")]


def test_request_is_denied_with_words_by_keyboard_only(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "rm -rf /"})
    dialog.start_wait()
    with visitor.tab() as tab:
        tab.request(dialog.name)
        tab.press("N")
        while tab.page.evaluate("document.activeElement.dataset.need") != dialog.name:
            tab.press("j")
        tab.press("d")
        tab.page.keyboard.type("not that one")
        tab.press("Control+Enter")
        decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
        assert decision["behavior"] == "deny"
        assert "not that one" in decision["message"]


def test_question_is_answered_with_an_option(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("AskUserQuestion", {"questions": [QUESTION]})
    dialog.start_wait()
    with visitor.tab(PHONE, has_touch=True) as tab:
        entry = tab.request(dialog.name)
        entry.locator(".option").nth(1).tap()
        decision = dialog.take_decision()
        assert "Tiny" in json.dumps(decision)


def test_page_says_who_was_faster(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    with visitor.tab() as tab:
        entry = tab.request(dialog.name)
        approval = stage.start_command("approve", dialog.name)
        assert dialog.take_decision() == ALLOWED
        tab.until(lambda: "by operator" in entry.inner_text(), "who answered")
        approval.communicate()


def test_request_that_changes_under_the_finger_is_not_decided(stage: Stage, visitor: Visitor) -> None:
    """The test changes the digest in the frames on their way to the page."""
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    frames: list[tuple[WebSocketRoute, dict[str, Any]]] = []

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
        button = tab.request(dialog.name).locator('[data-act="approve"]')
        button.hover()
        tab.page.mouse.down()
        route, frame = frames[-1]
        words = {"digest": "0" * 64, "text": "Bash rm -rf /"}
        needs = [need | words if need["key"] == dialog.name else need for need in frame["needs"]]
        changed = {"snapshot": False, "rows": {}, "gone": [], "needs": needs}
        route.send(json.dumps(frame | changed))
        entry = tab.find(f'[data-need="{dialog.name}"]')
        tab.until(lambda: "rm -rf /" in entry.inner_text(), "the other request")
        tab.request(dialog.name)
        tab.page.mouse.up()
        tab.shows(f"{dialog.name} changed while you pressed")
        assert dialog.request["state"] == "open" and dialog.request["answer"] is None
    stage.sm("kill", agent.id, "--force")


def test_button_is_dead_when_its_request_has_just_appeared(stage: Stage, visitor: Visitor) -> None:
    """The page's clock stands still, so the half second never passes by itself."""
    agent = stage.agent()
    with visitor.tab() as tab:
        tab.until(lambda: tab.row(agent.id).count() == 1, "the agent")
        tab.page.evaluate(STILL)
        dialog = agent.open_dialog("Bash", {"command": "make"})
        entry = tab.find(f'[data-need="{dialog.name}"]')
        tab.until(lambda: entry.count() == 1, "the request")
        assert entry.get_attribute("data-dead") == "true"
        entry.locator('[data-act="approve"]').click(force=True)
        tab.shows(f"too early: {dialog.name}")
        assert dialog.request["answer"] is None
    stage.sm("kill", agent.id, "--force")


def test_login_that_may_only_look_decides_nothing(browser: Browser, stage: Stage, server: WebServer) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    context = browser.new_context()
    tab = Tab(context, stage.sm("web", "link", "--scope", "look").split()[0])
    button = tab.request(dialog.name).locator('[data-act="approve"]')
    assert button.get_attribute("aria-disabled") == "true"
    assert button.get_attribute("title") == "this login may not: its scope is look"
    button.click(force=True)
    tab.shows("not possible: this login may not")
    assert dialog.request["answer"] is None
    context.close()
    stage.sm("kill", agent.id, "--force")


# A session


def test_message_to_a_session_is_shown_with_its_true_state(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    with visitor.tab(place=f"#/s/{agent.id}/messages") as tab:
        tab.until(lambda: tab.find(".compose").count() == 1, "the form")
        tab.find(".compose textarea").fill("and then the tests")
        tab.page.reload()
        tab.is_in_phase("live")
        assert tab.find(".compose textarea").input_value() == "and then the tests"
        tab.shows(f"held until {dialog.name} is answered (permission dialog)")
        send = tab.find('.compose [data-act="send"]')
        send.click()
        held = tab.find('[data-state="queued"]')
        tab.until(lambda: held.count() == 1 and "dialog" in held.inner_text(), "the message is held")
        tab.until(lambda: tab.find(".compose textarea").input_value() == "", "the draft is gone")
    assert dialog.request["state"] == "open"
    stage.sm("kill", agent.id, "--force")


def test_page_of_a_session_that_is_not_in_the_list_opens(stage: Stage, visitor: Visitor) -> None:
    lead = stage.spawn("Sh", "exec sleep 1000", "--name", "oldest")["session_id"]
    child = stage.spawn("Sh", "exit 0", "--name", "grown", "--parent", lead)["session_id"]
    other = stage.spawn("Sh", "exit 0", "--name", "other")["session_id"]
    stage.ended(child)
    stage.sm("kill", lead, "--force")
    for session_id in (lead, child, other):
        stage.ended(session_id)
        stage.sm("archive", session_id)
    with visitor.tab(place=f"#/s/{lead}/peek") as tab:
        tab.shows("oldest", "The process has ended.")
        tab.open(f"#/s/{lead}/children")
        tab.until(lambda: tab.find(f'.panel a[href="#/s/{child}/peek"]').count() == 1, "the child")
        assert tab.order() == []
        tab.open(f"#/s/{other}/why")
        action(tab, "rm").click()
        tab.find('[data-act="do-rm"]').click()
        tab.shows("no such session")
        for unknown in ("00000000", "no%20id", "%", "%E0%A4%A"):
            tab.open("#/")
            tab.hides("no such session")
            tab.open(f"#/s/{unknown}/peek")
            tab.shows("no such session")
        tab.open("#/")
        tab.hides("no such session")


def test_page_of_a_session_that_leaves_the_list_follows_it(stage: Stage, visitor: Visitor) -> None:
    ids = [stage.spawn("Sh", "exit 0", "--name", name)["session_id"] for name in ("put-away", "removed")]
    for session_id in ids:
        stage.ended(session_id)
    put_away, removed = ids
    with visitor.tab() as tab:
        tab.until(lambda: set(ids) <= set(tab.order()), "both are listed")
        tab.open(f"#/s/{put_away}/why")
        stage.sm("archive", put_away)
        tab.until(lambda: tab.find('.acts [data-act="unarchive"]').count() == 1, "it is archived")
        stage.sm("rename", put_away, "dusty")
        tab.shows("dusty")
        stage.sm("rm", put_away)
        tab.shows("no such session")
        tab.open(f"#/s/{removed}/why")
        tab.hides("no such session")
        stage.sm("rm", removed)
        tab.shows("no such session")


def test_terminal_is_shown_as_text_of_the_page(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", f"printf '\\033[1;31mred {ATTACK}\\033[0m'; exec sleep 1000")["session_id"]
    with visitor.tab(place=f"#/s/{agent}/peek") as tab:
        tab.until(lambda: "red <img" in tab.find(".screen").inner_text(), "the screen")
        assert tab.find(".screen .t-bold").first.inner_text().startswith("red")
        stage.sm("kill", agent, "--force")
        tab.until(lambda: tab.find(".panel .hint").count() == 1, "the last output")
        assert "red <img" in tab.find(".screen").inner_text()


def test_terminal_page_types_into_the_agent(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", SHELL, "--name", "typed")["session_id"]
    with visitor.tab(place=f"#/s/{agent}/peek") as tab:
        button = action(tab, "attach")
        with tab.context.expect_page() as opened:
            button.click()
        terminal = Tab(tab.context, opened.value)
        terminal.is_in_phase("attached")
        assert terminal.page.title() == "sh-typed - sm terminal"
        terminal.page.keyboard.type("echo $((6 * 7))typed\n")
        terminal.until(lambda: "42typed" in terminal.find(".xterm-rows").inner_text(), "the output")
        terminal.page.set_viewport_size({"width": 700, "height": 500})

        def fits() -> bool:
            shown = "#{window_width} #{window_height}"
            size = stage.tmux("display-message", "-p", "-t", f"=command-{agent}:", shown).split()
            return int(size[0]) < 100 and int(size[1]) < 40

        terminal.until(fits, "the new size")
        terminal.press("F6")
        terminal.until(lambda: terminal.find("#detach:focus").count() == 1, "F6 leaves the terminal")
        terminal.press("Enter")
        terminal.is_in_phase("over")
        assert "Detached. The agent keeps running." in terminal.text()
        terminal.find("#again").click()
        terminal.is_in_phase("attached")
        terminal.page.keyboard.type("exit\n")
        terminal.is_in_phase("over")
        assert "The session has ended." in terminal.text()
        assert terminal.problems == []
        tab.until(lambda: button.count() == 0, "nothing is there to attach to")


def test_terminal_page_is_for_logins_with_all_rights_and_not_for_touch(
    browser: Browser, stage: Stage, server: WebServer, visitor: Visitor
) -> None:
    agent = stage.spawn("Sh", "exec sleep 1000")["session_id"]
    with visitor.tab(PHONE, f"#/s/{agent}/peek", has_touch=True, is_mobile=True) as tab:
        tab.until(lambda: tab.find('.acts [data-act="kill"]').count() == 1, "the buttons")
        assert tab.find('.acts [data-act="attach"]').count() == 0
        tab.page.goto(f"{server.origin}/attach#{agent}")
        tab.is_in_phase("over")
        assert "A terminal needs a keyboard" in tab.text()
    context = browser.new_context()
    tab = Tab(context, stage.sm("web", "link", "--scope", "answer").split()[0])
    tab.is_in_phase("live")
    tab.open(f"#/s/{agent}/peek")
    reason = tab.find('.session-menu [data-why="attach"]')
    tab.until(lambda: reason.count() == 1, "the reason")
    tab.find(".session-menu summary").click()
    assert "this login may not: its scope is answer" in reason.inner_text()
    assert tab.find('.acts [data-act="attach"]').count() == 0
    tab.page.goto(f"{server.origin}/attach#{agent}")
    tab.is_in_phase("over")
    assert "it needs the scope all" in tab.text()
    assert tab.problems == []
    context.close()
    other = browser.new_context()
    tab = Tab(other, f"{server.origin}/attach#{agent}")
    tab.is_in_phase("over")
    assert "This browser has no login" in tab.text()
    other.close()
    stage.sm("kill", agent, "--force")


def test_large_terminal_is_scrolled_inside_its_region(stage: Stage, visitor: Visitor) -> None:
    script = (
        "until stty size | grep -q ' 500$'; do sleep 0.1; done; seq -s ' ' 1000 | cut -c-499; exec sleep 1000"
    )
    agent = stage.spawn("Sh", script)["session_id"]
    stage.tmux("resize-window", "-t", f"command-{agent}", "-x", "500", "-y", "200")
    with visitor.tab(place=f"#/s/{agent}/peek") as tab:
        tab.until(lambda: " 150 151 " in tab.find(".screen").inner_text(), "the whole line")
        assert tab.page.evaluate("document.documentElement.scrollWidth") == DESKTOP[0]
        assert tab.find(".screen").evaluate("screen => screen.scrollWidth > screen.clientWidth")
    stage.sm("kill", agent, "--force")


def test_ended_session_is_archived_and_brought_back_by_keys(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", "exit 0", "--name", "over")["session_id"]
    stage.ended(agent)
    with visitor.tab() as tab:
        tab.until(lambda: tab.row(agent).count() == 1, "the row")
        tab.find("#treegrid").focus()
        for _ in range(len(tab.order())):
            if tab.row(agent).get_attribute("aria-selected") == "true":
                break
            tab.press("j")
        tab.press("Enter")
        action(tab, "archive")
        tab.page.evaluate(STILL)  # the undo is possible for 5 seconds
        tab.press("x")
        tab.until(lambda: tab.find('[data-act="undo"]').count() == 1, "the bar")
        tab.press("u")
        tab.until(lambda: stage.session(agent)["archived"] is False, "it is back")
        tab.until(lambda: tab.row(agent).count() == 1, "its row")


def test_agent_is_renamed_with_the_form_of_the_page(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", "exec sleep 1000", "--name", "formed")["session_id"]
    with visitor.tab() as tab:
        tab.open(f"#/s/{agent}/why")
        action(tab, "rename").click()
        name = tab.find('[data-form="rename"] [name="name"]')
        tab.until(lambda: name.count() == 1, "the form")
        assert name.input_value() == "formed"
        name.fill("renamed")
        tab.press("Enter")
        tab.until(lambda: "renamed" in tab.find("#session-title").inner_text(), "the new name")
    stage.sm("kill", agent, "--force")


def test_kill_asks_and_names_what_ends(stage: Stage, visitor: Visitor) -> None:
    parent = stage.spawn("Sh", "exec sleep 1000", "--name", "top")["session_id"]
    child = stage.spawn("Sh", "exec sleep 1000", "--name", "below", "--parent", parent)["session_id"]
    with visitor.tab(place=f"#/s/{parent}/why") as tab:
        tab.until(lambda: tab.find('.acts [data-act="kill"]').count() == 1, "kill is possible")
        tab.find("#session-title").focus()
        tab.press("Shift+K")
        tab.until(lambda: "sh-below" in tab.find("dialog").inner_text(), "the question")
        tab.press("Escape")
        tab.until(lambda: tab.find("dialog").count() == 0, "no question")
        assert stage.session(parent)["status"] == "running"
        tab.press("Control+k")
        tab.page.keyboard.type("kill")
        tab.press("Enter")
        tab.find('[data-act="kill-tree"]').click()
        assert stage.ended(child)["status"] == "killed"
        assert stage.ended(parent)["status"] == "killed"


# Sessions that are not in the list


def test_sessions_that_ended_earlier_are_shown_by_page(browser: Browser, instance: Instance) -> None:
    instance.start_daemon()
    first = instance.spawn("Sleeper", "x", "--name", "login")["session_id"]
    instance.sm("kill", first, "--force")
    instance.ended(first)
    add_history(instance, first, 119)
    with web_server(instance, "--scope", "all") as server, Visitor(browser, server).tab() as tab:
        tab.shows("No sessions here.", "120 sessions ended earlier")
        tab.press("/")
        tab.page.keyboard.type("login")
        tab.shows("No session matches the filter.", "The filter does not search 120 sessions")
        tab.press("Escape")
        tab.find(".earlier a").click()
        entries = tab.find(".panel [data-session]")
        tab.until(lambda: entries.count() == 50, "the first page")
        more = tab.find('.panel button:has-text("left")')
        assert "70 left" in more.inner_text()
        more.click()
        tab.until(lambda: entries.count() == 100, "the second page")
        more.click()
        tab.until(lambda: entries.count() == 120 and more.count() == 0, "the last page")
        times = tab.find(".panel time").evaluate_all("times => times.map((time) => time.dateTime)")
        assert times == sorted(times, reverse=True)
        assert len({*times}) == 120
        search = tab.find(".page-head input")
        search.fill("file57.")
        tab.until(lambda: entries.count() == 1, "the session that the search finds")
        entries.locator("a").click()
        tab.shows("login", "wrote file57.")
        tab.page.go_back()
        tab.until(lambda: entries.count() == 1 and search.input_value() == "file57.", "the search is kept")
        instance.sm("rm", "--yes", first)
        search.fill("")
        tab.until(lambda: "69 left" in more.inner_text(), "the number without the removed session")


# Outages


def test_page_greys_what_it_shows_while_the_daemon_is_away(browser: Browser, instance: Instance) -> None:
    instance.start_daemon()
    agent = instance.spawn("Sleeper", "x", "--name", "login")["session_id"]
    with web_server(instance, "--scope", "all") as server, Visitor(browser, server).tab() as tab:
        tab.until(lambda: tab.row(agent).count() == 1, "the row")
        instance.kill_daemon()
        tab.until(lambda: tab.find('.main[data-stale="true"]').count() == 1, "greyed rows")
        tab.shows("no daemon", "old; connecting again", "To start it: sm daemon start", "sleeper-login")
        instance.start_daemon()
        tab.until(lambda: tab.find('.main[data-stale="false"]').count() == 1, "fresh rows")
        assert tab.order() == [agent]


def test_page_says_what_the_server_cannot_show(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", "exec sleep 1000", "--name", "login")["session_id"]
    why = "cannot show all sessions (KeyError: 'status')"
    said = [why]

    def pass_on(route: WebSocketRoute) -> None:
        remote = route.connect_to_server()

        def from_server(message: str | bytes) -> None:
            frame = json.loads(message)
            route.send(json.dumps({**frame, "unshown": said[0]}) if frame["t"] == "board" else message)

        remote.on_message(from_server)

    with visitor.tab() as tab:
        tab.page.route_web_socket("**/ws", pass_on)
        tab.page.reload()
        tab.shows(f"{why}: what you see may be out of date", "sh-login")
        assert tab.find('.main[data-stale="true"]').count() == 1
        said[0] = ""
        stage.sm("note", "goes on", env=stage.as_session(agent))
        tab.hides("cannot show")
        assert tab.find('.main[data-stale="false"]').count() == 1
    stage.sm("kill", agent, "--force")


def test_page_reconnects_when_the_server_comes_back(browser: Browser, instance: Instance) -> None:
    instance.start_daemon()
    agent = instance.spawn("Sleeper", "x", "--name", "login")["session_id"]
    with web_server(instance, "--scope", "all") as server, Visitor(browser, server).tab() as tab:
        tab.until(lambda: tab.row(agent).count() == 1, "the row")
        port = str(server.address.port)
        server.kill()
        tab.is_in_phase("lost")
        tab.shows("no connection to sm web: what you see is", "sleeper-login")
        with web_server(instance, "--port", port):
            tab.is_in_phase("live")
            assert tab.order() == [agent]
            assert tab.find(".lost").count() == 0


def test_ages_are_of_the_daemon_when_the_clock_of_the_browser_is_wrong(
    stage: Stage, visitor: Visitor
) -> None:
    agent = stage.spawn("Sh", "exec sleep 1000", "--name", "young")["session_id"]
    with visitor.tab() as tab:
        for minutes in (-10, 10):
            tab.page.clock.set_system_time(datetime.now(UTC) + timedelta(minutes=minutes))
            tab.page.reload()
            tab.is_in_phase("live")
            tab.until(lambda: re.search(r"running [0-9]+(s|min)\b", tab.row(agent).inner_text()), "its age")
            assert "10min" not in tab.row(agent).inner_text()
    stage.sm("kill", agent, "--force")


# Fingers, screen readers, colours


def small_targets(tab: Tab) -> list[str]:
    """The buttons and fields in sight that are smaller than a finger needs."""
    found = tab.find(
        "button:visible, select:visible, .act:visible, [role=tab]:visible, input[type=search]:visible"
    )
    boxes = [(element.inner_text() or "field", element.bounding_box()) for element in found.all()]
    return [text for text, box in boxes if box is not None and min(box["width"], box["height"]) < 43.9]


def test_page_fits_a_phone(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make " + "x" * 300})
    with visitor.tab(PHONE, has_touch=True, is_mobile=True) as tab:
        tab.request(dialog.name)
        for place in ("#/", f"#/s/{agent.id}/messages", "#/events", "#/spend", "#/timeline"):
            tab.open(place)
            assert tab.page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
            assert small_targets(tab) == []
    stage.sm("kill", agent.id, "--force")


def test_page_fits_a_window_that_is_zoomed_to_200_percent(stage: Stage, visitor: Visitor) -> None:
    """The zoom of a browser halves the size of its window, in pixels of the page."""
    agent = stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make " + "x" * 300})
    with visitor.tab((640, 400), device_scale_factor=2) as tab:
        entry = tab.request(dialog.name)
        for place in (f"#/s/{agent.id}/messages", "#/events", "#/spend", "#/timeline", "#/"):
            tab.open(place)
            assert tab.page.evaluate("document.documentElement.scrollWidth") == 640
        for action in ("approve", "deny"):
            button = entry.locator(f'[data-act="{action}"]')
            button.scroll_into_view_if_needed()
            box = button.bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 640
    stage.sm("kill", agent.id, "--force")


@pytest.mark.parametrize(("size", "schemes"), [(DESKTOP, SCHEMES), (PHONE, ("dark",))])
def test_page_has_no_violations_of_accessibility(
    stage: Stage, visitor: Visitor, size: tuple[int, int], schemes: Sequence[Scheme]
) -> None:
    skip_without(AXE.exists(), "axe-core")
    agent = stage.agent()
    dialog = agent.open_dialog("Edit", {"file_path": "a", "old_string": "b", "new_string": "c"})
    with visitor.tab(size) as tab:
        for place in (
            "#/",
            f"#/s/{agent.id}/peek",
            f"#/s/{agent.id}/why",
            "#/events",
            "#/spend",
            "#/timeline",
            "#/earlier",
        ):
            tab.open(place)
            if place == "#/":
                tab.request(dialog.name)
            assert (place, tab.violations(*schemes)) == (place, [])
    stage.sm("kill", agent.id, "--force")


# What is vendored


@pytest.mark.parametrize("name", ["lit", "xterm", "code", "uplot"])
def test_vendored_modules_are_unchanged(name: str) -> None:
    directory = STATIC / "vendor" / name
    sums = dict(line.split()[::-1] for line in (directory / "SHA256SUMS").read_text().splitlines())
    files = {path.name for path in directory.iterdir()} - {"SHA256SUMS"}
    assert sums == {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in files}
    assert {f"{name}.js", "LICENSE"} <= files


def test_ended_agents_stay_in_sight_until_a_person_has_looked(stage: Stage, visitor: Visitor) -> None:
    failed = stage.spawn("Sh", f"echo KeyError; {SHOWN}; exit 3", "--name", "failed")["session_id"]
    done = stage.agent("Plain", "--name", "done")
    stage.sm("complete", "all tests pass", env=stage.as_session(done.id))
    with visitor.tab() as tab:
        tab.shows('exit code 3: "KeyError"', "done, not seen yet: 1", "all tests pass")
        entry = tab.find(f'[data-need="failed {failed}"]:not(.passed)')
        entry.locator('[data-act="more"]').click()
        tab.find('.need-menu [data-act="archive"]').click()
        tab.until(lambda: entry.count() == 0, "the archived failure needs nobody")
        tab.find(f'[data-need="done {done.id}"] .need-label').click()
        tab.until(lambda: tab.find('.acts [data-act="attach"]').count() == 1, "its page")
        tab.hides("done, not seen yet")
