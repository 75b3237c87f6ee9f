"""A day of agents at the pace of a fast clock: every view is right at every sample, and costs no more at its end."""

import asyncio
import contextlib
import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Page, async_playwright

from tests.browser import CHROMIUM, skip_without
from tests.instance import SM, Instance
from tests.integration.day import Agents, Rows, TopView, Truth, View, WebView, web_view
from tests.waits import until_async
from tests.web_server import WebServer, logged_in, web_server

LONG = os.environ.get("SM_LONG") == "1"
AGENTS, SAMPLES = (50, 1000) if LONG else (5, 12)
PHONES = 2
GROWN_MAX_MB = 6.0
"""In the second half: caches fill first, and memory may grow by one step of about 5 MB at some moment."""
LIMITS = (
    "limits: {reports_per_minute: 100000, spawn_interval_s: 0, max_children: 1000, max_per_workspace: 1000}"
)
# A page that nobody sees, in a browser that allows notices and counts them.
NOTED = """
window.noted = [];
class Noted {
  static permission = "granted";
  constructor(title, { tag }) { window.noted.push(tag); }
  close() {}
}
window.Notification = Noted;
"""
HIDE = """
Object.defineProperty(document, "hidden", { get: () => true });
document.dispatchEvent(new Event("visibilitychange"));
"""


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance(LIMITS) as instance:
        instance.sm("all")
        yield instance


@pytest.fixture
def server(instance: Instance) -> Iterator[WebServer]:
    with web_server(instance) as server:
        yield server


@pytest.fixture
def agents(instance: Instance) -> Iterator[Agents]:
    agents = Agents(instance, AGENTS)
    yield agents
    agents.end()


class Phone:
    """Comes and goes."""

    def __init__(self, http: aiohttp.ClientSession, server: WebServer, token: str) -> None:
        self._open = partial(web_view, http, server.origin, token)
        self._stack = contextlib.AsyncExitStack()
        self.view: WebView | None = None
        self.visits = 0

    async def come_or_go(self) -> None:
        if self.view is None:
            self.view = await self._stack.enter_async_context(self._open())
            self.visits += 1
        else:
            await self.go()

    async def go(self) -> None:
        self.view = None
        await self._stack.aclose()


@contextlib.asynccontextmanager
async def hidden_page(instance: Instance) -> AsyncIterator[Page]:
    """The real page, in a real browser."""
    skip_without(CHROMIUM, "chromium")
    link = subprocess.run((SM, "web", "link"), env=instance.env, capture_output=True, text=True, check=True)
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=options, timeout=0)
        page = await chromium.new_page()
        page.set_default_timeout(0)
        await page.add_init_script(NOTED)
        await page.goto(link.stdout.strip())
        await page.wait_for_selector('html[data-phase="live"]', state="attached")
        await page.evaluate(HIDE)
        yield page
        await chromium.close()


def own_mb(pid: int) -> float:
    """The memory that belongs to no file: unlike PSS it does not grow when another process with the same files ends."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")) / 1000


def settled_ids(before: Rows, after: Rows, *others: Rows) -> set[str]:
    """The sessions whose rows stayed the same, or stayed away, from one moment to another."""
    ids = {*before, *after, *itertools.chain(*others)}
    return {i for i in ids if before.get(i) == after.get(i)}


def change(agents: Agents, acts: int, *, is_asked: bool) -> None:
    for _ in range(acts):
        agents.act()
    if is_asked:
        agents.ask()
        if len(agents.open) > 3:
            agents.answer()


async def sample(number: int, agents: Agents, truth: Truth, views: list[View]) -> int:
    """Compare every view with the daemon and the database at a defined point. Returns how many rows were compared.

    The daemon revises all rows for the reader of `before`, and the marker after that. So a view that shows the marker
    has all that was there before, and is compared where nothing has changed since.
    """
    before = await asyncio.to_thread(truth.rows)
    await asyncio.to_thread(agents.mark, f"sample {number}")
    for view in views:
        await view.until(lambda view=view: view.note_of(agents.marker) == f"sample {number}")  # type: ignore[misc]
    stored = await asyncio.to_thread(truth.stored)
    listed, after = await asyncio.to_thread(truth.listed), await asyncio.to_thread(truth.rows)
    ids = settled_ids(before, after, stored, listed)
    for row_id in ids:
        row = after.get(row_id)
        assert (row is None) == (row_id not in listed) == (row_id not in stored), row_id
        if row is not None:
            for source in (listed, stored):
                expected = source[row_id]
                assert {name: row[name] for name in expected} == expected, row_id
    for view in views:
        assert view.wrong(after, ids) == [], (number, view)
    return len(ids) * len(views)


@pytest.mark.browser
@pytest.mark.timeout(7200 if LONG else 600)
async def test_every_view_is_right_all_day_and_announces_each_request_once(
    instance: Instance, server: WebServer, agents: Agents
) -> None:
    chance, truth, top = random.Random(3), Truth(instance), TopView(instance)
    pids = {"daemon": instance.daemon_pid, "sm web": server.process.pid}
    compared, memory = 0, dict[int, dict[str, float]]()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(top.end)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        token = (await logged_in(http, server.origin, server.code))["token"]
        tabs = [await stack.enter_async_context(web_view(http, server.origin, token)) for _ in range(2)]
        lasting: list[View] = [top, *tabs]
        phones = [Phone(http, server, token) for _ in range(PHONES)]
        for phone in phones:
            stack.push_async_callback(phone.go)
        page = await stack.enter_async_context(hidden_page(instance))
        await top.until(lambda: top.situation.mail is not None)
        for number in range(SAMPLES):
            is_asked = number % 4 == 0
            await asyncio.to_thread(change, agents, chance.randint(1, 8), is_asked=is_asked)
            for phone in phones:
                if chance.random() < 0.4:
                    await phone.come_or_go()
            views = [*lasting, *(phone.view for phone in phones if phone.view is not None)]
            compared += await sample(number, agents, truth, views)
            if is_asked:
                for view in views:
                    await view.until(lambda view=view: view.open_requests() == set(agents.open))  # type: ignore[misc]
            if (number + 1) % (SAMPLES // 10) == 0:
                memory[number + 1] = {name: own_mb(pid) for name, pid in pids.items()}
        sys.stdout.write(
            f"{SAMPLES} samples, {compared} rows compared, {len(agents.asked)} requests, "
            f"own memory in MB {memory}, visits of phones {[phone.visits for phone in phones]}\n"
        )
        for view in lasting:
            assert_once(view.told, agents.asked)

        async def noted() -> Counter[str]:
            return Counter(await page.evaluate("window.noted"))

        async def is_told() -> bool:
            return (await noted()).keys() >= set(agents.asked)

        await until_async(is_told, "the notices of the page")
        assert_once(await noted(), agents.asked)
    grown = list(memory.values())
    first, last = grown[len(grown) // 2], grown[-1]
    if LONG:
        for name, before_mb in first.items():
            assert last[name] - before_mb < GROWN_MAX_MB, memory


def assert_once(told: Counter[str], asked: Sequence[str]) -> None:
    """Each request, and whatever else needed the person, was announced once."""
    assert {name for name in told if name.startswith("r")} == set(asked)
    assert {name: count for name, count in told.items() if count != 1} == {}
