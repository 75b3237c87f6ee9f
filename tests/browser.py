"""The page of `sm web` in a real browser: Debian's chromium without a window, driven by playwright.

The shell of chromium has the same engine, and takes less than half of the processor time.
"""

import contextlib
import inspect
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, sync_playwright

from sm.client.http import Client
from tests.waits import explained, until
from tests.web_server import WebServer

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
DESKTOP, PHONE = (1280, 800), (360, 740)
Scheme = Literal["dark", "light"]
SCHEMES: tuple[Scheme, ...] = ("dark", "light")
_VIOLATIONS = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" ")}`);
}"""
"""The whole result has a report of each rule: its way to the test takes longer than the checks."""


def skip_without(found: object, what: str) -> None:
    """Skip the test if a tool is missing. CI must have it."""
    if not found:
        if os.environ.get("CI"):
            pytest.fail(f"{what} is not installed: ./check installs it on Debian")
        pytest.skip(f"{what} is not installed: ./check installs it on Debian")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser. While it runs, no other event loop can run in this thread."""
    skip_without(CHROMIUM, "chromium")
    # Without a GPU a process that plays one would draw. The tabs of a context need no processes of their own.
    options = ["--disable-gpu", "--disable-site-isolation-trials", "--renderer-process-limit=1"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=options, timeout=0, handle_sigint=False
        )
        try:
            yield browser
        finally:
            browser.close()


class SharedChromium:
    """The browser of a worker, which stays for the next module (conftest.py).

    Its start and its end take 0.6 seconds of a core.
    """

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._browser: Browser | None = None
        self._is_used = False

    @contextlib.contextmanager
    def use(self) -> Iterator[Browser]:
        """The browser without contexts. One module at a time uses it."""
        if self._browser is None or not self._browser.is_connected():
            self.end()
            self._browser = self._stack.enter_context(chromium())
        self._is_used = True
        try:
            yield self._browser
            for context in self._browser.contexts:
                context.close()
        finally:
            self._is_used = False

    def leave(self, item: pytest.Item | None) -> None:
        """End an unused browser if the next test uses none. That test may need an event loop."""
        if not self._is_used and not (
            isinstance(item, pytest.Function)
            and {"browser", "pages"} & {*item.fixturenames}
            and not inspect.iscoroutinefunction(item.function)
        ):
            self.end()

    def end(self) -> None:
        self._browser = None
        self._stack.close()


shared_chromium = SharedChromium()


class Tab:
    """A tab of a browser that is logged in, or was."""

    def __init__(self, context: BrowserContext, opened: str | Page) -> None:
        """`opened`: the address of a new page, or a page that another one has opened."""
        self.context = context
        self.page = context.new_page() if isinstance(opened, str) else opened
        self.page.set_default_timeout(0)
        self.problems: list[str] = []
        """Errors of scripts, and violations of the content security policy."""
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._note)
        self.failed_requests: list[str] = []
        self.page.on("requestfailed", lambda lost: self.failed_requests.append(f"{lost.url} {lost.failure}"))
        if isinstance(opened, str):
            self.page.goto(opened)

    def _note(self, message: ConsoleMessage) -> None:
        is_outage = "Failed to load resource" in message.text or "WebSocket connection" in message.text
        if message.type in ("error", "warning") and not is_outage:
            self.problems.append(message.text)

    # Waits

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        with explained(lambda: f"the page:\n{self.text()}\n{[*self.problems, *self.failed_requests]}"):
            return until(condition, what)

    def shows(self, *texts: str) -> None:
        self.until(lambda: all(text in self.text() for text in texts), f"the page shows {texts}")

    def hides(self, text: str) -> None:
        self.until(lambda: text not in self.text(), f"the page hides {text}")

    def is_in_phase(self, phase: str) -> None:
        """Wait until the page is `live`, `lost` or at the `login`."""
        self.until(lambda: self.attribute("phase") == phase, f"the page is {phase}")

    def follows(self, act: Callable[[], object]) -> None:
        """Act, and wait until a newer state than before is painted."""
        before = self.revision
        act()
        self.until(lambda: self.revision > before, "a newer state")

    # What is there

    @property
    def revision(self) -> int:
        """The number of the painted state."""
        return int(self.attribute("revision") or 0)

    def attribute(self, name: str) -> str:
        return str(self.page.locator("html").get_attribute(f"data-{name}") or "")

    def text(self) -> str:
        return self.page.locator("body").inner_text()

    def find(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def row(self, session_id: str) -> Locator:
        return self.find(f"#row-{session_id}")

    def order(self) -> list[str]:
        """The sessions from top to bottom."""
        rows: list[list[str]] = self.find(".row[data-session]").evaluate_all(
            "rows => rows.map((row) => [row.ariaRowIndex, row.dataset.session])"
        )
        return [session for _, session in sorted(rows, key=lambda row: int(row[0]))]

    def requests(self) -> set[str]:
        """The open requests that are shown."""
        entries = self.find('.needs li:not(.passed)[data-kind="request"]')
        return set(entries.evaluate_all("entries => entries.map((entry) => entry.dataset.need)"))

    def request(self, name: str) -> Locator:
        """The entry of a request, when its buttons are alive."""
        found = self.find(f'[data-need="{name}"]')
        self.until(
            lambda: found.count() == 1 and found.get_attribute("data-dead") == "false", f"{name} is alive"
        )
        return found

    def violations(self, *schemes: Scheme) -> list[str]:
        """The rules of accessibility that axe-core finds broken, each with its elements.

        `schemes`: the colours of the page, one after the other. Without them, those that it has.
        """
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        found = list[str]()
        for scheme in schemes or (None,):
            if scheme is not None:
                self.page.emulate_media(color_scheme=scheme)
            found += [f"{scheme or 'as it is'}: {each}" for each in self.page.evaluate(_VIOLATIONS)]
        return found

    # What a person does

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def open(self, place: str) -> None:
        """Go to a place of the page, such as `#/events`."""
        self.page.evaluate("place => { location.hash = place; }", place)

        def is_open() -> bool:
            return self.attribute("place") == place and "Loading" not in self.text()

        self.until(is_open, f"the place {place}")


