"""Measures `sm web` as a person sees it in Debian's chromium, and what it costs the server and the page."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench.instance import Instance
from bench.row import Effort, Judged, Pairs, Row
from bench.top import GUARD_S, WRITER, answered_ms, asked, p95, until_end_ms
from bench.views import CHANGES_PER_S, changing_notes, cpu_percent
from bench.watching import memory_kb
from bench.web_charts import measure_charts
from bench.web_clients import Readers, static_site, token_of
from sm.web.page_files import PageFiles
from tests.browser import CHROMIUM, Tab, Visitor, chromium
from tests.instance import SM
from tests.waits import until
from tests.web_server import WebServer, web_server

_CLIENTS = 3
_ROW_PX = 36
# `painted(isThere)` becomes the time when the page had painted that; `firstRows` that time since the load began.
_WATCH = """
window.painted = (isThere) => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => resolve(performance.timeOrigin + performance.now());
  const observer = new MutationObserver(look);
  function look() {
    if (!isThere()) return;
    observer.disconnect();
    port2.postMessage(0);  // delivered after the frame of this change
  }
  observer.observe(document, { childList: true, subtree: true, characterData: true });
  look();
});
window.firstRows = painted(() => document.querySelector(".row[data-session]"))
  .then((at) => at - performance.timeOrigin);
"""
_HIDE = """
Object.defineProperty(document, "hidden", { get: () => true });
Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
document.dispatchEvent(new Event("visibilitychange"));
"""


def measure(effort: Effort) -> Iterator[Row]:
    with Instance() as instance:
        sessions = instance.spawn_many(effort.sessions)
        with web_server(instance) as server:
            yield from _server(instance, server, sessions, effort)
            if CHROMIUM is None:
                print("the rows of the browser are left out: chromium is not installed", file=sys.stderr)
            else:
                server.link = another_link(instance)
                with chromium() as browser:
                    visitor = Visitor(browser, server)
                    yield from _page(instance, server, visitor, sessions, effort)
                    yield from measure_charts(visitor, effort)
    yield _size_of_page()


def another_link(instance: Instance) -> str:
    argv = (SM, "web", "link")
    return subprocess.run(argv, env=instance.env, capture_output=True, text=True, check=True).stdout.strip()


def _server(
    instance: Instance, server: WebServer, sessions: list[dict[str, Any]], effort: Effort
) -> Iterator[Row]:
    readers, pid = Readers(instance, server, token_of(server), _CLIENTS), server.process.pid
    with changing_notes(instance, sessions[1:]), readers.running():
        begin = time.monotonic()
        cpu = cpu_percent(pid, effort.watch_s)
        size, seconds = readers.read(), time.monotonic() - begin
        memory_mb = memory_kb(pid)["Pss"] / 1000
    with static_site(instance, "") as bare:
        bare_mb = memory_kb(bare.pid)["Pss"] / 1000
    what = f"sm web, {_CLIENTS} clients, {len(sessions)} sessions, {CHANGES_PER_S} changes a second: CPU"
    yield Row(what, "%", cpu, gate=3, aim=1)
    yield Row("  memory (PSS)", "MB", memory_mb, bare_mb, "bare aiohttp", judged=Judged.ABOVE, gate=15, aim=8)
    received, changed = size.received / seconds, max(1, size.changed) / seconds
    yield Row(
        "  bytes to one client in a second",
        "",
        received,
        changed,
        "changed fields as JSON",
        received / changed,
        Judged.RATIO,
        gate=3,
        aim=1.5,
    )


def _page(
    instance: Instance, server: WebServer, visitor: Visitor, sessions: list[dict[str, Any]], effort: Effort
) -> Iterator[Row]:
    every_row = (1280, 400 + _ROW_PX * len(sessions))
    rows = f"{len(sessions)} rows, {CHANGES_PER_S} changes a second"
    with changing_notes(instance, sessions[1:]):  # the first one changes its note for `_changed_ms`
        with visitor.tab(every_row) as tab:
            tab.until(lambda: len(tab.order()) == len(sessions), "all rows")
            html = tab.page.content()
            busy = _main_thread_percent(tab, effort.watch_s)
        with visitor.tab() as tab:
            usual = _main_thread_percent(tab, effort.watch_s)
            tab.page.evaluate(_HIDE)
            hidden = _main_thread_percent(tab, effort.watch_s)
        with visitor.tab() as tab:
            changed = _changed_ms(instance, tab, sessions[0]["session_id"], max(2, effort.pairs))
    yield Row(f"page, {rows}: main thread busy, all rows in sight", "%", busy, gate=8, aim=4)
    yield Row("  in a window of 1280x800", "%", usual, gate=8, aim=4)
    yield Row("  in a hidden tab", "%", hidden, gate=0.2, aim=0)
    yield Row("  change in the daemon to painted, p95", "ms", p95(changed), gate=200, aim=120)
    with static_site(instance, html) as site:
        yield _first_rows(visitor, site.origin, effort.pairs)
    yield _answer(instance, visitor, max(1, effort.pairs // 4))


def _main_thread_percent(tab: Tab, seconds: float) -> float:
    """The processor time of the tasks of the page's main thread, in per cent of a core."""
    devtools = tab.context.new_cdp_session(tab.page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent_s() -> float:
        metrics = devtools.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    tab.page.wait_for_timeout(min(2.0, seconds) * 1000)  # the start is not measured
    before, begin = spent_s(), time.monotonic()
    tab.page.wait_for_timeout(seconds * 1000)
    percent = (spent_s() - before) / (time.monotonic() - begin) * 100
    devtools.detach()
    return percent


def _changed_ms(instance: Instance, tab: Tab, session_id: str, count: int) -> list[float]:
    """A session at the top of the list changes its note at random moments."""
    choose, times = random.Random(1), []
    argv, env = (sys.executable, "-c", WRITER, instance.socket), instance.as_session(session_id)
    tab.page.evaluate(_WATCH)
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, text=True, bufsize=1) as session:
        assert session.stdin is not None
        for number in range(count + 1):
            time.sleep(choose.uniform(0.3, 0.8))
            note = f"changed-{number}."
            tab.page.evaluate(
                """([id, note]) => {
                  window.shown = painted(() => document.querySelector(`#row-${id} .c-task`).textContent === note);
                }""",
                [session_id, note],
            )
            begin = time.time()
            session.stdin.write(f"{note}\n")
            times.append(tab.page.evaluate("() => window.shown") - begin * 1000)
    return times[1:]  # the first one includes the start of the session's process


