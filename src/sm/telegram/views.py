"""The commands of the bot that show something, each on the same use case as the command of `sm` with its name."""

import asyncio
from collections.abc import Sequence
from itertools import groupby

from sm.core.attention import (
    HIDDEN,
    Attention,
    attention,
    count_hidden,
    current_task,
    request_line,
)
from sm.core.dataclass import dataclass
from sm.core.labels import label, name_to_type
from sm.core.models import Caller, Session
from sm.core.pauses import pause_fact
from sm.core.requests import Request
from sm.core.session_lines import HEADINGS, ended_children, left_out, loss
from sm.core.states import TrustLevel
from sm.core.task_kinds import TASK_MAX
from sm.core.telegram_model import session_object
from sm.core.telegram_text import preformatted
from sm.core.text import folded
from sm.core.timestamps import epoch_s
from sm.core.wording import status_words
from sm.operations.access_rules import READ
from sm.services import (
    Authorizer,
    DaemonInfo,
    ListPage,
    Monitor,
    Reads,
    Requests,
    SeenSessions,
    SessionFilter,
    Sessions,
)
from sm.telegram.cards import UNTRUSTED, session_lines, tree_rows
from sm.telegram.command_call import CommandCall, is_count
from sm.telegram.progress_card import elapsed
from sm.telegram.replies import BotReply, NewButton, Redrawn

_OUTPUT_LINES, _OUTPUT_LINES_MAX = 40, 1000
_EVENTS, _EVENTS_MAX = 15, 200
SESSIONS_ON_PAGE = 20
_SUMMARY_WITHIN_S = 20.0
_LISTED_MAX = 10_000
_PAGES_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWork:
    """Finds what sessions do and wait for."""

    requests: Requests
    monitor: Monitor
    seen: SeenSessions
    sessions: Sessions
    store: Reads

    async def open_requests(self, caller: Caller) -> list[Request]:
        return await self.requests.list_requests(caller, all=False, limit=0)

    async def waiting(self, caller: Caller) -> dict[str, list[Request]]:
        """The open requests of each session that have no proposed answer."""
        asked: dict[str, list[Request]] = {}
        for request in await self.open_requests(caller):
            if not request.has_proposed_answer:
                asked.setdefault(request.session_id, []).append(request)
        return asked

    async def tasks(
        self, caller: Caller, shown: list[Session]
    ) -> tuple[dict[str, str], dict[str, list[str]]]:
        """The current task and the names of the open requests of each session."""
        asked, monitor, since = await self.waiting(caller), self.monitor, self.seen.since(caller)
        answers = await monitor.answers(shown)
        for session in shown:
            if session.id not in answers and attention(session, (), since) is Attention.FAILED:
                answers[session.id] = await monitor.last_words(session) or ""
        ended = await self.sessions.ended_children(caller, shown)
        prompts = await self.store.spawn_prompts([session.id for session in shown], TASK_MAX)

        def task(session: Session) -> str:
            words = monitor.activity(session.id), answers.get(session.id), prompts.get(session.id)
            children = {"children_failed": ended.failed(session.id), "children_done": ended.done(session.id)}
            told = current_task(session, request_line(asked.get(session.id, [])), *words).text
            return "; ".join(filter(None, (ended_children(children), told)))

        tasks = {session.id: task(session) for session in shown}
        return tasks, {session_id: [r.name for r in requests] for session_id, requests in asked.items()}


async def list_sessions(
    call: CommandCall, *, work: ListedWork, sessions: Sessions, seen: SeenSessions, store: Reads
) -> BotReply:
    words = call.words
    scope = "all" if "all" in words else "live"
    slug = next((word for word in words if word != "all"), None)
    text, buttons = await _list_page(call, 0, scope, slug, work, sessions, seen, store)
    return BotReply(text, is_output=True, name="sessions", buttons=buttons, buttons_s=_PAGES_S)


async def press_list(
    call: CommandCall, *, work: ListedWork, sessions: Sessions, seen: SeenSessions, store: Reads
) -> Redrawn:
    """Show another page of a list: `list PAGE SCOPE [SLUG]`."""
    page, scope, *slug = call.words
    text, buttons = await _list_page(
        call, int(page), scope, slug[0] if slug else None, work, sessions, seen, store
    )
    return Redrawn(preformatted(text), buttons, buttons_s=_PAGES_S)


