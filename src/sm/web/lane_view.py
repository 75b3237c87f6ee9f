"""The timeline for browsers: the lanes of `sm.board` as JSON, with what a person must know first."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from sm.board.lane_summary import LaneSummary, load_of, summary_of
from sm.board.lanes import FAILED_MARKS, MARKS, Lane, lanes
from sm.board.words import status_word, without_subject
from sm.core.timestamps import epoch_s
from sm.web.daemon_link import DaemonLink
from sm.web.logins import WebLogin

_MARKS_MAX = 2000
"""Events of one type."""
_PARTS = 240
_TIMEOUT_S = 60.0


def add_routes(app: web.Application, link: DaemonLink, login: "web.RequestKey[WebLogin]") -> None:
    async def show(request: web.Request) -> web.StreamResponse:
        asked = {
            name: request.query[name] for name in ("since", "until", "workspace") if name in request.query
        }
        view = await _read(link, request[login], asked)
        return web.Response(body=orjson.dumps(view), content_type="application/json")

    app.router.add_get("/api/lanes", show, allow_head=False)


async def _read(link: DaemonLink, login: WebLogin, asked: Mapping[str, str]) -> Mapping[str, Any]:
    timeline = await link.get("/v1/timeline", asked, login=login, timeout_s=_TIMEOUT_S)
    query = {"since_time": timeline["since"], "limit": str(_MARKS_MAX)}
    if "workspace" in asked:
        query["workspace"] = asked["workspace"]
    read = await asyncio.gather(
        *(
            link.get("/v1/events", {**query, "type": kind}, login=login, timeout_s=_TIMEOUT_S)
            for kind in MARKS
        )
    )
    until = timeline["until"]
    cut = [
        kind
        for kind, answer in zip(MARKS, read, strict=True)
        if len(answer["events"]) >= _MARKS_MAX and answer["events"][-1]["timestamp"] <= until
    ]
    events = [event for answer in read for event in answer["events"] if event["timestamp"] <= until]
    return lane_fields(timeline, events, cut)


def lane_fields(
    timeline: Mapping[str, Any], events: Sequence[Mapping[str, Any]], cut: Sequence[str] = ()
) -> Mapping[str, Any]:
    """The lanes as JSON; times are seconds since the epoch. `cut`: the types of which only the first events came."""
    found = lanes(timeline, events)
    since_s, until_s = epoch_s(timeline["since"]), epoch_s(timeline["until"])
    waiting, working = load_of(found, since_s, until_s, _PARTS)
    statuses = {part.status for lane in found for part in lane.spans}
    return {
        "since": since_s,
        "until": until_s,
        "cut": cut,
        "summary": _summary(summary_of(found)),
        "waiting": waiting,
        "working": working,
        "words": {status: status_word(status, stale=False) for status in statuses},
        "signs": MARKS,
        "failed": sorted(FAILED_MARKS),
        "lanes": [_lane(lane) for lane in found],
    }


def _summary(summary: LaneSummary) -> Mapping[str, Any]:
    return {
        "waiting_words": summary.waiting_words,
        "failure_words": summary.failure_words,
        "longest_id": summary.longest_id,
        "longest_label": summary.longest_label,
        "failures": [
            {
                "session": lane.session_id,
                "label": lane.label,
                "at": mark.at_s,
                "text": without_subject(mark.text),
                "seq": mark.seq,
            }
            for lane, mark in summary.failures
        ],
    }


def _lane(lane: Lane) -> Mapping[str, Any]:
    return {
        "session": lane.session_id,
        "label": lane.label,
        "depth": lane.depth,
        "spawned_by": lane.spawned_by,
        "spans": [[part.status, part.start_s, part.end_s, part.reason] for part in lane.spans],
        "marks": [[mark.kind, mark.at_s, without_subject(mark.text), mark.seq] for mark in lane.marks],
        "totals": lane.totals(),
    }