def _first_rows(visitor: Visitor, static: str, count: int) -> Row:
    """From the navigation to the first painted row, in turn with a page that has its rows in its HTML."""
    ours, floor = list[float](), list[float]()
    with visitor.tab() as tab:
        tab.context.add_init_script(_WATCH)
        page = tab.context.new_page()
        for _ in range(count + 1):
            for address, times in ((tab.page.url, ours), (static, floor)):
                page.goto("about:blank")
                page.goto(address)
                times.append(page.evaluate("() => window.firstRows"))
    pairs = Pairs(ours[1:], floor[1:])
    return pairs.row("  load to first rows", "a static page with them", Judged.RATIO, 2, 1.3)


def _answer(instance: Instance, visitor: Visitor, count: int) -> Row:
    """From the key in the page to the end of the agent's `sm ask`, in turn with `sm answer`."""
    ours, floor = list[float](), list[float]()
    for _ in range(count):
        with asked(instance) as asker, visitor.tab() as tab:
            (name,) = until(tab.requests, "the open question")
            time.sleep(GUARD_S)
            tab.request(name).focus()
            ours.append(until_end_ms(lambda: tab.press("1"), asker))
        with asked(instance) as asker:
            floor.append(answered_ms(instance, asker))
    return Pairs(ours, floor).row("  answer pressed to agent", "sm answer", Judged.ABOVE, 50, 10)


def _size_of_page() -> Row:
    size_kb = sum(PageFiles().gzipped_bytes("index.html").values()) / 1000
    what = "  first page (without terminal, charts and changes), gzip"
    return Row(what, "kB", size_kb, gate=60, aim=50)
