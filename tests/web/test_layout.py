"""The layout of the page in a real browser: the border, the density, the columns, and what stands in place of rows."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from sm.client.live_stream import Json
from tests.board.samples import row_data
from tests.browser import AXE, DESKTOP, SCHEMES, Tab, skip_without
from tests.cli.samples import request
from tests.fixtures import context_fixture
from tests.web.played_page import PageVisit, PlayedDaemon, PlayedPages, played_pages

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PHONE, BETWEEN = (390, 844), (900, 700)
MENU = '.menu > summary[aria-label="Settings"]'
NAMES = (
    "coordinator-rewrite-the-permission-model-of-the-daemon-and-its-tests-in-three-steps",
    f"tester-{'x' * 120}",
    "writer-短い名前ではなくて長い日本語の名前を持つエージェント",
    "developer-سجل-الدخول-للمتجر",
    "writer-כותב-התיעוד",
    "developer-short",
)
TASKS = (
    "ログイン画面のテストを書いています",
    "يكتب اختبارات صفحة الدخول (3 من 5)",
    "x" * 300,
    "Reads the form",
)

pages = context_fixture("module", played_pages)


def team(count: int, **more: Any) -> list[Json]:
    """Trees of seven sessions with all values."""
    kinds = ("coordinator", "developer", "tester", "writer")
    return [
        row_data(
            f"{number:08x}",
            name=f"{kinds[number % 4]}-part-{number}",
            parent_session_id=f"{number - number % 7:08x}" if number % 7 else None,
            note=TASKS[number % 4],
            todo_done=1,
            todo_total=3,
            **more,
        )
        for number in range(count)
    ]


def deep_tree() -> list[Json]:
    """A session below the other, with names in several scripts."""
    return [
        row_data(
            f"{number:08x}",
            name=name,
            parent_session_id=f"{number - 1:08x}" if number else None,
            workspace="a-workspace-with-a-rather-long-name",
            note=TASKS[number % 4],
        )
        for number, name in enumerate(NAMES)
    ]


@pytest.fixture
def played(pages: PlayedPages) -> Iterator[Any]:
    """Opens a page with these rows, as `played(rows)`, or without a daemon, as `played(None)`."""
    with ExitStack() as stack:

        def open_page(
            rows: Sequence[Json] | None, requests: Sequence[dict[str, Any]] = (), **options: Any
        ) -> PageVisit:
            daemon = None
            if rows is not None:
                slugs = sorted({row["workspace"] for row in rows if row["workspace"]})
                daemon = PlayedDaemon(rows, requests, slugs)
            return stack.enter_context(pages.visit(daemon, **options))

        yield open_page


def width(tab: Tab, selector: str) -> float:
    box = tab.find(selector).first.bounding_box()
    return box["width"] if box is not None else 0.0


def columns(tab: Tab) -> list[str]:
    return tab.find(".row.head [role=columnheader]").all_inner_texts()


def cut_names(tab: Tab) -> list[str]:
    found: list[str] = tab.find(".row .label").evaluate_all(
        "labels => labels.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    )
    return found


def test_mark_without_room_is_left_out_of_a_row_and_the_name_stays_whole(played: Any) -> None:
    name = "developer-of-the-search-index-2"
    rows = [row_data("0000000a", name=name, workspace="shop", messages_held=2)]
    tab = played(rows).tab((1920, 1080))
    in_sight = "marks => [...marks.children].filter((one) => one.offsetHeight && one.offsetTop - marks.offsetTop < 20)"

    def shown() -> list[str]:
        found: list[str] = tab.find(".row .marks").evaluate(f"{in_sight}.map((one) => one.textContent)")
        return found

    assert shown() == ["✉2", "@shop"]
    tab.page.set_viewport_size({"width": 1100, "height": 800})
    tab.open("#/s/0000000a/why")
    tab.until(lambda: shown() == [], "no marks")
    assert cut_names(tab) == []


def test_rows_below_the_window_of_a_phone_are_not_drawn(played: Any) -> None:
    failed = [{**row, "status": "error", "attention": "failed"} for row in team(60)]
    tab = played(failed).tab(PHONE)
    tab.until(lambda: tab.find(".need").count() == 60, "what needs the person")
    # The selected one, and one without words for the height.
    tab.until(lambda: tab.find(".rows .row[id]").count() <= 2, "no other rows")
    tab.find(".rows").evaluate("rows => rows.scrollIntoView()")
    tab.until(lambda: tab.find(".rows .row[id]").count() > 10, "the rows in sight")
    assert tab.find(".rows .row[id]").count() < 50


@pytest.mark.parametrize("place", ["#/", "#/s/00000001/why", "#/events"])
def test_page_is_as_high_as_its_window_when_much_needs_the_person(played: Any, place: str) -> None:
    failed = [{**row, "status": "error", "attention": "failed"} for row in team(40)]
    tab = played(failed).tab(place=place)
    tab.until(lambda: tab.find(".need").count() == 40, "what needs the person")
    assert tab.page.evaluate("document.documentElement.scrollHeight - innerHeight") == 0


# The border between the list and what is beside it


def test_border_is_moved_with_keys_and_with_the_mouse_and_is_kept(played: Any) -> None:
    visit = played(team(10))
    tab = visit.tab(place="#/s/00000001/why")
    border = tab.find('[role="separator"]')
    assert border.get_attribute("aria-valuenow") == "44"
    before = width(tab, ".column")
    assert before == pytest.approx(1280 * 0.44, abs=2)
    border.focus()
    tab.press("ArrowRight", "ArrowRight")
    assert border.get_attribute("aria-valuenow") == "48"
    assert width(tab, ".column") == pytest.approx(1280 * 0.48, abs=2)
    tab.press("Home")
    assert width(tab, ".column") == pytest.approx(300, abs=13)
    tab.press("End")
    assert width(tab, ".session") == pytest.approx(390, abs=13)
    tab.press("Enter")
    assert width(tab, ".column") == before
    box = border.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + 4, 400)
    tab.page.mouse.down()
    tab.page.mouse.move(500, 420)
    tab.page.mouse.up()
    assert width(tab, ".column") == pytest.approx(500, abs=8)
    tab.page.reload()
    tab.is_in_phase("live")
    tab.until(lambda: border.count() == 1, "the border")
    assert width(tab, ".column") == pytest.approx(500, abs=8)
    border.dblclick()
    assert width(tab, ".column") == before
    assert tab.problems == []


def test_list_and_session_follow_each_other_in_a_window_between_phone_and_desktop(played: Any) -> None:
    tab = played(team(10)).tab(BETWEEN)
    assert not tab.find('[role="separator"]').is_visible()
    tab.row("00000001").click()
    tab.until(lambda: tab.find(".session").is_visible(), "the session")
    assert not tab.find(".tree").is_visible()
    tab.find(".session .back").click()
    tab.until(lambda: tab.find(".tree").is_visible(), "the list")


@pytest.mark.parametrize(("size", "is_beside"), [((1100, 700), True), ((1099, 700), False)])
def test_session_is_beside_the_list_from_1100_pixels_on(
    played: Any, size: tuple[int, int], *, is_beside: bool
) -> None:
    tab = played(team(10)).tab(size, "#/s/00000001/why")
    assert tab.find(".tree").is_visible() == is_beside
    assert tab.find(".session .back").is_visible() != is_beside


@pytest.mark.parametrize("place", ["#/spend", "#/timeline", "#/s/00000001/changes"])
def test_page_that_needs_the_width_is_beside_the_list_in_a_wide_window_only(played: Any, place: str) -> None:
    tab = played(team(10)).tab()
    tab.until(lambda: tab.row("00000001").count() == 1, "the rows")
    tab.find("#treegrid").focus()
    tab.page.evaluate("place => { location.hash = place; }", place)
    focused = ("page-title", "session-title")
    tab.until(lambda: tab.page.evaluate("document.activeElement.id") in focused, "the title has the focus")
    assert not tab.find(".tree").is_visible()
    assert not tab.find('[role="separator"]').is_visible()
    tab.page.set_viewport_size({"width": 1600, "height": 900})
    tab.until(lambda: tab.find('[role="separator"]').get_attribute("aria-valuenow") == "29", "the border")
    assert width(tab, ".column") == pytest.approx(1600 * 0.29, abs=2)


# Density and columns


def test_density_is_chosen_in_the_settings_and_kept(played: Any) -> None:
    visit = played(team(10))
    tab = visit.tab()
    row = tab.row("00000001")
    assert row.evaluate("row => row.offsetHeight") == 36
    tab.find(MENU).click()
    tab.find(".menu-body select").nth(1).select_option("compact")
    assert row.evaluate("row => row.offsetHeight") == 28
    assert tab.row("00000002").evaluate("row => row.offsetHeight") == 28
    tab.press("Escape")
    assert not tab.find(".menu-body").is_visible()
    tab.page.reload()
    tab.is_in_phase("live")
    assert row.evaluate("row => row.offsetHeight") == 28


@pytest.mark.parametrize("density", ["comfortable", "compact"])
def test_rows_and_buttons_are_large_enough_for_a_finger(played: Any, density: str) -> None:
    visit = played(team(10), has_touch=True, is_mobile=True)
    tab = visit.tab((1280, 800))
    tab.page.evaluate(
        "density => { localStorage.setItem('sm.density', density); location.reload(); }", density
    )
    tab.is_in_phase("live")
    tab.until(lambda: tab.row("00000001").count() == 1, "the rows")
    for selector in (".row[data-session]", ".chip", ".tools .act", "#filter", ".top .act"):
        heights = tab.find(selector).evaluate_all("all => all.map((one) => one.offsetHeight)")
        assert heights and min(heights) >= 44, (selector, heights)


def test_columns_without_a_value_leave_their_width_to_the_task(played: Any) -> None:
    full = played(team(10)).tab()
    assert columns(full) == ["Session", "Status", "Done", "Context", "Cost", "Tokens", "Model", "Task"]
    nothing: dict[str, Any] = {"tokens": None, "cost_usd": None, "context_percent": None, "model": None}
    nothing["tree"] = {"sessions": 1, "live": 1, "tokens": None, "cost_usd": None}
    rows = [row_data(f"{number:08x}", name=f"developer-{number}", **nothing) for number in range(3)]
    empty = played(rows).tab()
    assert columns(empty) == ["Session", "Status", "Task"]
    assert width(empty, ".row .c-task") > width(full, ".row .c-task") + 300


def test_columns_are_chosen_in_the_settings_and_kept(played: Any) -> None:
    tab = played(team(10)).tab()
    tab.find(MENU).click()
    tab.find('[data-column="model"]').uncheck()
    tab.find('[data-column="tokens"]').uncheck()
    expected = ["Session", "Status", "Done", "Context", "Cost", "Task"]
    tab.until(lambda: columns(tab) == expected, "fewer columns")
    tab.page.mouse.click(640, 600)
    tab.until(lambda: not tab.find(".menu-body").is_visible(), "the menu is closed")
    tab.open("#/")
    tab.page.reload()
    tab.is_in_phase("live")
    tab.until(lambda: columns(tab) == expected, "the chosen columns")
    tab.open("#/s/00000001/why")
    tab.find(MENU).click()
    choice = tab.find('label:has([data-column="context"])')
    tab.until(lambda: "no room" in choice.inner_text(), "the reason why it is not in sight")


@pytest.mark.parametrize("place", ["", "#/s/00000001/why"])
def test_names_are_shown_in_full_before_other_columns_are(played: Any, place: str) -> None:
    tab = played(team(51, workspace="shop")).tab(place=place)
    tab.until(lambda: tab.find(".row .label").count() > 10, "the rows")
    assert cut_names(tab) == []
    assert width(tab, ".row .c-task") >= 100


# In place of rows


def test_first_run_says_the_first_three_steps_with_their_commands(played: Any) -> None:
    tab = played([]).tab()
    steps = tab.find(".first li")
    tab.until(lambda: steps.count() == 3, "the steps")
    commands = tab.find(".first li kbd").all_inner_texts()
    assert commands == ["sm trust DIRECTORY", 'sm spawn TYPE "TASK"', "sm web link --phone"]
    tab.find(".first .go").click()
    tab.until(lambda: tab.find("dialog").count() == 1, "the form that starts an agent")


def test_sessions_that_are_not_known_are_not_called_none(played: Any) -> None:
    tab = played(None).tab()
    tab.shows("Your sessions are not known without the daemon.", "sm daemon start")
    assert "No sessions" not in tab.text()
    assert "what you see is" not in tab.text()


# All sizes


CASES = {"one": team(1), "ten": team(10), "many": team(300), "deep": deep_tree()}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [DESKTOP, (1920, 1080), PHONE], ids=["desktop", "wide", "phone"])
def test_page_has_no_sideways_scroll_and_nothing_overlaps(
    played: Any, case: str, size: tuple[int, int]
) -> None:
    tab = played(CASES[case], has_touch=size == PHONE, is_mobile=size == PHONE).tab(size)
    tab.until(lambda: tab.row("00000000").count() == 1, "the rows")
    assert tab.page.evaluate("document.documentElement.scrollWidth") == size[0]
    overlapping = """parts => parts.filter((part, place) => {
      const [before, after] = [parts[place - 1]?.getBoundingClientRect(), part.getBoundingClientRect()];
      return before && after.top === before.top && after.left < before.right - 0.5;
    }).map((part) => part.textContent)"""
    assert tab.find(".chip").evaluate_all(overlapping) == []
    assert tab.find(".row.head > span:visible").evaluate_all(overlapping) == []
    assert tab.problems == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=str)
def test_every_state_of_the_page_has_no_violations_of_accessibility(
    played: Any, pages: PlayedPages, size: tuple[int, int]
) -> None:
    skip_without(AXE.exists(), "axe-core")
    options: dict[str, Any] = {"has_touch": size == PHONE, "is_mobile": size == PHONE}
    asked = request(4, kind="permission", tool="Bash", questions=[]) | {"session_id": "00000001"}
    found = dict[str, list[str]]()
    for name, rows in (("first run", []), ("no daemon", None), ("deep", deep_tree())):
        found[name] = played(rows, **options).tab(size).violations(*SCHEMES)
    rows = [
        *team(9),
        row_data("failed", status="error", exit_code=1, attention="failed", last_words="KeyError"),
    ]
    tab = played(rows, [asked | {"arguments": {"command": "make install"}}], **options).tab(size)
    for place in ("#/", "#/s/00000001/why", "#/s/00000001/messages", "#/events", "#/earlier"):
        tab.open(place)
        found[place] = tab.violations(*SCHEMES)
    tab.open("#/")
    tab.find(MENU).click()
    found["settings"] = tab.violations(*SCHEMES)
    tab.press("Escape")
    for key, name in (("?", "help"), (":", "palette"), ("n", "form")):
        tab.find("#treegrid").focus()
        tab.press(key)
        tab.until(lambda: tab.find("dialog[open]").count() == 1, "the dialog")
        found[name] = tab.violations(*SCHEMES)
        tab.press("Escape")
        tab.until(lambda: tab.find("dialog").count() == 0, "no dialog")
    context = pages.browser.new_context()
    login = Tab(context, tab.page.url.partition("#")[0])
    login.is_in_phase("login")
    found["login"] = login.violations(*SCHEMES)
    context.close()
    assert {name: each for name, each in found.items() if each} == {}
