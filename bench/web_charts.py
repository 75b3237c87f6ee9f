"""Measures the charts of the page of `sm web`: a night with many sessions, from the answer to the drawn lanes."""

import gzip
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.row import Effort, Row
from bench.top import p95
from sm.core.timestamps import iso
from sm.web.lane_view import lane_fields
from sm.web.page_files import STATIC
from tests.browser import Visitor

CHARTS = ("uplot.js", "chart.js", "chart_range.js", "lane_canvas.js", "spend.js", "timeline.js")
"""The scripts that the page loads when charts are opened first."""
_SESSIONS, _HOURS = 51, 12
_DRAWN = "() => performance.getEntriesByName('sm timeline drawn').map((entry) => entry.duration)"
_STEPS_S: Mapping[str, float] = {"running": 400, "idle": 150, "waiting_input": 300}


def night() -> Mapping[str, Any]:
    """The timeline of sessions that change their status every few minutes. It is the same each time."""
    choose, until_s = random.Random(1), time.time()
    sessions, events = list[Any](), list[Any]()
    for number in range(_SESSIONS):
        session_id, spans = f"{number:08x}", list[dict[str, Any]]()
        at_s = until_s - _HOURS * 3600 * choose.uniform(0.5, 1)
        while at_s < until_s:
            status = choose.choice([name for name in _STEPS_S if not spans or spans[-1]["status"] != name])
            if spans:
                spans[-1]["end"] = iso(at_s)
            spans.append({"status": status, "start": iso(at_s), "end": None, "reason": "Bash make test"})
            kind = "request" if status == "waiting_input" else "message"
            events.append(
                {
                    "type": kind,
                    "session_id": session_id,
                    "timestamp": iso(at_s),
                    "message": kind,
                    "seq": len(events) + 1,
                }
            )
            at_s += choose.expovariate(1 / _STEPS_S[status])
        parent = f"{number // 8 * 8:08x}" if number % 8 else None
        sessions.append({"session_id": session_id, "label": f"developer-{number}", "spans": spans})
        sessions[-1] |= {"parent_session_id": parent, "created_at": spans[0]["start"]}
    timeline = {"since": iso(until_s - _HOURS * 3600), "until": iso(until_s), "sessions": sessions}
    return lane_fields(timeline, events)


def measure_charts(visitor: Visitor, effort: Effort) -> Iterator[Row]:
    view = night()
    spans = sum(len(lane["spans"]) for lane in view["lanes"])
    what = f"timeline, {_SESSIONS} sessions, {_HOURS} hours, {spans:,} spans: answer to drawn, p95"
    yield Row(what, "ms", p95(_drawn_ms(visitor, view, max(4, effort.pairs))), gate=100, aim=50)
    paths = [path for path in STATIC.rglob("*.js") if path.name in CHARTS]
    size_kb = sum(len(gzip.compress(path.read_bytes())) for path in paths) / 1000
    yield Row("  JavaScript of the charts, gzip", "kB", size_kb, gate=50, aim=40)


def _drawn_ms(visitor: Visitor, view: Mapping[str, Any], count: int) -> Sequence[float]:
    """Each choice of another range reads the timeline again, and draws it."""
    with visitor.tab() as tab:
        tab.page.route("**/api/lanes*", lambda route: route.fulfill(json=view))
        tab.open("#/timeline")
        for number in range(count + 1):
            tab.until(lambda: len(tab.page.evaluate(_DRAWN)) > number, "the drawn lanes")  # noqa: B023 - in this round
            tab.find(f"[data-range='{'1h' if number % 2 else '7d'}']").click()
        tab.page.unroute_all(behavior="wait")
        return list(tab.page.evaluate(_DRAWN)[1:])
