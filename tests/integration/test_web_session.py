"""The page of a session in a real browser: its head, its terminal, its tabs and the field for a message."""

from collections.abc import Iterator, Sequence

import pytest
from playwright.sync_api import Browser

from tests.browser import AXE, DESKTOP, PHONE, SCHEMES, Scheme, Tab, Visitor, shared_chromium, skip_without
from tests.fixtures import context_fixture
from tests.integration.played_claude import Stage
from tests.web_server import WebServer, web_server

pytestmark = pytest.mark.browser

browser = context_fixture("module", shared_chromium.use)
stage = context_fixture("module", Stage)
AT_END = "screen => screen.scrollTop + screen.clientHeight >= screen.scrollHeight - 4"
TOAST_IS_ABOVE = """() => {
    const box = (name) => document.querySelector(name).getBoundingClientRect();
    return box(".toast").bottom <= box(".compose").top && box(".compose").bottom <= innerHeight;
}"""
OVERFLOWS = "screen => screen.scrollHeight > screen.clientHeight + 100"


@pytest.fixture(scope="module")
def server(browser: Browser, stage: Stage) -> Iterator[WebServer]:
    with web_server(stage, "--scope", "all") as server:
        yield server


@pytest.fixture(scope="module")
def visitor(browser: Browser, server: WebServer) -> Visitor:
    return Visitor(browser, server)


class Printer:
    """A program with a terminal of a certain size, which prints when the test wants it."""

    def __init__(self, stage: Stage, first: str, columns: int = 80, rows: int = 40) -> None:
        self.stage = stage
        self.gate = stage.work / "gate"
        self.gate.unlink(missing_ok=True)
        size = f"until stty size | grep -q '^{rows} {columns}$'; do sleep 0.1; done"
        script = (
            f"{size}; {first}; until [ -e {self.gate} ]; do sleep 0.1; done; cat {self.gate}; exec sleep 1000"
        )
        self.id = str(stage.spawn("Sh", script)["session_id"])
        stage.tmux("resize-window", "-t", f"command-{self.id}", "-x", str(columns), "-y", str(rows))

    def print(self, text: str) -> None:
        ready = self.gate.with_suffix(".ready")
        ready.write_text(text)
        ready.rename(self.gate)

    def end(self) -> None:
        self.stage.sm("kill", self.id, "--force")


def shows(tab: Tab, text: str) -> None:
    tab.until(lambda: text in tab.find(".screen").inner_text(), f"the terminal shows {text}")


def scroll_up(tab: Tab, pixels: int = 200) -> None:
    tab.find(".screen").hover()
    tab.page.mouse.wheel(0, -pixels)
    tab.until(lambda: tab.find('.terminal[data-follows="false"]').count() == 1, "the terminal stands still")


# The head


