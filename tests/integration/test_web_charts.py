"""Spend and timeline in a real browser, with a real server, daemon and tmux. The test plays the hooks of agents."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import sm.web
from sm.client.http import Client
from sm.core.timestamps import epoch_s
from tests.browser import AXE, DESKTOP, PHONE, SCHEMES, Scheme, Tab, Visitor, shared_chromium, skip_without
from tests.fixtures import context_fixture
from tests.instance import until
from tests.integration.played_claude import Agent, Stage
from tests.integration.test_web_page import small_targets
from tests.web_server import WebServer, web_server

pytestmark = pytest.mark.browser

STATIC = Path(sm.web.__file__).with_name("static")
OPUS, HAIKU = "claude-opus-4-8", "claude-haiku-4-5"
browser = context_fixture("module", shared_chromium.use)
stage = context_fixture("module", Stage)


@pytest.fixture(scope="module")
def server(browser: Browser, stage: Stage) -> Iterator[WebServer]:
    with web_server(stage, "--scope", "all") as server:
        yield server


@pytest.fixture(scope="module")
def visitor(browser: Browser, server: WebServer) -> Visitor:
    return Visitor(browser, server)


def spend(agent: Agent, number: int, output: int, model: str) -> None:
    usage = {"input_tokens": 1000, "output_tokens": output}
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"p{number}")
    agent.write_message({"id": f"msg_{number}", "model": model, "content": [], "usage": usage})


@pytest.fixture(scope="module")
def team(stage: Stage) -> list[Agent]:
    """Two trees that have spent tokens of two models; one agent has a request, another session has failed."""
    lead = stage.agent("Plain", "--name", "lead")
    child = stage.agent("Plain", "--name", "child", "--parent", lead.id)
    other = stage.agent("Ruled", "--name", "other")
    for number, (agent, output, model) in enumerate(
        ((lead, 40_000, OPUS), (child, 90_000, HAIKU), (other, 20_000, OPUS))
    ):
        spend(agent, number, output, model)
    failed = stage.spawn("Sh", "exit 3", "--name", "broken")["session_id"]
    stage.ended(failed)
    child.open_dialog("Bash", {"command": "make install"})
    client = Client(str(stage.socket))
    until(lambda: total_of(client)["tokens"]["output"] == 150_000, "the usage is counted")
    return [lead, child, other]


def total_of(client: Client, **query: Any) -> Any:
    return client.get("/v1/usage/chart", query)["total"]


def drawn(tab: Tab, place: str) -> None:
    """Open a page with charts, and wait until it has drawn them."""
    tab.open(place)
    tab.until(lambda: tab.page.evaluate("Boolean(document.querySelector('.plot')?.plot)"), "the chart")


def values(tab: Tab, selector: str) -> list[float]:
    found: list[float] = tab.find(selector).evaluate_all("found => found.map((data) => Number(data.value))")
    return found


def sums_of_chart(tab: Tab) -> list[float]:
    """The sum of each group in the chart, the largest first. A bar reaches from 0 to the sum of all below it."""
    found: list[float] = tab.page.evaluate("""() => {
      const sums = document.querySelector(".plot").plot.data.slice(1).reverse()
        .map((bars) => bars.reduce((sum, value) => sum + value, 0));
      return sums.map((sum, place) => sum - (sums[place - 1] ?? 0));
    }""")
    return found


def test_tables_have_the_sums_of_the_chart_in_every_split(visitor: Visitor, team: list[Agent]) -> None:
    with visitor.tab() as tab:
        drawn(tab, "#/spend")
        tab.find(".times summary").click()
        for unit, column in (("cost", 1), ("tokens", 2)):
            tab.find("[data-choice=unit]").select_option(unit)
            for by, count in (("tree", 2), ("session", 3), ("model", 2), ("type", 2), ("account", 1)):
                tab.find("[data-choice=by]").select_option(by)
                tab.shows(f"By {by},")
                groups = values(tab, f".groups tbody td:nth-of-type({column}) data")
                assert len(groups) == count
                assert groups == sorted(groups, reverse=True) or unit == "tokens"
                assert sums_of_chart(tab) == pytest.approx(groups, abs=2e-6)
                (total,) = values(tab, f".groups tfoot td:nth-of-type({column}) data")
                assert total == pytest.approx(sum(groups), abs=1e-6)
                assert total == pytest.approx(
                    sum(values(tab, f".times td:nth-of-type({column}) data")), abs=1e-6
                )
        assert total == 153_000


def test_chart_tells_values_at_the_keys_and_zooms_in_and_back(visitor: Visitor, team: list[Agent]) -> None:
    with visitor.tab() as tab:
        drawn(tab, "#/spend")
        words = tab.find(".plot figcaption")
        tab.find(".plot").focus()
        tab.press("ArrowRight")  # the newest part
        tab.until(lambda: "$" in words.inner_text() and "-lead" in words.inner_text(), "the values")
        assert tab.find(".tip").is_visible()
        asked = scale(tab)
        tab.press("+")
        tab.until(lambda: scale(tab)[1] - scale(tab)[0] < (asked[1] - asked[0]) * 0.7, "the zoom")
        tab.find(".plot").focus()
        tab.press("Backspace")
        tab.until(lambda: scale(tab)[1] - scale(tab)[0] >= asked[1] - asked[0], "all of the time")
        tab.find("[data-range='1h']").click()
        tab.until(lambda: "per 1 min" in tab.text(), "parts of a minute")
        assert tab.find("[data-range='1h']").get_attribute("aria-pressed") == "true"


def scale(tab: Tab) -> list[float]:
    """The beginning and the end of the time that the chart shows."""
    found: list[float] = tab.page.evaluate(
        "() => { const { min, max } = document.querySelector('.plot').plot.scales.x; return [min, max]; }"
    )
    return found


@pytest.mark.parametrize(("place", "chart"), [("#/spend", ".u-over"), ("#/timeline", ".lanes")])
def test_drag_zooms_to_its_time(visitor: Visitor, team: list[Agent], place: str, chart: str) -> None:
    with visitor.tab() as tab:
        drawn(tab, place)
        tab.find("[data-range='1h']").click()
        tab.until(lambda: 3500 < scale(tab)[1] - scale(tab)[0] < 3800, "an hour")
        start, end = scale(tab)
        box = tab.find(chart).first.bounding_box()
        assert box is not None
        middle = box["y"] + min(40, box["height"] / 2)
        tab.page.mouse.move(box["x"] + box["width"] * 0.25, middle)
        tab.page.mouse.down()
        tab.page.mouse.move(box["x"] + box["width"] * 0.5, middle)
        tab.page.mouse.move(box["x"] + box["width"] * 0.75, middle)
        tab.page.mouse.up()
        tab.until(lambda: scale(tab)[1] - scale(tab)[0] < 2400, "the half of it")
        assert scale(tab)[0] == pytest.approx(start + (end - start) * 0.25, abs=120)
        tab.find("[data-zoom=back]").click()
        tab.until(lambda: scale(tab)[1] - scale(tab)[0] > 3500, "the hour")


def test_times_are_those_of_the_viewer(visitor: Visitor, team: list[Agent]) -> None:
    labels = "() => document.querySelector('.plot').plot.axes[0]._values"
    days = {}
    for zone in ("Asia/Tokyo", "America/New_York"):
        with visitor.tab(timezone_id=zone) as tab:
            drawn(tab, "#/timeline")
            tab.find("[data-range='7d']").click()
            tab.until(lambda: scale(tab)[1] - scale(tab)[0] > 6 * 86_400, "seven days")
            *shown, _ = tab.page.evaluate(labels)  # the last one may have no room for its day
            assert all("\n" in label for label in shown)  # each tick is another day
            ticks = tab.page.evaluate("() => document.querySelector('.plot').plot.axes[0]._splits")
            days[zone] = {tick % 86_400 for tick in ticks}
    assert days["Asia/Tokyo"] == {15 * 3600}  # midnight there
    assert days["America/New_York"] <= {4 * 3600, 5 * 3600}


# The timeline


def test_timeline_leads_from_a_failure_to_its_event(
    stage: Stage, visitor: Visitor, team: list[Agent]
) -> None:
    (event,) = (e for e in stage.json("events", "--limit", "100") if e["type"] == "error")
    with visitor.tab() as tab:
        drawn(tab, "#/timeline")
        tab.shows("1 failure", "Waiting for you:")
        link, name = tab.find(".failures a").all()
        assert name.inner_text() == "sh-broken"
        assert name.get_attribute("href") == f"#/s/{event['session_id']}/peek"
        assert tab.find(".lane-names .failed").inner_text() == "sh-broken"
        link.click()
        place = tab.find(".feed li.at")
        tab.until(lambda: place.count() == 1, "the event")
        assert place.get_attribute("data-seq") == str(event["seq"])
        tab.find(".page .back").click()
        tab.until(lambda: tab.find(".lane-name").count() > 0, "the timeline again")


def test_click_and_enter_on_a_lane_lead_to_the_event_of_that_place(
    stage: Stage, visitor: Visitor, team: list[Agent]
) -> None:
    child = team[1]
    with visitor.tab() as tab:
        drawn(tab, "#/timeline")
        tab.find("[data-range='1h']").click()
        tab.until(lambda: 3500 < scale(tab)[1] - scale(tab)[0] < 3800, "an hour")
        names = tab.find(".lane-name").all_text_contents()
        lane = next(place for place, name in enumerate(names) if name.endswith("-child"))
        words = tab.find(".lane-box figcaption")
        tab.find(".lane-box").focus()
        tab.press(*["ArrowDown"] * lane or ["ArrowRight"], *["ArrowRight"] * 20)
        tab.until(lambda: "-child: request at" in words.inner_text(), "the newest mark")
        tab.press("ArrowLeft")
        tab.until(lambda: "-child: waiting for" in words.inner_text(), "the span before it")
        assert "to now" in words.inner_text()
        tab.press("Enter")
        place = tab.find(".feed li.at")
        tab.until(lambda: place.count() == 1, "the event")
        (blocked,) = (
            e for e in stage.json("events", "--limit", "100", child.id) if e["type"] == "waiting_input"
        )
        assert place.get_attribute("data-seq") == str(blocked["seq"])
        tab.open("#/timeline")
        tab.until(lambda: tab.find(".lane-name").count() == len(names), "the lanes")
        start, end = scale(tab)
        box = tab.find(".lanes").bounding_box()
        assert box is not None
        x = box["x"] + box["width"] * (epoch_s(blocked["timestamp"]) + 0.5 - start) / (end - start)
        y = box["y"] + box["height"] * (lane + 0.5) / len(names)
        tab.page.mouse.click(x, y)
        tab.until(lambda: place.count() == 1, "an event at the pointer")
        assert child.id in str(place.locator("a").get_attribute("href"))


def test_range_since_the_person_left_begins_when_the_page_was_last_seen(
    visitor: Visitor, team: list[Agent]
) -> None:
    with visitor.tab() as tab:
        tab.page.evaluate("""() => {
          const hour = 3600_000;
          localStorage.setItem("sm.seen", JSON.stringify({ seen: Date.now() - 2 * hour }));
          addEventListener("pagehide", (event) => event.stopImmediatePropagation(), true);
          Object.defineProperty(document, "hidden", { get: () => true });
        }""")
        tab.page.reload()
        tab.is_in_phase("live")
        drawn(tab, "#/timeline")
        tab.find("[data-range=left]").click()
        tab.until(lambda: 7100 < scale(tab)[1] - scale(tab)[0] < 7400, "two hours")
        assert "Since I left" in tab.find("[data-range=left]").inner_text()


# The page


def test_charts_are_loaded_when_they_are_opened(visitor: Visitor, team: list[Agent]) -> None:
    loaded = "() => performance.getEntriesByType('resource').map((entry) => new URL(entry.name).pathname)"
    late = ("uplot.js", "uplot.css", "charts.css", "spend.js", "chart.js")
    with visitor.tab() as tab:
        assert not [path for path in tab.page.evaluate(loaded) if path.endswith(late)]
        drawn(tab, "#/spend")
        paths = tab.page.evaluate(loaded)
        assert all(any(path.endswith(f"/{name}") for path in paths) for name in late)


@pytest.mark.parametrize(("size", "schemes"), [(DESKTOP, SCHEMES), (PHONE, ("light",))])
def test_charts_have_no_violations_of_accessibility(
    visitor: Visitor, team: list[Agent], size: tuple[int, int], schemes: Sequence[Scheme]
) -> None:
    skip_without(AXE.exists(), "axe-core")
    touch = size == PHONE
    with visitor.tab(size, has_touch=touch, is_mobile=touch) as tab:
        for place in ("#/spend", "#/timeline", "#/events/5"):
            if place == "#/events/5":
                tab.open(place)
            else:
                drawn(tab, place)
                tab.find(".times summary").click()
            assert (place, tab.violations(*schemes)) == (place, [])
            assert tab.page.evaluate("document.documentElement.scrollWidth") == size[0]
            if touch:
                assert small_targets(tab) == []
