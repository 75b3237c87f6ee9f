"""The regions of `sm top`: where the selection starts, and what the free lines below the list show."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.cli.tui.app import TopApp
from sm.cli.tui.below_list import BelowList
from sm.cli.tui.process import Pace
from sm.client.http import Client
from tests.cli.tui.view import View, top
from tests.instance import Instance
from tests.session_client import request_as

DRAWS = """
  Drawer: {command: [sh, -c, "for n in 1 2 3 4 5 6 7 8 9; do echo line-$n; done; sleep 1000"], prompt: file}
"""


@pytest.fixture
def home() -> Iterator[Instance]:
    with Instance(DRAWS) as instance:
        instance.start_daemon()
        yield instance


def ask(home: Instance, session_id: str, question: str, *options: str) -> str:
    body = {"question": question, "options": list(options)}
    (answer,) = request_as(home, session_id, ("POST", "/v1/requests", None, body))
    return str(answer[1]["request_id"])


def followed(view: View) -> str | None:
    """The session whose terminal the view captures."""
    run = view.app.main.query_one(BelowList)._followed
    return None if run is None else run[0]


async def test_selection_starts_at_the_first_request_and_its_keys_are_in_the_last_line(
    home: Instance,
) -> None:
    agent = home.spawn("Sleeper", "x")["session_id"]
    key = ask(home, agent, "Which way?", "left", "right")
    async with top(home, (80, 24)) as view:
        await view.shows("1-2: choose  t: answer  d: deny", "q: quit", "2: right", "Keys:")
        assert view.app.target.need is not None
        assert view.app.target.need.key == key
        assert followed(view) is None
        await view.press("tab")
        await view.shows(
            f"a: go to {key}", "q: quit", "2: right", f"Keys:      a: go to {key}, then 1-2: choose"
        )
        await view.press("a")
        await view.shows(f"{key} is selected; press again")


async def test_selection_starts_at_the_first_session_when_nothing_needs_the_person(home: Instance) -> None:
    first = home.spawn("Sleeper", "x")["session_id"]
    home.spawn("Sleeper", "x")
    async with top(home, (80, 24)) as view:
        await view.shows("i: interrupt", "q: quit")
        assert view.app.target.session_id == first
        assert view.app.target.need is None


async def test_list_keeps_the_selection_when_it_was_chosen_before_the_first_drawing(home: Instance) -> None:
    agent = home.spawn("Sleeper", "x")["session_id"]
    ask(home, agent, "Which way?", "left", "right")
    app = TopApp(Client(str(home.socket)), Pace(rest_s=0.0, notice_s=3600, undo_s=3600))
    app.switch(to_needs=False)
    async with app.run_test(size=(100, 30)) as pilot:
        view = View(app, pilot)
        await view.shows("Which way?", "i: interrupt")
        assert app.target.need is None
        assert app.target.session_id == agent


async def test_page_of_a_waiting_session_shows_its_request(home: Instance) -> None:
    agent = home.spawn("Sleeper", "x")["session_id"]
    key = ask(home, agent, "Which way?", "left", "right")
    async with top(home, (140, 30)) as view:
        await view.until(lambda: view.app.needs.found, "the request")
        await view.select(agent)
        await view.shows("2: right", f"Keys:      a: go to {key}, then")
        await view.press("enter")
        await view.shows(f"sm status {agent} (Esc: back)", "2: right", f"sm answer {key} NUMBER")


async def test_free_lines_show_the_end_of_the_selected_terminal(home: Instance) -> None:
    drawer = home.spawn("Drawer", "x")["session_id"]
    other = home.spawn("Sleeper", "x")["session_id"]
    async with top(home, (80, 20)) as view:
        await view.shows(f"Terminal of drawer-{drawer}", "line-9")
        await view.select(other)
        await view.shows(f"Terminal of sleeper-{other}")
        await view.hides("line-9")
        assert followed(view) == other
        await view.press("enter")
        await view.shows("(Esc: back)")
        await view.until(lambda: followed(view) is None, "no terminal is captured below a page")
        await view.press("escape")
        await view.until(lambda: followed(view) == other, "the terminal again")
        await view.pilot.resize_terminal(80, 9)
        await view.until(lambda: followed(view) is None, "no room for a terminal")


@pytest.mark.parametrize("key", ["n", "ctrl+k", "s"])
async def test_terminal_stays_in_sight_while_a_prompt_is_over_the_list(home: Instance, key: str) -> None:
    drawer = home.spawn("Drawer", "x")["session_id"]
    async with top(home, (100, 60)) as view:
        await view.shows("line-9")
        await view.press(key)
        await view.until(lambda: len(view.app.screen_stack) == 2, "the prompt")
        view.app.draw()
        await view.pilot.pause()
        assert "no daemon" not in view.text()
        assert followed(view) == drawer


async def test_below_the_list_is_no_word_about_the_daemon_after_a_page(home: Instance) -> None:
    drawer = home.spawn("Drawer", "x")["session_id"]
    async with top(home, (80, 20)) as view:
        await view.shows(f"Terminal of drawer-{drawer}", "line-9")
        await view.press("enter")
        await view.until(lambda: followed(view) is None, "no terminal is captured below a page")
        below = view.app.main.query_one(BelowList)
        assert "no daemon" not in str(below.content)


async def test_request_without_room_says_how_much_is_missing(home: Instance) -> None:
    agent = home.spawn("Sleeper", "x")["session_id"]
    key = ask(home, agent, "Which way?", *(f"way-{number}" for number in range(9)))
    async with top(home, (80, 16)) as view:
        await view.shows(f"Request {key}", "way-0", "more lines: Enter")
        assert "way-8" not in view.text()
        await view.pilot.resize_terminal(80, 50)
        await view.shows("way-8")
        await view.hides("more lines: Enter")


async def test_filter_is_typed_in_the_screen_of_the_list(home: Instance) -> None:
    pear = home.spawn("Sleeper", "x", "--title", "pear")["session_id"]
    plum = home.spawn("Sleeper", "x", "--title", "plum")["session_id"]
    async with top(home) as view:
        await view.shows("pear", "plum")
        await view.press("/", *"p")
        assert len(view.app.screen_stack) == 1
        await view.press("down")
        await view.until(lambda: view.app.target.session_id == plum, "the arrows move the selection")
        await view.press(*"ear", "tab")
        await view.until(lambda: [line.row.id for line in view.app.board.lines] == [pear], "one line")
        await view.press("backspace", "backspace", "backspace", "escape")
        await view.until(lambda: not view.app.board.filter_text, "the filter as before")
        await view.shows("pear", "plum", "q: quit")
        await view.press("/", *"plum", "enter", "q")
        await view.until(lambda: not view.app.is_running, "q quits again")


async def test_filter_takes_its_first_keys_when_it_opens_before_the_first_rows(home: Instance) -> None:
    home.spawn("Sleeper", "x")
    app = TopApp(Client(str(home.socket)), Pace(rest_s=0.0, notice_s=3600, undo_s=3600))
    async with app.run_test(size=(100, 30)) as pilot:
        view = View(app, pilot)
        await view.press("/", "n", "o", "n", "e")
        await view.shows("filter: none", "Esc: as before")
        await view.press("escape", "q")


async def test_filter_stays_closed_when_the_app_ends_before_its_first_rows(tmp_path: Path) -> None:
    app = TopApp(Client(str(tmp_path / "no-daemon.sock")))
    async with app.run_test():
        app.exit()
        app.open_filter()
