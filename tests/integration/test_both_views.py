"""`sm top` in a real terminal and the page of `sm web` in a real browser show the same team in the same words."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from sm.board import Sort
from sm.cli.tui.layout import detail_width
from tests.browser import Tab, Visitor, shared_chromium
from tests.fixtures import context_fixture
from tests.instance import SM
from tests.view_pictures import Scene, scene
from tests.waits import until
from tests.web_server import web_server

pytestmark = [pytest.mark.processes, pytest.mark.browser]

COLUMNS, LINES = 320, 40
"""Wide enough for each column, with the region beside the list."""
_DRAWN = re.compile(r"[│├└─▰▱▾▸∑✉+]+")
_AGE = re.compile(r"\b\d+(s|min|h|d)\b")

browser = context_fixture("module", shared_chromium.use)
team = context_fixture("module", scene)


def words(text: str) -> Counter[str]:
    """The words of a line without the lines of the tree, the bars, and ages, which grow between two looks."""
    return Counter(_AGE.sub("AGE", _DRAWN.sub(" ", text)).split())


class TopScreen:
    """`sm top` in a pane of tmux."""

    def __init__(self, team: Scene) -> None:
        terminal = team.stage.tmux_server.new_session(
            "person",
            window_command=f"{SM} top",
            x=COLUMNS,
            y=LINES,
            environment={"SM_HOME": str(team.stage.home)},
        )
        assert terminal.active_pane is not None
        self.pane = terminal.active_pane

    def lines(self) -> list[str]:
        return list(self.pane.capture_pane())

    def shows(self, text: str) -> None:
        until(lambda: any(text in line for line in self.lines()), f"sm top shows {text}")

    def list_lines(self) -> list[str]:
        """The lines of the list, without the region beside it."""
        lines = self.lines()
        head = next(number for number, line in enumerate(lines) if line.lstrip().startswith("NAME"))
        width = COLUMNS - detail_width(COLUMNS) - 2
        below = itertools.takewhile(lambda line: not line.startswith("──"), lines[head + 1 : -1])
        return [line[:width] for line in below if line[:width].strip()]

    def needs(self) -> list[str]:
        lines = self.lines()
        begin = next(number for number, line in enumerate(lines) if line.startswith("Needs you"))
        end = next(number for number, line in enumerate(lines) if line.lstrip().startswith("NAME"))
        return lines[begin + 1 : end]


@pytest.fixture(scope="module")
def screen(browser: Browser, team: Scene) -> TopScreen:
    return TopScreen(team)


@pytest.fixture(scope="module")
def visitor(browser: Browser, team: Scene) -> Iterator[Visitor]:
    with web_server(team.stage, "--scope", "all") as server:
        yield Visitor(browser, server)


def rows(tab: Tab) -> list[str]:
    """The rows of the page from top to bottom."""
    return [tab.row(session_id).inner_text() for session_id in tab.order()]


def named(lines: list[str], names: list[str]) -> list[str]:
    """The sessions in the order of the lines that name them."""
    return [next(name for name in names if name in line) for line in lines if any(n in line for n in names)]


def test_views_show_the_same_sessions_in_the_same_order_with_the_same_words(
    team: Scene, screen: TopScreen, visitor: Visitor
) -> None:
    names = [session["label"] for session in team.stage.json("all")]
    with visitor.tab((1600, 900)) as tab:
        tab.shows(*names)
        screen.shows(names[-1])

        def order() -> list[str]:
            return named([line[:60] for line in screen.list_lines()], names)

        orders = list[list[str]]()
        for sort in (*Sort, Sort.TREE):
            screen.shows(f"order: {sort}")
            tab.find(".tools select").select_option(sort.value)
            tab.page.mouse.move(5, 5)
            tab.until(lambda: named(rows(tab), names) == order(), f"the same order by {sort}")
            assert sorted(order()) == sorted(names)
            orders.append(order())
            if len(orders) <= len(Sort):
                screen.pane.send_keys("S", enter=False)
        assert len({tuple(found) for found in orders}) > 3, "the orders differ"
        assert orders[0] == orders[-1]
        for row, line in zip(rows(tab), screen.list_lines(), strict=True):
            missing = words(row) - words(line)
            assert not missing, (missing, row, line)


def test_views_show_the_same_entries_that_need_a_person(
    team: Scene, screen: TopScreen, visitor: Visitor
) -> None:
    with visitor.tab((1600, 900)) as tab:
        tab.request(team.permission.name)
        entries = tab.find(".needs li").all()
        shown = [
            "\n".join(entry.locator(part).inner_text() for part in (".need-key", ".need-label", ".need-text"))
            for entry in entries
        ]
        lines = screen.needs()
        assert len(shown) == len(lines) == 3, "two requests, and an agent that failed"
        for entry, line in zip(shown, lines, strict=True):
            missing = words(entry) - words(line)
            assert not missing, (missing, entry, line)
        summary = tab.find(".summary").inner_text()
        assert summary in screen.lines()[0]
