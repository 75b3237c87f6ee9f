"""The routes by which agents are observed and looked at: hooks, evidence, actions, progress, summaries."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from aiohttp import web

from sm.api.body import moment, number, read_body
from sm.api.context import CALLER, Daemon, json_answer, last_output, reads
from sm.capabilities.agent_types import AgentType, Catalog
from sm.core.models import Session
from sm.core.observation import Source
from sm.core.text import folded
from sm.core.timestamps import iso, later
from sm.core.usage import ToolUse
from sm.errors import NotPermitted
from sm.monitor.evidence import Entry, Ledger, Verdict
from sm.monitor.progress import Measurements, TokenCounts, report, without_words
from sm.monitor.summary import Act
from sm.policy.access import Action

_ACTIONS = 10
_ACTIONS_MAX = 10_000
_SUMMED_UP = 60
_REASON_MAX = 200
"""Characters of a status's reason for who may not read the session."""
_AHEAD_S = 60.0
"""A time that lies further ahead is not when it was: an agent can write its transcript itself. Not more than what
`sm tail --follow` looks back, which would see nothing else until then.
"""


class LookRoutes:
    """`view` shows a session as every other route does, to who has sent the request."""

    def __init__(self, daemon: Daemon, view: Callable[[web.Request, Session], dict[str, Any]]) -> None:
        self._d = daemon
        self._view = view

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/hooks", self.hook),
            web.get("/v1/agents", self.agents),
            web.get("/v1/sessions/{ref}/why", self.why),
            web.get("/v1/sessions/{ref}/actions", self.actions),
            web.get("/v1/sessions/{ref}/progress", self.progress),
            web.post("/v1/sessions/{ref}/what", self.what),
        ]

    def _find(self, request: web.Request, action: Action = Action.SEE) -> Session:
        return self._d.manager.find(request[CALLER], request.match_info["ref"], action)

    async def hook(self, request: web.Request) -> web.Response:
        """An event of a session's own agent, told by `sm hook`."""
        caller = request[CALLER]
        if caller.session_id is None:
            raise NotPermitted("only an agent's own hooks tell what it does")
        body = await read_body(request)
        emitted_at = moment(body.text("emitted_at"), "emitted_at")
        await self._d.observer.hook(caller.session_id, body.mapping("payload", object), emitted_at)
        return json_answer({})

    async def agents(self, request: web.Request) -> web.Response:
        """What `sm spawn` finds: for a session what it may spawn, for the operator what is wrong besides."""
        query = request.query
        named = {"HOME": query.get("home"), "CLAUDE_CONFIG_DIR": query.get("claude_config_dir")}
        found = await self._d.starts.agent_types(
            request[CALLER],
            query.get("workspace"),
            query.get("cwd"),
            {name: value for name, value in named.items() if value},
        )
        is_session = request[CALLER].session_id is not None
        shown = [t for t in found.types if (t.usable if is_session else not t.withheld)]
        return json_answer(
            {
                "workspace": found.workspace.slug if found.workspace else None,
                "agents": [agent_type_json(each) for each in shown],
                "warnings": [] if is_session else [*_withheld(found), *found.warnings],
            }
        )

    async def why(self, request: web.Request) -> web.Response:
        session = self._find(request)
        view = self._view(request, session)
        shown = (
            "session_id", "name", "friendly_name", "status", "status_source", "status_reason", "status_at",
            "status_stale", "completion_message",
        )  # fmt: skip
        ledger = self._d.observer.ledger(session.id)
        answer = {
            **{key: view[key] for key in shown},
            "evidence": [] if ledger is None else evidence_json(ledger, self._d.observer.now()),
            "facts": await self._d.observer.facts(session.id),
        }
        if not reads(self._d, request[CALLER], session):
            answer["status_reason"] = folded(session.status_reason, _REASON_MAX)
            answer["evidence"] = [{**each, "reason": None} for each in answer["evidence"]]
        return json_answer(answer)

    async def actions(self, request: web.Request) -> web.Response:
        session = self._find(request, Action.READ)
        count = number(request, "lines", _ACTIONS, _ACTIONS_MAX)
        acts = await self._acts(session, count)
        after = request.query.get("after")
        if after is not None:
            acts = [act for act in acts if act.timestamp > after]
        return json_answer([{"timestamp": a.timestamp, "kind": a.kind, "text": a.text} for a in acts])

    async def _acts(self, session: Session, count: int) -> list[Act]:
        """What its transcript tells, and its own events, as one story; the last `count`, oldest first."""
        reader = self._d.manager.provider(session).readers.transcripts
        done = () if reader is None else await self._d.measuring.actions(session, reader, count)
        events = await self._d.store.events(sessions=[session.id], limit=count)
        now = self._d.manager.now()
        acts = [Act(at, a.kind, a.text) for a in done if (at := _comparable(a.at, now)) is not None]
        acts += [Act(e.timestamp, "event", f"{e.type}: {e.message}") for e in events]
        acts.sort(key=lambda act: act.timestamp)
        return acts[-count:] if count else []

    async def progress(self, request: web.Request) -> web.Response:
        session = self._find(request)
        may_read = reads(self._d, request[CALLER], session)
        checkpoints, measured = await asyncio.gather(
            self._d.store.checkpoints(session.id), self._measured(session)
        )
        output = await last_output(self._d, session) if may_read else []
        shown = report(session, checkpoints, output, self._d.manager.now(), measured)
        return json_answer(shown if may_read else without_words(shown, session))

    async def _measured(self, session: Session) -> Measurements | None:
        provider = self._d.manager.provider(session)
        if provider.readers.transcripts is None:
            return None
        measures = self._d.store.measures
        positions, usages, tools, facts, estimate = await asyncio.gather(
            measures.positions(session.id),
            measures.usage(session.id),
            measures.tools(session.id),
            measures.facts(session.id),
            measures.usual_tokens(session.agent_type),
        )
        model = facts.get("model")
        todo = facts.get("todo")
        counted = self._d.config.child_agents.progress
        # What was counted before somebody switched it off is not all, and what nobody could read is not nothing.
        counts_tokens = counted.enable_token_tracking and any(p.inode for p in positions.values())
        if not counts_tokens:
            usages, estimate = [], None
            facts = {name: value for name, value in facts.items() if name != "context_tokens"}
        if not counted.enable_tool_tracking:
            tools = {}
            facts = {name: value for name, value in facts.items() if name != "last_tool"}
        return Measurements(
            tokens=TokenCounts.of(u for u in usages if not u.sidechain) if counts_tokens else None,
            subagents=TokenCounts.of(u for u in usages if u.sidechain),
            tools=tools,
            last_tool=_last_tool(facts.get("last_tool"), self._d.manager.now()),
            context_tokens=facts.get("context_tokens"),
            context_window=provider.context_window(model) if model else None,
            cost_usd=provider.cost_usd(usages) if usages else None,
            current_activity=self._d.observer.activity(session.id),
            todo=[(t["status"], t["content"]) for t in todo] if todo else None,
            estimate=estimate,
        )

    async def what(self, request: web.Request) -> web.Response:
        session = self._find(request, Action.READ)
        launch, acts, screen = await asyncio.gather(
            self._d.store.launch(session.id), self._acts(session, _SUMMED_UP), last_output(self._d, session)
        )
        made = await self._d.summary.of(session, launch, acts, screen)
        return json_answer(
            {
                "session_id": session.id,
                "summary": made.summary,
                "made_by": made.made_by,
                "reason": made.reason,
            }
        )


