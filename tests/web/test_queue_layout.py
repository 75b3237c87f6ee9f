"""The layout of the queue, the toolbar and the head of a session in a real browser, with long names."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from sm.client.live_stream import Json
from tests.board.samples import row_data
from tests.browser import DESKTOP, Tab
from tests.cli.samples import request
from tests.fixtures import context_fixture
from tests.web.played_page import PageVisit, PlayedDaemon, PlayedPages, played_pages
from tests.web.test_layout import PHONE, cut_names, width

pytestmark = [pytest.mark.browser, pytest.mark.processes]

WORKSPACES = ("billing-service-eu-central", "blog", "infra", "shop")
NAMES = ("developer-payment-retries", "tester-checkout", "migrator-addresses", "writer-release-notes")
BOXES = "line => [...line.querySelectorAll('*')].map((e) => `${e.className} ${e.scrollWidth}/${e.clientWidth}`).join()"
CUT = "parts => parts.filter((part) => part.scrollWidth > part.clientWidth).map((part) => part.textContent)"

pages = context_fixture("module", played_pages)


def agents(count: int = 12, **more: Any) -> list[Json]:
    """A chain of sessions of several workspaces, which all wait."""
    return [
        row_data(
            f"{number:08x}",
            name=f"{NAMES[number % 4]}-{number}",
            workspace=WORKSPACES[number % 4],
            parent_session_id=f"{number - 4:08x}" if number >= 4 else None,
            status="waiting_input",
            status_reason="claude asks for permission: Edit → src/pages/login.tsx (PermissionRequest)",
            open_requests=[f"r{number}"],
            **more,
        )
        for number in range(count)
    ]


def permission(number: int, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": "permission", "tool": "Bash", "arguments": {"command": "npm test"}}
    label = f"{NAMES[number % 4]}-{number}"
    return request(number, session_id=f"{number:08x}", label=label, questions=[], **fields | more)


@pytest.fixture
def played(pages: PlayedPages) -> Iterator[Any]:
    """Opens a page with these rows and requests, as `played(rows, requests)`."""
    with ExitStack() as stack:

        def open_page(rows: Sequence[Json], requests: Sequence[dict[str, Any]], **options: Any) -> PageVisit:
            slugs = sorted({row["workspace"] for row in rows if row["workspace"]})
            return stack.enter_context(pages.visit(PlayedDaemon(rows, requests, slugs), **options))

        yield open_page


def queue(tab: Tab, count: int) -> None:
    tab.until(lambda: tab.find(".need").count() == count, "the entries")


@pytest.mark.parametrize(
    ("size", "place"), [(DESKTOP, ""), ((1920, 1080), ""), ((1920, 1080), "#/s/00000001/why")]
)
def test_names_in_the_queue_are_whole(played: Any, size: tuple[int, int], place: str) -> None:
    tab = played(agents(), [permission(number) for number in range(12)]).tab(size, place)
    queue(tab, 12)
    assert tab.find(".need-label").evaluate_all(CUT) == [], tab.find(".need-line").first.evaluate(BOXES)


def test_request_of_a_dialog_does_not_overlap_its_age_beside_a_session(played: Any) -> None:
    asked = [permission(1, kind="dialog", tool=None, arguments=None)]
    tab = played(agents(), asked).tab(DESKTOP, "#/s/00000002/why")
    queue(tab, 1)
    button = tab.find('.need [data-act="attach"]')
    tab.until(lambda: button.count() == 1, "the button")
    age, attach = tab.find(".need-age").bounding_box(), button.bounding_box()
    assert age is not None and attach is not None
    assert age["x"] + age["width"] <= attach["x"], tab.find(".need-line").evaluate(BOXES)
    assert button.inner_text() == "Attach"


def test_open_line_keeps_its_sentence(played: Any) -> None:
    tab = played(agents(), [permission(1)]).tab()
    queue(tab, 1)
    tab.find(".need-open").click()
    tab.until(lambda: tab.find(".need.open .need-body").count() == 1, "the open line")
    assert tab.find(".need-line .need-text").inner_text() == "Bash: npm test"


def test_plan_is_called_a_plan_and_has_no_marks(played: Any) -> None:
    plan = "# Retry payments\n\n1. Keep the answer\n2. Store the key\n"
    tab = played(agents(), [permission(1, tool="ExitPlanMode", arguments={"plan": plan})]).tab()
    queue(tab, 1)
    assert tab.find(".need-kind").inner_text() == "plan"
    assert tab.find(".need-text").inner_text() == "Retry payments: Keep the answer · Store the key"


def test_session_without_a_sign_of_life_has_the_colour_of_a_question(played: Any) -> None:
    rows = [*agents(1), row_data("00000009", name="developer-lost", status_stale=True, note="builds")]
    tab = played(rows, [permission(0)]).tab()
    queue(tab, 2)
    colours = tab.find(".need").evaluate_all("all => all.map((one) => getComputedStyle(one).borderLeftColor)")
    assert colours[0] == colours[1]
    tab.shows("no sign that it is still running; last: builds")


def test_failed_session_says_when_it_failed(played: Any) -> None:
    rows = [row_data("00000001", name="sh-icons", status="error", attention="failed", exit_code=1, pid=None)]
    tab = played(rows, []).tab()
    queue(tab, 1)
    tab.find(".need-open").click()
    tab.until(lambda: "Since 2026-01-27 " in tab.find(".need-body").inner_text(), "the time")


def test_toolbar_is_one_line_with_several_workspaces(played: Any) -> None:
    tab = played(agents(), [permission(number) for number in range(4)]).tab()
    queue(tab, 4)
    box = tab.find(".toolbar").bounding_box()
    assert box is not None and box["height"] < 60
    last, tools = tab.find(".chips > *").last.bounding_box(), tab.find(".tools").bounding_box()
    assert last is not None and tools is not None
    assert last["x"] + last["width"] <= tools["x"]


def test_phone_is_not_scrolled_sideways_with_several_workspaces(played: Any) -> None:
    asked = [permission(number) for number in range(12)]
    tab = played(agents(), asked, has_touch=True, is_mobile=True).tab(PHONE)
    queue(tab, 12)
    assert tab.page.evaluate("document.documentElement.scrollWidth") == PHONE[0]


def test_names_in_the_list_are_whole_beside_a_session_and_the_task_gives_them_room(played: Any) -> None:
    tab = played(agents(16), []).tab(DESKTOP, "#/s/00000000/why")
    tab.until(lambda: tab.find(".row .label").count() > 8, "the rows")
    task = tab.find(".row.head .c-task")
    assert not task.is_visible()
    assert cut_names(tab) == []
    tab.page.set_viewport_size({"width": 1920, "height": 1080})
    tab.until(task.is_visible, "the task")
    assert width(tab, ".row .c-task") >= 100


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_reason_of_a_status_is_whole_in_the_head_of_a_session(played: Any, size: tuple[int, int]) -> None:
    touch = size == PHONE
    tab = played(agents(2), [], has_touch=touch, is_mobile=touch).tab(size, "#/s/00000001/why")
    status, title = tab.find(".session-status"), tab.find("#session-title")
    tab.until(lambda: "PermissionRequest" in status.inner_text(), "the reason")
    for part in (status, title):
        cut = part.evaluate("e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]")
        assert max(cut) <= 1, f"{part.inner_text()} is cut by {cut}"
    assert "tester-checkout-1" in title.inner_text()
    context = tab.find(".session-meta").inner_text()
    assert "context" in context and "40%" in context