async def _list_page(
    call: CommandCall,
    page: int,
    scope: str,
    slug: str | None,
    work: ListedWork,
    sessions: Sessions,
    seen: SeenSessions,
    store: Reads,
) -> tuple[str, Sequence[Sequence[NewButton]]]:
    """The text of a page of the list, from 0, in its current state, and the buttons to the pages beside it."""
    filter = SessionFilter(workspace=slug)
    if scope == "all":
        found = (await sessions.list_sessions(call.caller, filter, ListPage(limit=_LISTED_MAX))).sessions
    else:
        found = sessions.select(call.caller, store.sessions.values(), filter)
    asked, since = await work.waiting(call.caller), seen.since(call.caller)
    groups: dict[str, list[Session]] = {heading: [] for heading in HEADINGS.values()}
    for session in found:
        group = attention(session, asked.get(session.id, ()), since)
        if scope == "all" or group not in HIDDEN:
            groups[HEADINGS[group]].append(session)
    rows = [(heading, *row) for heading, members in groups.items() for row in tree_rows(members)]
    pages = max(1, -(-len(rows) // SESSIONS_ON_PAGE))
    page = min(page, pages - 1)
    rows = rows[page * SESSIONS_ON_PAGE : (page + 1) * SESSIONS_ON_PAGE]
    tasks, waits = await work.tasks(call.caller, [session for *_, session in rows])
    title = "Sessions" if scope == "all" else "Active Sessions"
    kept = [s for s in found if store.sessions.is_kept(s.id)]
    lost = len(seen.lost(call.caller, kept))
    lost += await seen.count_lost(call.caller, sessions.past(call.caller, filter))
    lines = [*loss(lost), f"{title}{f' (page {page + 1} of {pages})' if pages > 1 else ''}:"]
    has_headings = bool(groups[HEADINGS["failed"]] or groups[HEADINGS["done"]])
    for heading, shown in groupby(rows, lambda row: row[0]):
        lines += [f"{heading}:"] if has_headings else []
        lines += session_lines([row[1:] for row in shown], tasks, waits, with_workspace=slug is None)
    lines += [] if rows else ["none"]
    if scope != "all":
        past = await sessions.past_counts(call.caller, filter)
        lines += left_out(count_hidden(found, since, past), "/list all", "sm seen --all")
    text = "\n".join(lines)
    beside = [("Previous", page - 1)] * (page > 0) + [("Next", page + 1)] * (page < pages - 1)
    target = f"{scope} {slug or ''}".strip()
    buttons = [NewButton(name, f"list {number} {target}") for name, number in beside]
    return text, [buttons] if buttons else []


async def status(
    call: CommandCall, *, work: ListedWork, monitor: Monitor, sessions: Sessions, daemon: DaemonInfo
) -> BotReply:
    if not call.words and call.shown is None:
        return await _overview(call, work, sessions, daemon)
    session = call.session()
    tasks, waits = await work.tasks(call.caller, [session])
    sandboxed = session.effective_mode is TrustLevel.SANDBOXED
    own = f" {UNTRUSTED}" if sandboxed else ""
    for_ = elapsed(monitor.now() - epoch_s(session.status_at))
    lines = [
        f"{label(session)} ({session.id}): {status_words(session)} for {for_}",
        f"reason: {folded(session.status_reason)}",
        f"task: {folded(tasks[session.id], 300)}{own}",
        f"mode: {session.effective_mode}, {session.mode}",
    ]
    if session.id in waits:
        lines.append(f"waits: {', '.join(waits[session.id])}")
    if session.completion_message:
        lines.append(f"result: {folded(session.completion_message)}{own}")
    return BotReply("\n".join(lines), about=session_object(session.id))


async def _overview(call: CommandCall, work: ListedWork, sessions: Sessions, daemon: DaemonInfo) -> BotReply:
    counts: dict[str, int] = {}
    for session in sessions.visible(call.caller):
        counts[session.status.value] = counts.get(session.status.value, 0) + 1
    for (status, _), count in (await sessions.past_counts(call.caller, SessionFilter())).items():
        counts[status.value] = counts.get(status.value, 0) + count
    lines = [f"{count} {status}" for status, count in sorted(counts.items())] or ["no sessions"]
    lines.append(f"{len(await work.open_requests(call.caller))} open requests")
    if call.caller.user is not None and call.caller.user.is_owner:
        lines += [f"trouble: {folded(trouble)}" for trouble in daemon.trouble()]
    return BotReply("\n".join(lines))


async def children(call: CommandCall, *, work: ListedWork, authorizer: Authorizer) -> BotReply:
    session = call.session()
    sessions = await authorizer.descendants(call.caller, session.id)
    tasks, waits = await work.tasks(call.caller, sessions)
    lines = session_lines(tree_rows(sessions), tasks, waits)
    text = "\n".join([f"Below {label(session)}:", *lines])
    return BotReply(text, is_output=True, name="sessions", about=session_object(session.id))


async def output(call: CommandCall, *, monitor: Monitor) -> BotReply:
    session = call.session(READ)
    shown = await monitor.output(session, call.count(_OUTPUT_LINES, _OUTPUT_LINES_MAX))
    text = "\n".join(line.rstrip() for line in shown.lines).strip("\n")
    return BotReply(
        text or "(no output)",
        is_output=True,
        name=f"{session.display_name}-output",
        about=session_object(session.id),
    )


async def progress(call: CommandCall, *, monitor: Monitor, authorizer: Authorizer) -> BotReply:
    session = call.session()
    may_read = authorizer.may_read(call.caller, session)
    shown = await monitor.progress(session, 1, may_read=may_read)
    status = shown.status if session.paused is None else f"{session.paused.state} ({shown.status})"
    lines = [f"{label(session)} ({session.id}): {status}"]
    if session.paused is not None:
        lines.append(folded(pause_fact(session.paused), 300))
    for name, key in (
        ("elapsed", "elapsed_seconds"),
        ("tokens", "tokens_used"),
        ("cost in USD", "cost_usd"),
        ("context in %", "context_percent"),
        ("tools used", "total_tools"),
        ("done in %", "completion_percentage"),
        ("activity", "current_activity"),
    ):
        if (value := getattr(shown, key)) is not None:
            unit = " s" if key == "elapsed_seconds" else ""
            lines.append(f"{name}: {folded(str(value), 300)}{unit}")
    lines += [f"checkpoint: {folded(c.message, 300)}" for c in shown.checkpoints]
    return BotReply("\n".join(lines), about=session_object(session.id))


async def what(call: CommandCall, *, monitor: Monitor) -> BotReply:
    session = call.session(READ)
    about = session_object(session.id)
    try:
        async with asyncio.timeout(_SUMMARY_WITHIN_S):  # later texts of the chat wait meanwhile
            summary = await monitor.summarize(session)
    except TimeoutError:
        late = f"no summary within {_SUMMARY_WITHIN_S:.0f} s\nhint: sm what {name_to_type(session)}"
        return BotReply(late, about=about)
    own = f" {UNTRUSTED}" if session.effective_mode is TrustLevel.SANDBOXED else ""
    reason = f"; no model used: {folded(summary.reason)}" if summary.reason else ""
    return BotReply(f"{summary.summary}{own}\n(by {folded(summary.made_by)}{reason})", about=about)


async def events(call: CommandCall, *, sessions: Sessions, store: Reads) -> BotReply:
    names_session = call.shown is not None or any(not is_count(word) for word in call.words)
    reference = call.session().id if names_session else None
    scope = await sessions.event_scope(call.caller, reference, None, recursive=False)
    found = await store.events(sessions=scope, limit=call.count(_EVENTS, _EVENTS_MAX))
    lines = [f"{event.timestamp[11:16]} {folded(event.message)}" for event in found]
    about = session_object(reference) if reference is not None else None
    return BotReply("\n".join(lines) or "no events", name="events", about=about)


async def requests(call: CommandCall, *, work: ListedWork, store: Reads) -> BotReply:
    found = await work.open_requests(call.caller)
    lines = []
    for request in found:
        session = store.sessions.get(request.session_id)
        who = request.session_id if session is None else label(session)
        what = request.text or request.tool or ""
        lines.append(f"{request.name} {request.kind} of {who}: {folded(what, 200)}")
    return BotReply("\n".join(lines) or "no open requests")
