"""`sm top` with a real daemon: what it shows, and what its keys do."""

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Input

from sm.cli.tui.screens import LinePrompt
from sm.client.http import Client
from sm.client.live_stream import Json
from tests.board.samples import earlier, row_data, update
from tests.cli.tui.view import View, top
from tests.instance import Instance
from tests.session_client import request_as
from tests.waits import until_async

MORE = """
  Inbox: {command: [sh, -c, "while sm inbox --take --wait --json >> read-$SM_SESSION_ID; do :; done"], prompt: file}
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Instance]:
    with Instance(MORE) as instance:
        instance.start_daemon()
        yield instance


@pytest.fixture
def agent(home: Instance) -> Iterator[str]:
    """A session that leaves the list after the test, which must stay short enough for the screens of later tests."""
    session_id = str(home.spawn("Sleeper", "x")["session_id"])
    yield session_id
    leave(home, session_id)


def leave(home: Instance, session_id: str) -> None:
    home.run("kill", session_id, "--force")
    home.run("archive", session_id)


def ask(home: Instance, session_id: str, question: str = "Which way?", *options: str) -> str:
    body = {"question": question, "options": list(options)}
    (answer,) = request_as(home, session_id, ("POST", "/v1/requests", None, body))
    return str(answer[1]["request_id"])


def propose_completion(home: Instance) -> tuple[str, str]:
    """A supervised session that waits for a word, and its request."""
    session_id = home.spawn("Sleeper", "x", "--lifecycle", "supervised")["session_id"]
    request_as(home, session_id, ("POST", "/v1/sessions/me/complete", None, {"message": "all is done"}))
    (request,) = home.json("requests", session_id)
    return session_id, request["request_id"]


def request_of(home: Instance, key: str) -> dict[str, object]:
    found: dict[str, object] = Client(str(home.socket)).get(f"/v1/requests/{key}")
    return found


async def press_until_answered(view: View, home: Instance, key: str, button: str) -> None:
    """Press a button of a page that has just appeared: its keys are dead for a moment."""

    async def is_answered() -> bool:
        await view.press(button)
        return bool(request_of(home, key)["state"] != "open")

    await until_async(is_answered, f"the answer to {key}")


async def test_top_shows_the_tree_and_changes(home: Instance, agent: str) -> None:
    child = home.spawn("Sleeper", "x", "--parent", agent, "--name", "below")["session_id"]
    async with top(home, (120, 40)) as view:
        await view.shows("└─ sleeper-b", "running", "NAME", "TASK")
        request_as(home, child, ("POST", "/v1/sessions/me/note", None, {"text": "half of it"}))
        await view.shows("half of it")
        home.sm("kill", child, "--force")
        await view.shows("killed")
        await view.select(agent)
        await view.press("left")
        await view.hides("sleeper-below")
        await view.shows("▸1")
        await view.press("right")
        await view.shows("└─ sleeper-below")


async def test_digit_answers_the_selected_question(home: Instance, agent: str) -> None:
    key = ask(home, agent, "Which database?", "sqlite", "postgres")
    async with top(home, (140, 40)) as view:
        await view.shows("Needs you:", key, "Which database?")
        await view.select_request(key)
        await view.press("9")
        await view.shows("has 2 options")
        await view.press("2")
        await view.shows(f"done: sm answer {key} 2")
        await view.until(lambda: key not in {need.key for need in view.app.found}, "the request is gone")
    assert request_of(home, key)["answer"] == {"approved": True, "answers": ["postgres"], "message": None}


async def test_digit_shows_options_that_are_not_in_sight_before_it_answers(
    home: Instance, agent: str
) -> None:
    key = ask(home, agent, "Which database?", "sqlite", "postgres")
    async with top(home, (100, 12)) as view:
        await view.select_request(key)
        assert "postgres" not in view.text()
        await view.press("2")
        await view.shows("postgres", f"{key} (Esc: back)")
        assert request_of(home, key)["state"] == "open"
        await press_until_answered(view, home, key, "2")
    assert request_of(home, key)["answer"] == {"approved": True, "answers": ["postgres"], "message": None}


async def test_text_answers_a_question(home: Instance, agent: str) -> None:
    key = ask(home, agent)
    async with top(home) as view:
        await view.select_request(key)
        await view.press("t")
        await view.shows("Which way?\n")
        await view.press(*"left", "enter")
        await view.shows(f"done: sm answer {key} left")


async def test_approve_and_deny_with_words(home: Instance) -> None:
    first, key = propose_completion(home)
    _, other = propose_completion(home)
    async with top(home) as view:
        await view.select_request(key)
        await view.press("a")
        await view.shows(f"done: sm approve {key}")
        await view.select_request(other)
        await view.press("d")
        await view.shows(f"Deny {other} of", "Reason")
        await view.press(*"more", "space", *"tests", "enter")
        await view.shows(f"done: sm deny {other} 'more tests'")
    assert home.session(first)["status"] == "completed"
    answer = request_of(home, other)["answer"]
    assert answer == {"approved": False, "answers": [], "message": "more tests"}


async def test_key_does_not_decide_on_a_request_that_is_not_in_sight(home: Instance) -> None:
    session_id, key = propose_completion(home)
    async with top(home) as view:
        await view.until(lambda: key in {need.key for need in view.app.found}, "the request")
        await view.select(session_id)
        await view.press("a")
        await view.shows(f"{key} is selected; press again")
    assert request_of(home, key)["state"] == "open"


async def test_button_is_dead_when_its_request_has_just_changed(home: Instance) -> None:
    _, key = propose_completion(home)
    async with top(home) as view:
        await view.select_request(key)
        view.app.needs.guard.slide(time.monotonic() + 3600)
        await view.press("a")
        await view.shows("too early")
    assert request_of(home, key)["state"] == "open"


async def test_page_of_a_session_answers_the_request_that_it_shows(home: Instance) -> None:
    session_id, key = propose_completion(home)
    async with top(home, (80, 24)) as view:
        await view.until(lambda: key in {need.key for need in view.app.found}, "the request")
        await view.select(session_id)
        await view.press("enter")
        await view.shows(f"sm approve {key}", "a: approve  d: deny", "[ ]: other tab  ?: keys")
        await view.press("5")
        await view.shows(f"a: go to {key}  ")
        await view.press("1")
        await view.shows("a: approve  d: deny")
        await press_until_answered(view, home, key, "a")
        await view.shows(f"done: sm approve {key}")
    assert home.session(session_id)["status"] == "completed"


async def test_long_request_is_shown_in_full_before_it_is_approved(home: Instance) -> None:
    session_id = home.spawn("Sleeper", "x", "--lifecycle", "supervised")["session_id"]
    body = {"message": f"{'long ' * 220}end-of-it"}
    request_as(home, session_id, ("POST", "/v1/sessions/me/complete", None, body))
    (request,) = home.json("requests", session_id)
    key = request["request_id"]
    async with top(home, (80, 24)) as view:
        await view.select_request(key)
        await view.press("a")
        await view.shows("end-of-it", f"{key} (Esc: back)")
        assert request_of(home, key)["state"] == "open"
        await press_until_answered(view, home, key, "a")
    assert home.session(session_id)["status"] == "completed"


async def test_request_that_does_not_fit_beside_the_list_is_shown_in_full_before_it_is_approved(
    home: Instance,
) -> None:
    session_id = home.spawn("Sleeper", "x", "--lifecycle", "supervised")["session_id"]
    lines = "\n".join(f"line {number}" for number in range(40))
    body = {"message": f"{lines}\nend-of-it"}
    request_as(home, session_id, ("POST", "/v1/sessions/me/complete", None, body))
    (request,) = home.json("requests", session_id)
    key = request["request_id"]
    async with top(home, (140, 30)) as view:
        await view.select_request(key)
        await view.shows("line 5")
        assert "end-of-it" not in view.text()
        for keys in ("a", ("colon", *"approve", "enter")):
            await view.press(*keys)
            await view.shows(f"{key} (Esc: back)")
            await view.press("escape")
            await view.hides(f"{key} (Esc: back)")
    assert request_of(home, key)["state"] == "open"
    leave(home, session_id)


async def test_answer_of_somebody_else_is_told_when_the_request_was_selected(
    home: Instance, agent: str
) -> None:
    key = ask(home, agent)
    async with top(home) as view:
        await view.select_request(key)
        home.sm("answer", key, "right")
        await view.shows(f"{key}: answered by operator: right")


async def test_message_is_sent_and_its_draft_is_kept(home: Instance) -> None:
    reader = home.spawn("Inbox", "x")["session_id"]
    async with top(home) as view:
        await view.select(reader)
        await view.press("s", *"go")
        await view.shows(f"Message to inbox-{reader}", "mode: auto")
        await view.press("ctrl+t")
        await view.shows("mode: idle")
        await view.press("escape")
        await view.shows("?: help")
        await view.press("s")
        await view.press(*"od", "enter")
        await view.shows(f"Input sent to session {reader}")
    (message,) = json.loads((home.work / f"read-{reader}").read_text())
    assert message["text"] == "good"


async def test_message_is_sent_with_the_files_whose_paths_are_entered(home: Instance) -> None:
    reader = home.spawn("Inbox", "x")["session_id"]
    shot = home.home / "shot.png"
    shot.write_bytes(b"a picture")
    async with top(home) as view:
        await view.select(reader)
        await view.press("s", *"look")
        await view.shows("Ctrl-O adds files")
        await view.press("ctrl+o")
        await view.shows("with files, Ctrl-O drops them")
        await view.press("enter")
        await view.shows("Files of the message")
        await view.press(*"none.png", "enter")
        await view.shows("failed:", "none.png")
        await view.press("s")
        await view.shows("look", "Ctrl-O adds files")
        await view.press("ctrl+o", "enter")
        await view.shows("Files of the message")
        view.app.screen.query_one(Input).value = str(shot)
        await view.press("enter")
        await view.shows(f"Input sent to session {reader}")
    (message,) = json.loads((home.work / f"read-{reader}").read_text())
    (copy,) = (home.state / "launch" / f"{reader}.files").glob("*/shot.png")
    assert message["text"] == f"look\n[sm] file 1: {copy} (image/png, 9 bytes)"
    assert list((home.state / "uploads").iterdir()) == []


async def test_words_that_the_daemon_refuses_are_kept_as_a_draft(home: Instance, agent: str) -> None:
    async with top(home) as view:
        await view.select(agent)
        await view.press("s")
        await view.until(lambda: isinstance(view.app.screen, LinePrompt), "the prompt")
        view.app.screen.query_one(Input).value = "go\u202e"
        await view.press("enter")
        await view.shows("failed: ", "U+202E")
        await view.press("s")
        await view.until(lambda: isinstance(view.app.screen, LinePrompt), "the prompt")
        assert view.app.screen.query_one(Input).value == "go\u202e"


async def test_message_to_an_agent_that_does_not_read_is_said_to_be_queued(
    home: Instance, agent: str
) -> None:
    async with top(home, (140, 40)) as view:
        await view.select(agent)
        await view.press("s", *"hello", "enter")
        await view.shows("queued", "✉1")


async def test_kill_asks_before_and_archive_can_be_undone(home: Instance, agent: str) -> None:
    async with top(home) as view:
        await view.select(agent)
        await view.press("K")
        await view.shows(f"Kill sleeper-{agent}?")
        await view.press("escape")
        await view.hides("Kill sleeper")
        assert home.session(agent)["status"] == "running"
        await view.press("x")
        await view.shows("not possible: ", "is live")
        await view.press("K", "y")
        await view.shows(f"done: sm kill {agent}")
        await view.until(lambda: view.app.board.rows[agent].status == "killed", "the row is killed")
        await view.press("x")
        await view.until(lambda: home.session(agent)["archived"], "it is archived")
        await view.shows(f"u: unarchive sleeper-{agent}")
        await view.press("u")
        await view.until(lambda: not home.session(agent)["archived"], "it is in lists again")
        await view.until(lambda: agent in view.app.board.rows, "its row is back")


async def test_filter_selects_while_it_is_typed(home: Instance, agent: str) -> None:
    other = home.spawn("Sleeper", "x", "--title", "the login page")["session_id"]
    async with top(home) as view:
        await view.shows(agent)
        await view.press("/", *"login")
        await view.until(lambda: [line.row.id for line in view.app.board.lines] == [other], "one line")
        await view.press("enter")
        await view.shows("filter: login")
        await view.press("/", *" cost:>", "escape")
        await view.shows("filter: login")
        await view.press("escape")
        await view.hides("filter: login")
        await view.shows(agent)
        await view.press("S")
        await view.shows("order: needs me")


async def test_digits_choose_a_workspace_and_count_what_needs_a_person_elsewhere(home: Instance) -> None:
    for slug in ("blog", "shop"):
        (home.work / slug).mkdir()
        home.sm("workspace", "create", slug, "--working-dir", str(home.work / slug))
    asker = home.spawn("Sleeper", "x", "--workspace", "blog")["session_id"]
    other = home.spawn("Sleeper", "x", "--workspace", "shop")["session_id"]
    key = ask(home, asker)
    async with top(home) as view:
        await view.shows("1 blog", "2 shop", key)
        await view.press("2")
        await view.until(lambda: [line.row.id for line in view.app.board.lines] == [other], "one line")
        await view.shows("1 blog 1!", key)
        await view.press("0")
        await view.shows(asker, other)


async def test_every_region_is_drawn_in_small_and_large_screens(home: Instance, agent: str) -> None:
    key = ask(home, agent, "Which way?", "left", "right")
    async with top(home, (40, 24)) as view:
        await view.shows("Which way?")
        await view.hides("NAME")
        await view.press("tab")
        await view.shows("NAME", f"sleeper-{agent}", "running")
        await view.press("tab")
        await view.shows("Which way?")
        await view.hides("NAME")
        await view.select_request(key)
        for width, height in ((20, 5), (500, 200), (80, 24), (1, 1), (140, 40)):
            await view.pilot.resize_terminal(width, height)
        await view.shows("2: right", f"sleeper-{agent} ({agent})", "Directory:")
        await view.press("?")
        await view.shows("Approve  = sm approve", "Archive  [sleeper-")
        await view.press("escape", ":", *"inter")
        await view.shows("Interrupt (Escape)  [i]")
        await view.press("escape", "c")
        await view.shows(f"copied: sm answer {key} TEXT")
        await view.press("w")
        await view.shows(f"sm why {agent} (Esc: back)", "the process started")


async def test_selection_stays_in_sight_in_a_long_list(home: Instance) -> None:
    rows = [row_data(f"{number:08x}", name=f"agent-{number}", status="idle") for number in range(300)]
    async with top(home, (80, 24)) as view:
        await view.end_feed()
        view.app.board.apply(update(rows, snapshot=True), time.monotonic())
        await view.shows("agent-0 ")
        await view.press("G")
        await view.shows("agent-299")
        await view.press("k", "k", "g")
        await view.shows("agent-0 ")
        await view.hides("agent-299")
        view.app.board.select(150)
        await view.press("j")
        await view.shows("agent-151")
        at = view.text().splitlines().index(next(s for s in view.text().splitlines() if "agent-151" in s))
        new = [row_data(f"{number:08x}", name=f"new-{number}") for number in range(1000, 1100)]
        view.app.board.apply(update([*new, *rows], snapshot=True), time.monotonic())
        await view.until(lambda: len(view.app.board.lines) == 400, "the new rows")
        await view.shows("agent-151")
        assert "agent-151" in view.text().splitlines()[at]


async def test_list_is_drawn_together_with_the_filter_that_is_typed(
    home: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row_data(f"{number:08x}", name=f"agent-{number}", status="idle") for number in range(300)]
    async with top(home, (80, 24)) as view:
        await view.end_feed()
        view.app.board.apply(update(rows, snapshot=True), time.monotonic())
        await view.press("slash", "4", "x")
        await view.shows("filter: 4x")
        app, drawn, display = view.app, list[str](), view.app._display

        def shows_filter(text: str) -> bool:
            return view.text().splitlines()[0].endswith(f"filter: {text}")

        def look(screen: Screen[object], update: Any) -> None:
            drawn.append(update.render_segments(app.console))
            display(screen, update)

        monkeypatch.setattr(app, "_display", look)
        for key, typed in (("y", "4xy"), ("backspace", "4x")):
            drawn.clear()
            await view.press(key)
            await view.until(partial(shows_filter, typed), "the filter")
            await view.until(lambda: drawn, "a drawing")
            assert f"filter: {typed} " in drawn[0]


async def test_last_line_of_the_list_says_how_many_sessions_ended_earlier(home: Instance) -> None:
    rows = [row_data(f"{number:08x}", name=f"agent-{number}", status="idle") for number in range(300)]
    async with top(home, (100, 24)) as view:
        await view.end_feed()

        def show(*rows: Json, **more: Any) -> None:
            view.app.board.apply(update(rows, snapshot=True, **more), time.monotonic())

        def last_line() -> str:
            return view.text().splitlines()[-2].strip()

        show(earlier=[earlier(312)])
        await view.shows("  312 sessions ended earlier: sm ls --all --limit all")
        show(*rows[:2], earlier=[earlier(312)])
        await view.shows("agent-1 ")
        (place,) = (y for y, text in enumerate(view.text().splitlines()) if "ended earlier" in text)
        for y, selected in ((place, 0), (place - 1, 1), (place, 1)):
            await view.pilot.click(offset=(3, y))
            assert view.app.board.place == selected
        show(*rows, earlier=[earlier(312)])
        await view.shows("agent-9 ")
        await view.hides("ended earlier")
        await view.press("G")
        await view.until(lambda: last_line().startswith("312 sessions ended earlier"), "it is in sight")
        await view.shows("agent-299")
        await view.press("/", *"agent-x")
        await view.shows(
            "The filter does not search 312 sessions that ended earlier: sm ls --all --search agent-x"
        )
        await view.press("escape")
        show(*rows)
        await view.hides("ended earlier")


async def test_filter_changes_the_list_below_the_prompt(home: Instance) -> None:
    for name in ("apple", "pear"):
        home.spawn("Sleeper", "x", "--name", name)
    async with top(home) as view:
        await view.shows("sleeper-apple", "sleeper-pear")
        await view.press("/", *"apple")
        await view.hides("sleeper-pear")
        await view.shows("sleeper-apple", "Filter (status:")
        await view.press("escape")
        await view.shows("sleeper-pear")


async def test_list_is_greyed_with_its_age_without_a_daemon_and_comes_back() -> None:
    with Instance() as home:
        agent = home.spawn("Sleeper", "x")["session_id"]
        async with top(home) as view:
            await view.shows("sleeper-", "Nothing needs you")
            home.sm("daemon", "stop")
            await view.shows(
                "no daemon, the list is", "sleeper-", "To start the daemon: sm daemon start  ?: help"
            )
            assert "i: interrupt" not in view.text()
            await view.select(agent)
            await view.press("i")
            await view.shows("not possible: no daemon")
            (home.state / "stopped").unlink()
            home.start_daemon()
            await view.hides("no daemon, the list")
            request_as(home, agent, ("POST", "/v1/sessions/me/note", None, {"text": "still here"}))
            await view.shows("still here")


async def test_list_is_greyed_while_news_cannot_be_shown(home: Instance) -> None:
    async with top(home, (160, 30)) as view:
        await view.end_feed()
        view.app.board.apply(update([row_data("a", name="agent-a")], snapshot=True), time.monotonic())
        await view.shows("agent-a")
        odd = {name: value for name, value in row_data("a").items() if name != "status"}
        view.app._feed._tell(update([odd]))
        await view.shows("cannot show all sessions (KeyError: 'status')", "agent-a")
        assert not view.app._is_fresh
        view.app._feed._tell(update([row_data("a", name="agent-a")], snapshot=True))
        await view.hides("cannot show")
        assert view.app._is_fresh


async def test_completed_agent_stays_in_sight_until_its_page_is_opened(home: Instance, agent: str) -> None:
    request_as(home, agent, ("POST", "/v1/sessions/me/complete", None, {"message": "all tests pass"}))
    key = f"done {agent}"
    async with top(home, (140, 40)) as view:
        await view.shows("done, not seen yet: ", "all tests pass")
        await view.until(lambda: view.app.select_need(key), "the entry")
        await view.press("enter")
        await view.shows(f"sm status {agent} (Esc: back)", "o: attach", "s: send")
        await view.press("escape")
        await view.until(lambda: key not in [need.key for need in view.app.found], "it has been seen")