def agent_type_json(kind: AgentType) -> dict[str, Any]:
    agent = kind.agent
    return {
        "name": kind.name,
        "provider": kind.provider,
        "model": agent.model,
        "description": agent.description,
        "tools": None if agent.tools is None else list(agent.tools),
        "spawnable": agent.spawnable,
        "origin": kind.origin,
        "problem": kind.problem,
        "shadowed_by": kind.shadowed_by,
        "warnings": list(kind.warnings),
    }


def _withheld(found: Catalog) -> list[str]:
    count = sum(each.withheld for each in found.types)
    if not count:
        return []
    types = "1 more agent type is" if count == 1 else f"{count} more agent types are"
    if found.workspace is None:
        return [
            f"{types} not given to sessions without a workspace (default_capabilities.agents in config.yaml)"
        ]
    slug = found.workspace.slug
    return [f"{types} not given to sessions of workspace {slug} (sm workspace set {slug} --agents NAMES)"]


def evidence_json(ledger: Ledger, now: float) -> list[dict[str, Any]]:
    """What each source says, strongest first, and whether it is believed."""
    verdict = ledger.verdict(now)
    return [
        _entry_json(source, ledger.entries[source], verdict) for source in Source if source in ledger.entries
    ]


def _entry_json(source: Source, entry: Entry, verdict: Verdict | None) -> dict[str, Any]:
    overruled: Mapping[Source, str] = {} if verdict is None else verdict.overruled
    return {
        "source": source,
        "says": entry.said.activity,
        "reason": entry.said.reason,
        "at": iso(entry.said.at),
        "since": iso(entry.since),
        "seen": iso(entry.seen),
        "believed": source not in overruled,
        "why_not": overruled.get(source),
    }


def _last_tool(value: Any, now: str) -> ToolUse | None:
    """None also for one of which nobody knows when it was: what was stored is what an agent wrote."""
    if not isinstance(value, Mapping) or _comparable(value.get("timestamp"), now) is None:
        return None
    return ToolUse("", value["name"], value["timestamp"], value.get("args") or {})


def _comparable(at: object, now: str) -> str | None:
    """A time in the form of all others, so that they sort; None for what is none, or lies far ahead. Never raises."""
    if not isinstance(at, str):
        return None
    try:
        shown = iso(datetime.fromisoformat(at).timestamp())
    except (ValueError, OverflowError):
        return None
    return shown if shown <= later(now, _AHEAD_S) else None
