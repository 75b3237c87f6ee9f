"""Measures the tab with the changes of a session in Debian's chromium, with thousands of changed lines."""

import json
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from bench.instance import Instance
from bench.row import Effort, Row, timed_ms
from bench.web import another_link
from tests.browser import CHROMIUM, Tab, Visitor, chromium
from tests.instance import SM
from tests.web_server import web_server

_FILES = 20
_SEED = 1
_STEP_PX = 900
_FIRST_ROWS_MS = 300
_TASK_MS = 50
_TRACED = ["toplevel", "disabled-by-default-devtools.timeline"]
# Opens a place, and becomes the milliseconds until the first lines of a file are painted.
_OPEN = """
(place) => new Promise((resolve) => {
  const began = performance.now();
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => resolve(performance.now() - began);
  const observer = new MutationObserver(() => {
    if (!document.querySelector(".diff-body .dl .tx")) return;
    observer.disconnect();
    requestAnimationFrame(() => port2.postMessage(0));  // delivered after the frame of this change
  });
  observer.observe(document.body, { childList: true, subtree: true });
  location.hash = place;
})
"""
# Scrolls to the end, a step in each frame.
_SCROLL = """
async (step) => {
  const panel = document.querySelector(".panel");
  const box = getComputedStyle(panel).overflowY === "auto" ? panel : document.scrollingElement;
  let frames = 0;
  while (box.scrollTop + box.clientHeight < box.scrollHeight - 5 && frames < 5000) {
    box.scrollTop += step;
    await new Promise(requestAnimationFrame);
    frames += 1;
  }
  return frames;
}
"""


def measure(effort: Effort) -> Iterator[Row]:
    if CHROMIUM is None:
        print("changes is left out: chromium is not installed", file=sys.stderr)
        return
    with Instance() as instance, web_server(instance) as server:
        tree, session = _changed_tree(instance, effort.changed_lines)
        server.link = another_link(instance)
        with chromium() as browser:
            visitor = Visitor(browser, server)
            yield from _page(browser, visitor, session, tree, effort)


def _page(browser: Browser, visitor: Visitor, session: str, tree: Path, effort: Effort) -> Iterator[Row]:
    shown, floor, loading, scrolling = list[float](), list[float](), list[float](), list[float]()
    by_hand = partial(_git, tree, "diff", "--output=/dev/null", "HEAD")
    for number in range(effort.looks + 1):
        with visitor.tab() as tab:
            tab.open(f"#/s/{session}/peek")
            browser.start_tracing(page=tab.page, categories=_TRACED)
            first_ms = tab.page.evaluate(_OPEN, f"#/s/{session}/changes")
            tab.page.wait_for_selector(".diff-files[data-complete]")
            load_ms = _longest_task_ms(browser)
            browser.start_tracing(page=tab.page, categories=_TRACED)
            frames = _scrolled(tab)
            scroll_ms = _longest_task_ms(browser)
        if number:  # the first one fills caches
            shown.append(first_ms)
            floor.append(timed_ms(by_hand))
            loading.append(load_ms)
            scrolling.append(scroll_ms)
    gate, aim = _FIRST_ROWS_MS, _FIRST_ROWS_MS / 2
    what = f"changes of {effort.changed_lines:,} lines: tab opened to first lines painted"
    yield Row(what, "ms", statistics.median(shown), statistics.median(floor), "git diff", gate=gate, aim=aim)
    task = partial(Row, unit="ms", gate=_TASK_MS, aim=_TASK_MS / 2)
    yield task(what="  longest task meanwhile, processor time", ours=statistics.median(loading))
    yield task(what=f"  longest task in {frames} frames of scrolling", ours=statistics.median(scrolling))


def _scrolled(tab: Tab) -> int:
    return int(tab.page.evaluate(_SCROLL, _STEP_PX))


def _longest_task_ms(browser: Browser) -> float:
    """The processor time of the longest task of the page's main thread since the trace began."""
    events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks: list[float] = [
        event["tdur"] / 1000
        for event in events
        if event["name"].endswith("RunTask") and "tdur" in event and (event["pid"], event["tid"]) in main
    ]
    return max(tasks)


def _changed_tree(instance: Instance, lines: int) -> tuple[Path, str]:
    """A session with a worktree in which every second line of some files is another."""
    path = instance.home / "app"
    _git(instance.home, "init", "--quiet", "--initial-branch=main", str(path))
    each, choose = lines // _FILES, random.Random(_SEED)
    for number in range(_FILES):
        (path / f"module_{number:02}.py").write_text("".join(_source(each, choose)))
    _git(path, "add", ".")
    _git(path, "-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "--quiet", "--message=first")
    argv = (SM, "spawn", "Sleep", "--worktree", "--name", "changed", "--json")
    done = subprocess.run(argv, cwd=path, env=instance.env, capture_output=True, check=True)
    session = json.loads(done.stdout)
    tree = Path(session["worktree"]["path"])
    for file in tree.glob("module_*.py"):
        # A changed line is one that goes and one that comes.
        old = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line.replace("(", "(0, ") if n % 2 else line for n, line in enumerate(old)))
    return tree, session["session_id"]


def _source(lines: int, choose: random.Random) -> Iterator[str]:
    for number in range(lines // 2):
        yield f"def step_{number}(value: int, name: str = 'x') -> int:\n"
        yield f"    return value * {choose.randrange(10**6)} + len(name)  # of step {number}\n"


def _git(directory: Path, *arguments: str) -> None:
    subprocess.run(("git", "-C", str(directory), *arguments), stdin=subprocess.DEVNULL, check=True)