_STORE = (
    "entries => { localStorage.clear(); for (const e of entries) localStorage.setItem(e.name, e.value); }"
)
"""Leaves only these entries in the storage of the page."""


class Contexts:
    """The contexts of a browser. Users who need the same options follow each other in one.

    A page in a new context takes twice the processor time: its process starts, and the scripts are loaded and compiled
    once more. Each context keeps a page without scripts, whose process the other pages of the same origin share.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: dict[frozenset[tuple[str, object]], list[tuple[BrowserContext, Page]]] = {}

    @contextlib.contextmanager
    def context(
        self, origin: str, entries: Sequence[object] = (), **options: Any
    ) -> Iterator[BrowserContext]:
        """A context for pages of `origin`, whose storage has only these entries. Its tabs are closed at the end."""
        free = self._free.setdefault(frozenset(options.items()), [])
        context, kept = free.pop() if free else self._new(options)
        try:
            if not kept.url.startswith(f"{origin}/"):
                kept.goto(f"{origin}/icon.svg")
            kept.evaluate(_STORE, entries)
            yield context
        except BaseException:
            context.close()
            raise
        for page in context.pages:
            if page is not kept:
                page.close()
        free.append((context, kept))

    def _new(self, options: Mapping[str, Any]) -> tuple[BrowserContext, Page]:
        context = self._browser.new_context(**options)
        return context, context.new_page()


class Visitor:
    """A browser that logs in once, and opens tabs with that login. Each finds only the login in its storage."""

    def __init__(self, browser: Browser, server: WebServer) -> None:
        self._server = server
        self._contexts = Contexts(browser)
        with self._contexts.context(server.origin) as context:
            tab = Tab(context, server.link)
            tab.is_in_phase("live")
            (origin,) = context.storage_state()["origins"]
            self._login = origin["localStorage"]

    def _open_requests(self) -> set[str]:
        requests = Client(str(self._server.instance.socket)).get("/v1/requests")
        return {found["request_id"] for found in requests if found["state"] == "open" and not found["answer"]}

    @contextlib.contextmanager
    def tab(self, size: tuple[int, int] = DESKTOP, place: str = "", **options: Any) -> Iterator[Tab]:
        """A tab that is live. It must end without errors of its scripts and violations of its policy."""
        with self._contexts.context(self._server.origin, self._login, **options) as context:
            page = context.new_page()
            page.set_viewport_size({"width": size[0], "height": size[1]})
            tab = Tab(context, page)
            page.goto(f"{self._server.origin}/{place}")
            tab.is_in_phase("live")
            # A request of an earlier test that vanishes later would move the buttons of others, which are dead then.
            tab.until(lambda: tab.requests() == self._open_requests(), "the open requests")
            yield tab
            assert tab.problems == []