def test_head_is_one_line_with_two_actions_that_fit_and_a_menu(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent("Plain", "--name", "headed")
    with visitor.tab(place=f"#/s/{agent.id}/peek") as tab:
        buttons = tab.find(".acts > button")
        tab.until(
            lambda: buttons.all_inner_texts() == ["Interrupt", "Attach"], "the actions of a running agent"
        )
        assert tab.find("#session-title").inner_text().split()[-1] == "plain-headed"
        dialog = agent.open_dialog("Bash", {"command": "make"})
        names = [f"Answer {dialog.name}", "Interrupt"]
        tab.until(lambda: buttons.all_inner_texts() == names, "the actions of one that waits")
        assert tab.find(".acts .go").all_inner_texts() == names[:1]
        tops = tab.find(".session-line > *").evaluate_all("all => all.map((e) => e.getBoundingClientRect())")
        assert max(box["top"] for box in tops) < min(box["bottom"] for box in tops if box["height"])
        assert tab.find('.session [aria-disabled="true"]').count() == 0
        buttons.first.click()
        tab.until(
            lambda: tab.page.evaluate("document.activeElement.dataset.need") == dialog.name, "the request"
        )
        stage.sm("kill", agent.id, "--force")
        tab.until(
            lambda: buttons.all_inner_texts() == ["Restore", "Archive"], "the actions of one that has ended"
        )


def test_reason_of_the_status_has_the_room_beside_the_list(stage: Stage, visitor: Visitor) -> None:
    agent = stage.agent("Plain", "--name", "waiter")
    with visitor.tab(place=f"#/s/{agent.id}/why") as tab:
        agent.open_dialog("Bash", {"command": "make build && make deploy-to-staging"})
        status = tab.find(".session-status")
        tab.until(lambda: "make deploy-to-staging" in status.inner_text(), "the reason")
        box = status.evaluate("e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]")
        assert max(box) <= 1, f"{status.inner_text()} is cut by {box}"
    stage.sm("kill", agent.id, "--force")


def test_menu_has_the_other_actions_and_closes_with_escape(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", "exec sleep 1000", "--name", "other")["session_id"]
    with visitor.tab(place=f"#/s/{agent}/why") as tab:
        tab.until(lambda: tab.find(".acts > button").count() == 2, "the actions")
        menu, rename = tab.find(".session-menu summary"), tab.find('.session-menu [data-act="rename"]')
        assert not rename.is_visible()
        menu.click()
        assert rename.inner_text().split() == ["Rename", "R"]
        assert tab.find('.session-menu [data-act="restore"]').count() == 0, "it is not possible"
        tab.press("Escape")
        tab.until(lambda: not rename.is_visible(), "the menu is closed")
        assert tab.find(".session").count() == 1
        menu.click()
        tab.find('.session-menu button:has-text("Details")').click()
        tab.until(lambda: agent in tab.find("#session-facts").inner_text(), "the other facts")
        assert not rename.is_visible()
    stage.sm("kill", agent, "--force")


@pytest.mark.parametrize(("size", "schemes"), [(DESKTOP, SCHEMES), (PHONE, ("light",))])
def test_head_menu_and_search_have_no_violations_of_accessibility(
    stage: Stage, visitor: Visitor, size: tuple[int, int], schemes: Sequence[Scheme]
) -> None:
    skip_without(AXE.exists(), "axe-core")
    agent = stage.spawn("Sh", "seq 9; exec sleep 1000")["session_id"]
    with visitor.tab(size, f"#/s/{agent}/peek") as tab:
        shows(tab, "9")
        menu = tab.find(".session-menu summary")
        menu.click()
        tab.find('.session-menu button:has-text("Details")').click()
        menu.click()
        assert tab.violations(*schemes) == []
        tab.find('.session-menu [data-act="find"]').click()
        tab.page.keyboard.type("9")
        tab.until(lambda: tab.find(".find .hint").inner_text() == "1 of 1", "the match")
        assert tab.violations(*schemes) == []
        menu.click()
        tab.find('.session-menu button:has-text("Hide")').click()
    stage.sm("kill", agent, "--force")


# The terminal


def test_terminal_opens_at_its_end_and_follows_it(stage: Stage, visitor: Visitor) -> None:
    printer = Printer(stage, "seq 1000 1060", rows=80)
    with visitor.tab(place=f"#/s/{printer.id}/peek") as tab:
        shows(tab, "1060")
        screen = tab.find(".screen")
        assert screen.evaluate(OVERFLOWS)
        assert screen.evaluate(AT_END)
        assert tab.find(".to-end").is_hidden()
        printer.print("newest line\n")
        shows(tab, "newest line")
        assert screen.evaluate(AT_END)
    printer.end()


def test_terminal_stands_still_while_a_person_reads_above_and_counts_what_is_new(
    stage: Stage, visitor: Visitor
) -> None:
    printer = Printer(stage, "seq 1000 1060", rows=80)
    with visitor.tab(place=f"#/s/{printer.id}/peek") as tab:
        shows(tab, "1060")
        scroll_up(tab)
        before = tab.find(".screen").inner_text()
        printer.print("one\ntwo\nthree\n")
        tab.until(lambda: tab.find(".to-end").inner_text() == "3 new lines ↓", "the number of new lines")
        assert tab.find(".screen").inner_text() == before
        tab.find(".to-end").click()
        shows(tab, "three")
        tab.until(lambda: tab.find(".to-end").is_hidden(), "it follows again")
        assert tab.find(".screen").evaluate(AT_END)
    printer.end()


def test_lines_that_have_left_the_screen_come_when_a_person_scrolls_to_the_top(
    stage: Stage, visitor: Visitor
) -> None:
    printer = Printer(stage, "seq 1001 6000")
    with visitor.tab(place=f"#/s/{printer.id}/peek") as tab:
        shows(tab, "6000")
        assert tab.find(".screen-now > div").count() == 39
        scroll_up(tab, 10_000)
        tab.until(lambda: tab.find(".screen-past > div").count() > 1000, "earlier lines")
        lines = tab.find(".screen").inner_text().split()
        numbers = [int(line) for line in lines if line.isdecimal()]
        assert numbers == [*range(numbers[0], 6001)], "each line once"
        tab.find(".screen > .plain").click()
        tab.until(lambda: tab.find(".screen-past > div").count() == 5000 - 39, "all lines")
        tab.find(".to-end").click()
        tab.until(lambda: tab.find(".screen-past > div").count() == 0, "only the screen")
        assert tab.find(".screen").evaluate(AT_END)
    printer.end()


@pytest.mark.parametrize(("columns", "font"), [(60, 14), (90, None), (300, 9)])
def test_columns_are_fitted_to_the_width(
    stage: Stage, visitor: Visitor, columns: int, font: float | None
) -> None:
    printer = Printer(stage, f"printf 'x%.0s' $(seq {columns})", columns=columns)
    with visitor.tab(place=f"#/s/{printer.id}/peek") as tab:
        shows(tab, "x" * columns)
        size = float(tab.find(".terminal").get_attribute("data-font") or 0)
        assert size == font if font else 9 < size < 14
        fits = "screen => screen.scrollWidth <= screen.clientWidth"
        assert tab.find(".screen").evaluate(fits) is (columns < 300)
        if columns == 90:
            tab.find(".session-menu summary").click()
            tab.find('.widths input[value="scroll"]').check()
            tab.until(lambda: tab.find('.terminal[data-font="14"]').count() == 1, "the usual size")
            assert not tab.find(".screen").evaluate(fits)
            tab.page.reload()
            tab.is_in_phase("live")
            shows(tab, "x" * columns)
            assert tab.find('.terminal[data-font="14"]').count() == 1, "it is remembered"
    printer.end()


def test_search_counts_and_marks_matches_also_in_earlier_lines(stage: Stage, visitor: Visitor) -> None:
    printer = Printer(stage, "seq 1001 1200; echo needle; seq 2001 2100; echo 'a Needle and a needle'")
    with visitor.tab(place=f"#/s/{printer.id}/peek") as tab:
        shows(tab, "a Needle")
        tab.find("#session-title").focus()
        tab.press("/")
        tab.until(lambda: tab.find(".find input:focus").count() == 1, "the field")
        tab.page.keyboard.type("needle")
        count = tab.find(".find .hint")
        tab.until(lambda: count.inner_text() == "3 of 3", "the number of matches")
        marked = "[...CSS.highlights.get('sm-found-here')].map(String)"
        assert tab.page.evaluate(marked) == ["needle"]
        tab.press("Enter")
        assert count.inner_text() == "1 of 3"
        assert tab.find(".screen-past .found").inner_text() == "needle"
        assert not tab.find(".screen").evaluate(AT_END)
        tab.press("Shift+Enter")
        assert count.inner_text() == "3 of 3"
        tab.find('.find [aria-label="Previous"]').click()
        assert tab.page.evaluate(marked) == ["Needle"]
        tab.find(".find input").fill("nowhere")
        tab.until(lambda: count.inner_text() == "not found", "no match")
        tab.find(".find input").press("Escape")
        tab.until(lambda: tab.find(".screen:focus").count() == 1, "the end of the search")
        assert tab.find(".screen").evaluate(AT_END)
        assert tab.page.evaluate("CSS.highlights.size") == 0
        tab.press("Control+f")
        tab.until(lambda: tab.find(".find input:focus").count() == 1, "the field again")
    printer.end()


def test_links_lead_where_their_text_says(stage: Stage, visitor: Visitor) -> None:
    texts = {
        "see https://example.org/a?b=c#d.": ["https://example.org/a?b=c#d"],
        "(https://example.org/a_(b))": ["https://example.org/a_(b)"],
        "http://localhost:80/": ["http://localhost:80/"],
        "javascript:alert(1)": [],
        "https://good.example@bad.example/": [],
        "https://good.example\\@bad.example/": [],
        "https://g\N{CYRILLIC SMALL LETTER O}od.example/": [],
        "data:text/html,x": [],
    }
    path = stage.work / "links"
    path.write_text("".join(f"{text}\n" for text in texts))
    printer = Printer(stage, f"cat {path}")
    with visitor.tab(place=f"#/s/{printer.id}/peek") as tab:
        shows(tab, "data:text")
        links = tab.find(".screen a")
        found = [
            [
                entry.inner_text(),
                entry.get_attribute("href"),
                entry.get_attribute("rel"),
                entry.get_attribute("target"),
            ]
            for entry in links.all()
        ]
        expected = [link for made in texts.values() for link in made]
        assert found == [[link, link, "noopener noreferrer", "_blank"] for link in expected]
    printer.end()


def test_silent_and_ended_terminals_say_so(stage: Stage, visitor: Visitor) -> None:
    silent = stage.spawn("Sh", "exec sleep 1000")["session_id"]
    agent = stage.spawn("Sh", "exit 0")["session_id"]
    stage.ended(agent)
    with visitor.tab(place=f"#/s/{agent}/peek") as tab:
        tab.shows("It has printed nothing.", "No message can be sent")
        assert tab.find(".compose textarea").count() == 0
        tab.open(f"#/s/{silent}/peek")
        shows(tab, "The terminal is empty.")
    stage.sm("kill", silent, "--force")


def test_terminal_of_another_session_is_followed_when_one_has_ended(stage: Stage, visitor: Visitor) -> None:
    first = Printer(stage, "echo first")
    second = stage.spawn("Sh", "echo second; exec sleep 1000")["session_id"]
    with visitor.tab(place=f"#/s/{first.id}/peek") as tab:
        shows(tab, "first")
        first.end()
        tab.until(lambda: tab.find(".panel .hint").count() == 1, "the last output")
        shows(tab, "first")
        tab.open(f"#/s/{second}/peek")
        shows(tab, "second")
        tab.until(lambda: tab.find(".terminal[data-updates]").count() == 1, "the live screen")
    stage.sm("kill", second, "--force")


def test_end_of_one_terminal_says_nothing_of_the_next(stage: Stage, visitor: Visitor) -> None:
    """The stream of a terminal may say that it is over before the row of its session has no process."""
    first = Printer(stage, "echo first")
    second = stage.spawn("Sh", "echo second; exec sleep 1000")["session_id"]
    with visitor.tab(place=f"#/s/{first.id}/peek") as tab:
        tab.until(lambda: tab.find(".terminal[data-updates]").count() == 1, "the live screen")
        tab.page.evaluate(
            """async (session) => {
                const url = performance.getEntriesByType("resource").find(({name}) => name.endsWith("/ui.js")).name;
                const {ui} = await import(url);
                ui.screen.take({t: "screen", session, rows: {}, over: true});
            }""",
            first.id,
        )
        tab.open(f"#/s/{second}/peek")
        tab.until(lambda: tab.find(".terminal[data-updates]").count() == 1, "the live screen of the second")
        shows(tab, "second")
    first.end()
    stage.sm("kill", second, "--force")


# The tabs


def test_tabs_keep_their_place_for_each_session(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", "exec sleep 1000", "--name", "kept")["session_id"]
    other = stage.spawn("Sh", "exec sleep 1000", "--name", "beside")["session_id"]
    for number in range(30):
        stage.sm("checkpoint", f"step {number}\n" + "words " * 100, env=stage.as_session(agent))
    with visitor.tab(place=f"#/s/{agent}/events") as tab:
        tab.until(lambda: tab.find(".panel details").count() >= 30, "the checkpoints")
        panel = tab.find("#tab-panel")
        tab.find(".panel summary").nth(2).click()
        panel.evaluate("panel => panel.scrollTop = 300")
        tab.page.evaluate(
            "() => getSelection().selectAllChildren(document.querySelectorAll('.panel summary')[1])"
        )
        text = tab.page.evaluate("String(getSelection())")
        assert text
        for place in (f"#/s/{agent}/why", f"#/s/{other}/events"):
            tab.open(place)
            assert panel.evaluate("panel => panel.scrollTop") == 0
            tab.open(f"#/s/{agent}/events")
            assert panel.evaluate("panel => panel.scrollTop") == 300
            assert tab.page.evaluate("String(getSelection())") == text
            assert tab.find(".panel details[open]").count() == 1
    stage.sm("kill", agent, other, "--force")


def test_terminal_keeps_its_place_behind_another_tab(stage: Stage, visitor: Visitor) -> None:
    printer = Printer(stage, "seq 1000 1060", rows=80)
    with visitor.tab(place=f"#/s/{printer.id}/peek") as tab:
        shows(tab, "1060")
        scroll_up(tab)
        top = tab.find(".screen").evaluate("screen => screen.scrollTop")
        tab.open(f"#/s/{printer.id}/why")
        tab.open(f"#/s/{printer.id}/peek")
        assert tab.find(".screen").evaluate("screen => screen.scrollTop") == top
        printer.print("newest line\n")
        tab.until(lambda: tab.find(".to-end").inner_text() == "1 new line ↓", "the new line")
    printer.end()


# The message


def test_toast_never_covers_the_field_for_a_message(stage: Stage, visitor: Visitor) -> None:
    agent = stage.spawn("Sh", "exec sleep 1000")["session_id"]
    for size in (DESKTOP, PHONE):
        with visitor.tab(size, f"#/s/{agent}/peek") as tab:
            tab.until(lambda: tab.find('.compose [data-act="send"]').count() == 1, "the field")
            tab.find("#message").fill("one\ntwo\nthree\nfour")
            tab.find("#session-title").focus()
            tab.press("N")
            tab.shows("nothing needs you")
            tab.until(
                lambda: tab.page.evaluate(TOAST_IS_ABOVE),
                "the toast stands above the field",
            )
    stage.sm("kill", agent, "--force")


def test_message_is_kept_for_each_session_with_what_will_happen_beside_the_button(
    stage: Stage, visitor: Visitor
) -> None:
    agent, other = stage.agent(), stage.agent()
    dialog = agent.open_dialog("Bash", {"command": "make"})
    with visitor.tab(place=f"#/s/{agent.id}/peek") as tab:
        says = tab.find(".compose-line #message-says")
        tab.until(
            lambda: f"Will be held until {dialog.name} is answered" in says.inner_text(), "the prediction"
        )
        tab.find("#message").fill("for the first")
        tab.open(f"#/s/{other.id}/peek")
        assert tab.find("#message").input_value() == ""
        tab.find("#message").fill("for the second")
        tab.open(f"#/s/{agent.id}/peek")
        assert tab.find("#message").input_value() == "for the first"
    stage.sm("kill", agent.id, other.id, "--force")
