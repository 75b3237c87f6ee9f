"""The files of a message in a real browser: how they are added, uploaded, kept and removed. The server is played."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Locator, Page, Route

from tests.board.samples import row_data
from tests.board.test_spawn_sheet import KNOWN, kind
from tests.browser import AXE, DESKTOP, Tab, skip_without
from tests.fixtures import context_fixture
from tests.web.played_page import PlayedDaemon, PlayedPages, played_pages

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PHONE = (390, 844)
PLACE = "#/s/0000000a/messages"
PLAIN = "#/s/0000000b/messages"
ROWS = [
    row_data("0000000a", name="engineer-a", takes_files=True),
    row_data("0000000b", name="shell-b", agent_type="Sh", takes_files=False),
]
CHOICES = {**KNOWN, "types": [*KNOWN["types"], kind("Sh", provider="command", takes_files=False)]}
SH_TAKES_NONE = (
    "Sh takes no files, because it reads messages line by line. Write the path of the file into the {}."
)
PNG = list(b"\x89PNG\r\n\x1a\n")
DROP = """(target, files) => {
  const data = new DataTransfer();
  for (const [name, type, bytes, times] of files)
    data.items.add(new File(Array(times ?? 1).fill(new Uint8Array(bytes)), name, { type }));
  for (const kind of ["dragover", "drop"])
    target.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
"""Drops files, each with its name, type and bytes, and how often it has these bytes."""
PASTE = """(target, [text, files]) => {
  const data = new DataTransfer();
  if (text) data.setData("text/plain", text);
  for (const [name, type, bytes] of files) data.items.add(new File([new Uint8Array(bytes)], name, { type }));
  return !target.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""
"""Pastes a text and files; returns whether the page took them."""

pages = context_fixture("module", played_pages)


class Uploads:
    """The uploads of a page. The test answers each one, unless `answers` does."""

    def __init__(self, page: Page) -> None:
        self.held = dict[str, Route]()
        """By their names: two uploads begin in any order."""
        self.names = list[str]()
        self.removed = list[str]()
        self.is_held = False
        page.route("**/api/v1/files?*", self._take)
        page.route("**/api/v1/files/*", self._remove)

    def _take(self, route: Route) -> None:
        name = unquote(route.request.url.partition("name=")[2])
        self.names.append(name)
        if self.is_held:
            self.held[name] = route
        else:
            self.answer(route)

    def _remove(self, route: Route) -> None:
        assert route.request.method == "DELETE"
        self.removed.append(route.request.url.rpartition("/")[2])
        route.fulfill(status=200, json={})

    def answer(self, route: Route) -> None:
        assert route.request.method == "POST"
        assert route.request.headers["content-type"] == "application/octet-stream"
        assert route.request.headers["authorization"].startswith("Bearer ")
        route.fulfill(status=201, json={"file_id": f"f-{len(self.names)}", "name": "x", "size": 1})


class Visit:
    """A tab, its uploads and the field for a message."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.uploads = Uploads(tab.page)

    @property
    def form(self) -> Locator:
        """The field for a message, or the sheet that starts an agent."""
        return self.tab.find("[data-files]").last

    def chips(self) -> list[str]:
        found: list[str] = self.tab.find(".file").evaluate_all(
            "all => all.map((one) => `${one.querySelector('.file-name').textContent} ${one.dataset.state}`)"
        )
        return found

    def has(self, *chips: str) -> None:
        self.tab.until(lambda: self.chips() == [*chips], f"the files {chips}")

    def drop(self, *files: tuple[str, str, list[int]] | tuple[str, str, list[int], int]) -> None:
        self.form.evaluate(DROP, files)

    def holds(self, count: int) -> None:
        # A look at the page lets the requests through.
        self.tab.until(lambda: self.tab.text() and len(self.uploads.held) == count, f"{count} uploads")

    def notice(self, words: str) -> None:
        self.tab.until(lambda: self.tab.find(".file-notice").inner_text() == words, f"the words {words!r}")

    def open_sheet(self) -> None:
        self.tab.open("#/")
        start = self.tab.find('.tools [data-act="spawn"]')
        self.tab.until(lambda: start.get_attribute("aria-disabled") == "false", "a start is possible")
        start.click()
        kinds = self.tab.find('.start [name="agent_type"] option[value="Sh"]')
        self.tab.until(lambda: kinds.count() == 1, "the agent types")

    def open(self, place: str) -> None:
        self.tab.open(place)
        self.tab.until(lambda: self.form.count() == 1, "the field for a message")


@pytest.fixture
def visited(pages: PlayedPages) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:

        def visit(size: tuple[int, int] = DESKTOP, **options: Any) -> Visit:
            daemon = PlayedDaemon(ROWS, choices=CHOICES)
            tab = stack.enter_context(pages.visit(daemon, **options)).tab(size)
            made = Visit(tab)
            stack.callback(lambda: assert_clean(tab))
            made.open(PLACE)
            return made

        yield visit


def assert_clean(tab: Tab) -> None:
    assert tab.problems == []


def test_dropped_files_are_uploaded_at_once_and_removed_again(visited: Any) -> None:
    visit = visited()
    visit.uploads.is_held = True
    visit.drop(("shot.png", "image/png", PNG), ("log.txt", "text/plain", [97], 12_345))
    visit.drop(("shot.png", "image/png", PNG))
    visit.has("shot.png uploading", "log.txt uploading", "shot-2.png waiting")
    assert visit.tab.find(".file").nth(1).locator(".hint").inner_text() == "12 kB"
    visit.holds(2)
    visit.uploads.answer(visit.uploads.held.pop("log.txt"))
    visit.has("shot.png uploading", "log.txt done", "shot-2.png uploading")
    visit.tab.find('[aria-label="Remove shot.png"]').click()
    visit.has("log.txt done", "shot-2.png uploading")
    visit.tab.find('[aria-label="Remove log.txt"]').focus()
    visit.tab.press("Enter")
    visit.has("shot-2.png uploading")
    focused = visit.tab.page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == "Remove shot-2.png"
    visit.tab.until(lambda: visit.tab.text() and visit.uploads.removed == ["f-2"], "the removal")
    assert sorted(visit.uploads.names[:2]) == ["log.txt", "shot.png"]
    assert visit.uploads.names[2:] == ["shot-2.png"]


def test_pasted_picture_gets_a_number_and_pasted_text_stays_text(visited: Any) -> None:
    visit = visited()
    message = visit.form.locator("textarea")
    picture = ["image.png", "image/png", PNG]
    assert message.evaluate(PASTE, ["", [picture]])
    assert visit.tab.find("body").evaluate(PASTE, ["", [picture]]), "the focus is not in the field"
    assert message.evaluate(PASTE, ["/home/me/notes.md", [["notes.md", "", [97]]]])
    visit.has("image-1.png done", "image-2.png done", "notes.md done")
    assert not message.evaluate(PASTE, ["a table", [picture]]), "the picture shows the text"
    assert not message.evaluate(PASTE, ["words", []])
    assert not visit.tab.find("#filter").evaluate(PASTE, ["", [picture]]), "another field"
    visit.tab.find('[aria-label="Remove image-1.png"]').click()
    message.evaluate(PASTE, ["", [picture]])
    visit.has("image-2.png done", "notes.md done", "image-1.png done")


def test_files_are_chosen_with_a_button(visited: Any) -> None:
    visit = visited()
    entry = visit.form.locator('[data-act="add-file"]')
    entry.focus()
    assert visit.form.locator(".file-button").evaluate("label => label.matches(':focus-within')")
    one = {"name": "one.txt", "mimeType": "text/plain", "buffer": b"1"}
    entry.set_input_files([one, {**one, "name": "two.txt"}])
    visit.has("one.txt done", "two.txt done")
    entry.set_input_files([one])
    visit.has("one.txt done", "two.txt done", "one-2.txt done")


def test_failed_upload_stands_at_its_file_and_is_tried_again(visited: Any) -> None:
    visit = visited()
    visit.uploads.is_held = True
    visit.drop(("a.png", "image/png", PNG), ("b.png", "image/png", PNG))
    visit.holds(2)
    first, second = visit.uploads.held["a.png"], visit.uploads.held["b.png"]
    error = {"error": {"code": "usage", "message": "the disk is full", "hint": None}}
    first.fulfill(status=507, json=error)
    second.abort()
    visit.has("a.png failed", "b.png failed")
    words = visit.tab.find('.file [role="alert"]')
    visit.tab.until(lambda: words.all_inner_texts() == ["the disk is full", "no connection to sm web"], "why")
    visit.form.locator("textarea").fill("look")
    visit.form.locator('[data-act="send"]').click()
    visit.tab.shows("not sent: a.png is not uploaded: try again, or remove it")
    assert visit.form.locator("textarea").input_value() == "look"
    visit.uploads.is_held = False
    visit.tab.find('.file [data-act="upload-again"]').first.click()
    visit.has("a.png done", "b.png failed")
    again = visit.tab.find('.file [data-act="upload-again"]')
    again.focus()
    visit.tab.press("Enter")
    visit.has("a.png done", "b.png done")
    assert visit.tab.page.evaluate("document.activeElement.getAttribute('aria-label')") == "Remove b.png"


def test_send_waits_for_uploads_and_nothing_is_lost_when_it_fails(visited: Any) -> None:
    """The played daemon takes no message."""
    visit = visited()
    frames = list[dict[str, Any]]()
    note = lambda data: frames.append(json.loads(data))  # noqa: E731
    visit.tab.page.on("websocket", lambda socket: socket.on("framesent", note))
    visit.tab.page.reload()
    visit.tab.is_in_phase("live")
    visit.open(PLACE)
    visit.uploads.is_held = True
    visit.drop(("a.png", "image/png", PNG))
    visit.holds(1)
    visit.form.locator("textarea").fill("what is wrong here?")
    visit.tab.press("Control+Enter")
    says = visit.tab.find("#message-says")
    visit.tab.until(lambda: says.inner_text() == "Will be sent when 1 file is uploaded", "it waits")
    assert visit.form.locator('[data-act="send"]').inner_text().split()[0] == "Uploading"
    visit.form.locator("textarea").fill("the next message")
    visit.open(PLAIN)
    assert visit.chips() == []
    visit.uploads.answer(visit.uploads.held.pop("a.png"))
    visit.tab.shows("no such session")
    sent = [frame for frame in frames if frame["t"] == "act"]
    assert [(act["session"], act["text"], act["files"]) for act in sent] == [
        ("0000000a", "what is wrong here?", ["f-1"])
    ]
    visit.open(PLACE)
    visit.has("a.png done")
    assert visit.form.locator("textarea").input_value() == "the next message"


def test_uploaded_files_survive_a_reload_and_are_shared_with_another_tab(visited: Any) -> None:
    visit = visited()
    visit.drop(("a.png", "image/png", PNG), ("b.png", "image/png", PNG))
    visit.has("a.png done", "b.png done")
    visit.tab.page.reload()
    visit.tab.is_in_phase("live")
    visit.open(PLACE)
    visit.has("a.png done", "b.png done")
    other = Visit(Tab(visit.tab.context, visit.tab.page.url.partition("#")[0]))
    other.open(PLACE)
    other.has("a.png done", "b.png done")
    other.tab.find('[aria-label="Remove a.png"]').click()
    visit.has("b.png done")
    other.drop(("c.png", "image/png", PNG))
    visit.has("b.png done", "c.png done")
    day = "Date.now = () => 1e15"
    visit.tab.page.add_init_script(day)
    visit.tab.page.reload()
    visit.tab.is_in_phase("live")
    visit.open(PLACE)
    assert visit.chips() == [], "the daemon has deleted them"


def test_files_that_are_not_possible_are_refused_in_words(visited: Any) -> None:
    visit = visited()
    visit.drop(("empty.txt", "text/plain", []), ("a\u202eb/c.txt", "text/plain", [97]))
    visit.notice("empty.txt is empty.")
    visit.has("a_b_c.txt done")
    visit.drop(("x" * 200 + ".png", "image/png", PNG))
    visit.has("a_b_c.txt done", "x" * 96 + ".png done")
    large = visit.form.locator('[data-act="add-file"]')
    large.evaluate(
        """input => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(10 * 1024 * 1024 + 1)], "film.mov"));
          input.files = data.files;
          input.dispatchEvent(new Event("change"));
        }"""
    )
    visit.notice("film.mov is larger than 10 MiB.")
    visit.drop(*[(f"{number}.txt", "", [97]) for number in range(9)])
    visit.notice("At most 10 files are possible.")
    assert len(visit.chips()) == 10


def test_agent_that_takes_no_files_has_no_button_and_says_why(visited: Any) -> None:
    visit = visited()
    visit.open(PLAIN)
    assert visit.tab.find(".file-button").count() == 0
    visit.drop(("a.png", "image/png", PNG))
    visit.notice(SH_TAKES_NONE.format("message"))
    assert visit.chips() == []
    visit.open(PLACE)
    visit.notice("")
    visit.tab.open("#/")
    assert visit.tab.find("body").evaluate(
        """body => {
          const data = new DataTransfer();
          data.items.add(new File(["a"], "a.txt"));
          const drag = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
          return !body.dispatchEvent(drag);
        }"""
    ), "the browser does not leave the page"


def test_dragged_file_shows_where_it_will_be(visited: Any) -> None:
    visit = visited()
    drag = """(body, kind) => {
      const data = new DataTransfer();
      data.items.add(new File(["a"], "a.txt"));
      body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    visit.tab.find("#tab-panel").evaluate(drag, "dragover")
    visit.tab.until(lambda: visit.tab.find(".file-drop").count() == 1, "the place")
    visit.tab.find("body").evaluate(drag, "dragleave")
    visit.tab.until(lambda: visit.tab.find(".file-drop").count() == 0, "no place")


def test_start_waits_for_uploads_and_an_agent_type_that_takes_none_says_why(visited: Any) -> None:
    """The played daemon starts no agent."""
    visit = visited()
    visit.open_sheet()
    visit.uploads.is_held = True
    visit.drop(("a.png", "image/png", PNG))
    visit.holds(1)
    visit.tab.shows("sm spawn --file a.png --working-dir /w/app")
    kinds, task = visit.form.locator('[name="agent_type"]'), visit.form.locator('[name="prompt"]')
    task.fill("mend it")
    kinds.select_option("Sh")
    visit.notice(SH_TAKES_NONE.format("task"))
    assert visit.tab.find(".file-button").count() == 0
    kinds.select_option("Writer")
    visit.notice("")
    visit.form.locator('[data-act="do-spawn"]').click()
    visit.tab.shows("Starts when 1 file is uploaded.")
    visit.tab.press("Escape")
    visit.tab.until(lambda: visit.tab.find(".start").count() == 0, "the sheet is closed")
    visit.uploads.answer(visit.uploads.held.pop("a.png"))
    visit.open_sheet()
    visit.has("a.png done")
    assert visit.form.locator('[data-act="do-spawn"]').inner_text().split()[0] == "Start", "closed in time"
    visit.form.locator('[data-act="do-spawn"]').click()
    visit.tab.shows("no such session")
    visit.has("a.png done")
    assert task.input_value() == "mend it"
    kinds.select_option("Sh")
    visit.notice(SH_TAKES_NONE.format("task"))
    visit.form.locator('[data-act="do-spawn"]').click()
    focused = "document.activeElement.name"
    visit.tab.until(lambda: visit.tab.page.evaluate(focused) == "agent_type", "the focus")
    visit.form.locator('[data-act="clear-spawn"]').click()
    visit.has()
    visit.tab.until(lambda: visit.tab.text() and visit.uploads.removed == ["f-1"], "the removal")


@pytest.mark.parametrize(
    ("size", "scheme", "place"),
    [
        (DESKTOP, "light", "composer"),
        (PHONE, "dark", "composer"),
        (DESKTOP, "dark", "sheet"),
        (PHONE, "light", "sheet"),
    ],
)
def test_files_have_no_violations_and_fit(
    visited: Any, size: tuple[int, int], scheme: str, place: str
) -> None:
    skip_without(AXE.exists(), "axe-core")
    touch = {"has_touch": True, "is_mobile": True} if size == PHONE else {}
    visit = visited(size, color_scheme=scheme, **touch)
    if place == "sheet":
        visit.open_sheet()
    visit.uploads.is_held = True
    visit.drop(("screenshot of the whole page.png", "image/png", PNG, 3000), ("log.txt", "", [97] * 700))
    visit.holds(2)
    visit.uploads.answer(visit.uploads.held["log.txt"])
    visit.drop(("trace.json", "", [97] * 127, 9721))
    visit.holds(3)
    visit.uploads.held["trace.json"].fulfill(
        status=429, json={"error": {"message": "other files are being uploaded"}}
    )
    visit.drop(("empty.txt", "", []))
    visit.has("screenshot of the whole page.png uploading", "log.txt done", "trace.json failed")
    assert visit.tab.violations() == []
    assert visit.tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = visit.tab.find(".start-end" if place == "sheet" else ".compose").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= size[1]
    assert box["height"] < size[1] / 2
    if size == PHONE:
        heights = visit.form.locator(".act").evaluate_all("all => all.map((one) => one.offsetHeight)")
        assert min(heights) >= 44
