"""Spend, timeline, events and the start sheet in a real browser, with the night of many sessions made up."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Locator

from sm.client.live_stream import Json
from sm.core.timestamps import iso
from tests.board.samples import row_data
from tests.board.test_spawn_sheet import KNOWN
from tests.browser import DESKTOP, Tab
from tests.fixtures import context_fixture
from tests.web.played_page import PlayedDaemon, PlayedPages, played_pages
from tests.web.test_layout import PHONE

pytestmark = [pytest.mark.browser, pytest.mark.processes]

NOW_S = time.time()
SESSIONS, WAITING, NIGHT_S = 51, range(12), 30_000
TOKENS = {"input": 1000, "output": 500, "cache_read": 0, "cache_write": 0}
FAILED = {20: "exit code 1", 21: "signal 9", 22: ""}
"""The failed sessions and how their processes ended. The last one has reported its failure."""

pages = context_fixture("module", played_pages)


def session_id(number: int) -> str:
    return f"{number:08x}"


def parent(number: int) -> str | None:
    return session_id(number - number % 17) if number % 17 else None


def rows() -> list[Json]:
    ended = {"status": "error", "attention": "failed", "completed_at": iso(NOW_S - 6000)}
    return [
        row_data(
            session_id(number),
            name=f"developer-part-{number}",
            parent_session_id=parent(number),
            **(
                {**ended, "status_reason": f"the process ended with {FAILED[number]}"}
                if number in FAILED
                else {}
            ),
            **({"task": 'signal 9: "FATAL: JavaScript heap out of memory"'} if number == 21 else {}),
        )
        for number in range(SESSIONS)
    ]


def spans(number: int) -> list[dict[str, Any]]:
    """Begins a session in the night. It waits, fails, or works until now."""
    begin, end = NOW_S - NIGHT_S + 300 * number, NOW_S - 6000
    times = [("spawned", begin), ("running", begin + 60)]
    times += [("waiting_input", end)] if number in WAITING else [("error", end)] if number in FAILED else []
    ends = [*(at for _, at in times[1:]), None]
    return [
        {"status": status, "start": iso(at), "end": None if until is None else iso(until), "reason": None}
        for (status, at), until in zip(times, ends, strict=True)
    ]


def timeline() -> Mapping[str, Any]:
    sessions = [
        {
            "session_id": session_id(number),
            "label": f"developer-part-{number}",
            "parent_session_id": parent(number),
            "created_at": iso(NOW_S - NIGHT_S + 300 * number),
            "spans": spans(number),
        }
        for number in range(SESSIONS)
    ]
    return {"since": iso(NOW_S - 43_200), "until": iso(NOW_S), "sessions": sessions}


def event(seq: int, kind: str, number: int, ago_s: float, words: str) -> dict[str, Any]:
    subject = f"{'Session' if parent(number) is None else 'Child'} developer-part-{number}"
    return {
        "seq": seq,
        "type": kind,
        "session_id": session_id(number),
        "timestamp": iso(NOW_S - ago_s),
        "message": f"{subject} {words}",
    }


def events() -> Mapping[str, Any]:
    found = list[dict[str, Any]]()
    for number in range(SESSIONS):
        begun = NIGHT_S - 300 * number
        subject = f"({session_id(number)}) started"
        found += [
            event(0, "spawned", number, begun, subject),
            event(0, "started", number, begun - 60, "is running"),
        ]
    for number in WAITING:
        found.append(event(0, "waiting_input", number, 6000, "is waiting for input: claude asks"))
    for number, how in FAILED.items():
        words = f"crashed ({how})" if how else 'failed - "The cluster refuses the alias swap"'
        found.append(event(0, "error", number, 6000, words))
    found.sort(key=lambda one: one["timestamp"])
    return {"events": [{**one, "seq": place} for place, one in enumerate(found, 1)], "next": None}


def group(key: str | None, label: str, costs: list[float], merged: int = 1) -> dict[str, Any]:
    return {
        "key": key,
        "label": label,
        "merged": merged,
        "tokens": {**TOKENS, "input": sum(1000 for cost in costs if cost), "output": 0},
        "tokens_partial": False,
        "cost_usd": sum(costs),
        "cost_partial": False,
        "tokens_used": [1000 if cost else 0 for cost in costs],
        "costs_usd": costs,
    }


def usage(parts: int = 96, **more: Any) -> Mapping[str, Any]:
    costs = [0.0 if part < 60 else 0.01 for part in range(parts)]
    groups = [
        group(session_id(n), f"developer-part-{n}", [(20 - n) * cost for cost in costs]) for n in range(10)
    ]
    return {
        "by": "session",
        "since": iso(NOW_S - 86_400),
        "until": iso(NOW_S),
        "step_s": 900,
        "counted": True,
        "prices_as_of": "2026-01-27",
        "groups": groups,
        "total": group(None, "total", [sum(g["costs_usd"][part] for g in groups) for part in range(parts)]),
        **more,
    }


@pytest.fixture
def night(pages: PlayedPages) -> Iterator[Any]:
    """Opens a page of the night, as `night(size, place)`. Further answers of the daemon come by name."""
    with ExitStack() as stack:

        def open_page(
            size: tuple[int, int], place: str, more: Mapping[str, Any] | None = None, **options: Any
        ) -> Tab:
            answers = {
                "/v1/timeline": timeline(),
                "/v1/events": events(),
                "/v1/usage/chart": usage(),
                "/v1/spawn-choices": KNOWN,
                **(more or {}),
            }
            daemon = PlayedDaemon(rows(), at=iso(NOW_S), more=answers)
            return stack.enter_context(pages.visit(daemon, **options)).tab(size, place)

        yield open_page


def drawn(tab: Tab) -> None:
    tab.until(lambda: tab.page.evaluate("Boolean(document.querySelector('.plot')?.plot)"), "the chart")


def in_sight(tab: Tab, selector: str) -> int:
    """The elements that are whole in the window and in the panel of the page."""
    found: int = tab.find(selector).evaluate_all("""(all) => {
      const end = Math.min(innerHeight, document.querySelector(".page .panel").getBoundingClientRect().bottom);
      const boxes = all.map((one) => one.getBoundingClientRect());
      return boxes.filter(({ top, bottom }) => top >= 0 && bottom <= end).length;
    }""")
    return found


def text_of(place: Locator) -> str:
    return re.sub(r"\s+", " ", place.inner_text())


# Spend


def test_spend_names_the_days_of_the_beginning_and_of_the_end(night: Any) -> None:
    tab = night(DESKTOP, "#/spend")
    drawn(tab)
    words = text_of(tab.find(".headline"))
    assert re.search(r", \d{4}-\d\d-\d\d \d\d:\d\d to \d{4}-\d\d-\d\d \d\d:\d\d$", words), words


def test_spend_without_usage_has_no_chart(night: Any) -> None:
    empty = usage(4, groups=[], total=group(None, "total", [0.0] * 4))
    tab = night(DESKTOP, "#/spend", {"/v1/usage/chart": empty})
    tab.shows("No usage in this time.")
    assert tab.find(".plot").count() == 0


def test_spend_by_session_names_each_session_and_its_tree(night: Any) -> None:
    tab = night(DESKTOP, "#/spend")
    drawn(tab)
    tab.find("[data-choice=by]").select_option("session")
    tab.shows("By session,")
    lines = tab.find(".groups tbody tr")
    assert lines.count() == 10
    assert text_of(lines.nth(3)).startswith("developer-part-3 in developer-part-0 $")
    assert tab.find(".groups tbody a").nth(3).get_attribute("href") == f"#/s/{session_id(3)}/peek"
    assert tab.find(".groups .swatch-soft").count() == 4, "six sessions have a colour of their own"
    drawn_sums = tab.page.evaluate("() => document.querySelector('.plot').plot.data.length - 1")
    assert drawn_sums == 7, "the others are one series"


@pytest.mark.parametrize("place", ["#/spend", "#/timeline"])
def test_range_suits_what_there_is_and_ranges_grow_from_left_to_right(night: Any, place: str) -> None:
    tab = night(DESKTOP, place)
    drawn(tab)
    choices = tab.find("[data-range]")
    assert choices.all_inner_texts() == ["1 h", "12 h", "24 h", "7 d"]
    tab.until(lambda: choices.nth(1).get_attribute("aria-pressed") == "true", "the range of the night")


@pytest.mark.parametrize("place", ["#/spend", "#/timeline"])
def test_zoom_says_what_it_is(night: Any, place: str) -> None:
    tab = night(DESKTOP, place)
    drawn(tab)
    assert "Zoom in" in tab.find("[data-zoom=in]").inner_text()


# The timeline


def test_colours_of_the_load_are_shown_and_not_named(night: Any) -> None:
    tab = night(DESKTOP, "#/timeline")
    drawn(tab)
    assert "Yellow" not in tab.text()
    key = tab.find(".legend .key-waiting_input")
    chart, sign = tab.find(".load .plot").bounding_box(), key.bounding_box()
    assert sign["y"] < chart["y"], "the legend is above what it explains"
    ground = key.evaluate("(one) => getComputedStyle(one).backgroundColor")
    waited = tab.find(".headline .waited").evaluate("(one) => getComputedStyle(one).color")
    assert ground == waited


def test_line_of_those_that_worked_is_drawn_above_the_area_of_those_that_waited(night: Any) -> None:
    tab = night(DESKTOP, "#/timeline")
    drawn(tab)
    working, waiting = tab.page.evaluate(
        "() => document.querySelector('.plot').plot.data.slice(1).reverse().map((one) => one.at(-1))"
    )
    assert (working, waiting) == (SESSIONS - len(WAITING) - len(FAILED), len(WAITING))


def test_labels_of_times_end_before_the_edge(night: Any) -> None:
    end_s = NOW_S // 3600 * 3600
    hour = {**timeline(), "since": iso(end_s - 3600), "until": iso(end_s)}
    tab = night(DESKTOP, "#/timeline", {"/v1/timeline": hour})
    drawn(tab)
    ends = tab.page.evaluate("""() => {
      const { plot } = document.querySelector(".plot");
      const pen = document.createElement("canvas").getContext("2d");
      pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
      const half = (label) => Math.max(...label.split("\\n").map((line) => pen.measureText(line).width)) / 2;
      const at = (place) => plot.over.offsetLeft + plot.valToPos(plot.axes[0]._splits[place], "x");
      return plot.axes[0]._values.map((label, place) => at(place) + (label ? half(label) : 0) - plot.width);
    }""")
    assert len(ends) > 5
    assert max(ends) <= 0


def test_failure_says_its_session_once_and_its_last_words(night: Any) -> None:
    tab = night(DESKTOP, "#/timeline")
    drawn(tab)
    first, second, third = (text_of(line) for line in tab.find(".failures li").all())
    assert re.fullmatch(r"✗ \d\d:\d\d developer-part-20 crashed \(exit code 1\)", first)
    assert second.endswith('developer-part-21 crashed (signal 9): "FATAL: JavaScript heap out of memory"')
    assert third.endswith('developer-part-22 failed - "The cluster refuses the alias swap"')


def test_failure_leads_to_its_session_and_its_time_to_the_event(night: Any) -> None:
    tab = night(DESKTOP, "#/timeline")
    drawn(tab)
    time_of, name = tab.find(".failures li").first.locator("a").all()
    assert name.get_attribute("href") == f"#/s/{session_id(20)}/peek"
    time_of.click()
    tab.until(lambda: tab.find(".feed li.at").count() == 1, "the event")
    assert tab.find(".feed li.at").get_attribute("data-type") == "error"


def test_way_to_an_event_moves_the_list_and_not_the_page(night: Any) -> None:
    tab = night(DESKTOP, "#/events/9")
    place = tab.find(".feed li.at")
    tab.until(lambda: place.count() == 1 and in_sight(tab, ".feed li.at") == 1, "the event in sight")
    assert tab.page.evaluate(
        "[document.scrollingElement.scrollTop, document.querySelector('#app').scrollTop]"
    ) == [0, 0]
    assert tab.find(".top").bounding_box()["y"] == 0


def test_many_lanes_are_in_sight(night: Any) -> None:
    tab = night(DESKTOP, "#/timeline")
    drawn(tab)
    tab.until(lambda: tab.find(".lane-name").count() == SESSIONS, "the lanes")
    assert in_sight(tab, ".lane-names li") >= 18


def test_hint_below_the_lanes_is_whole_on_a_phone(night: Any) -> None:
    tab = night(PHONE, "#/timeline", has_touch=True, is_mobile=True)
    drawn(tab)
    box = tab.find(".lane-box figcaption span").bounding_box()
    assert box["y"] + box["height"] <= PHONE[1]
    assert tab.page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    assert in_sight(tab, ".lane-names li") >= 4


# Events


def test_event_names_its_session_once_as_a_link_and_a_start_is_one_line(night: Any) -> None:
    tab = night(DESKTOP, "#/events")
    tab.until(lambda: tab.find(".feed li").count() > 0, "the events")
    lines = [text_of(line) for line in tab.find(".feed li").all()]
    assert len(lines) == SESSIONS + len(WAITING) + len(FAILED)
    assert not any(" is running" in line or "Child" in line or "Session" in line for line in lines)
    assert not any("waiting_input" in line for line in lines)
    assert tab.find(".feed li a").first.get_attribute("href", timeout=1000).startswith("#/s/")
    tab.find(".page-head select").select_option("started")
    tab.shows("is running")


def test_event_says_its_type_once(night: Any) -> None:
    found = [
        event(1, "completed", 1, 90, 'completed - "Nine questions"'),
        event(2, "idle", 30, 60, "idle: the turn ended"),
    ]
    tab = night(DESKTOP, "#/events", {"/v1/events": {"events": found, "next": None}})
    lines = tab.find(".feed li")
    tab.until(lambda: lines.count() == 2, "the events")
    assert text_of(lines.nth(0)).endswith(" idle developer-part-30: the turn ended")
    assert text_of(lines.nth(1)).endswith(' completed developer-part-1 - "Nine questions"')


# The start sheet


def open_sheet(tab: Tab) -> Locator:
    start = tab.find('.tools [data-act="spawn"]')
    tab.until(lambda: start.get_attribute("aria-disabled") == "false", "a start is possible")
    start.click()
    form = tab.find('[data-form="spawn"]')
    tab.until(
        lambda: form.locator('[name="agent_type"] option[value="Writer"]').count() == 1, "the agent types"
    )
    return form


@pytest.mark.parametrize(("size", "most"), [(DESKTOP, 110), (PHONE, 150)])
def test_foot_of_the_sheet_leaves_room_for_its_fields(night: Any, size: tuple[int, int], most: int) -> None:
    touch = size == PHONE
    tab = night(size, "", has_touch=touch, is_mobile=touch)
    form = open_sheet(tab)
    assert form.locator(".start-end").evaluate("(one) => one.getBoundingClientRect().height") <= most
    command = form.locator(".start-command code")
    command.scroll_into_view_if_needed()
    assert command.evaluate("(one) => one.scrollHeight <= one.clientHeight")
    gap = form.evaluate("""(form) => {
      const [field, files] = ['[name="prompt"]', ".start-files"].map((one) => form.querySelector(one));
      return files.firstElementChild.getBoundingClientRect().top - field.getBoundingClientRect().bottom;
    }""")
    assert gap >= 4, "the focus ring of the task does not touch what is below it"
