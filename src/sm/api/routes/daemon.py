"""The routes of the daemon itself: health, status, stop."""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from sm import __version__
from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.api.views import Views, build_view, written_rule_view
from sm.core.attention import Attention, attention
from sm.core.lifecycle import is_live
from sm.core.messages import SM_ITSELF
from sm.core.models import Session
from sm.core.wording import operator_message_notice
from sm.errors import SandboxUnavailable
from sm.messaging.inbox import RenderedMessage
from sm.operations import daemon_operations as operations
from sm.operations.arguments import InWorkspace
from sm.operations.daemon_operations import OrphanEnd, StopOptions
from sm.operations.request_operations import SeenRule
from sm.services import (
    Authorizer,
    DaemonInfo,
    Inbox,
    Leftover,
    Leftovers,
    Monitor,
    ProgramChecks,
    Reads,
    Requests,
    RuleWriter,
    Sandboxing,
    SeenSessions,
    SessionFields,
    SessionFilter,
    Sessions,
    StatusFields,
)
from sm.wire_types.daemon import (
    CgroupsView,
    ConfigView,
    DaemonView,
    EndedOrphansView,
    HealthView,
    OrphanProcessView,
    StatusOverview,
    StoppedView,
)
from sm.wire_types.request_answers import WrittenRuleView

_STATUS_LINES = 5

routes = OperationTable()


@routes.carries_out(operations.CHECK_HEALTH)
async def health(request: ApiRequest, *, sessions: Sessions, daemon: DaemonInfo) -> HealthView:
    seen = sessions.visible(request.caller, archived=True)
    return build_view(
        HealthView, _daemon(daemon), socket=daemon.socket, sessions=sum(is_live(s.status) for s in seen)
    )


@routes.carries_out(operations.SHOW_OVERALL_STATUS)
async def status(
    request: ApiRequest,
    query: InWorkspace,
    *,
    sessions: Sessions,
    seen: SeenSessions,
    programs: ProgramChecks,
    leftovers: Leftovers,
    requests: Requests,
    inbox: Inbox,
    monitor: Monitor,
    store: Reads,
    daemon: DaemonInfo,
    fields: SessionFields,
    status_fields: StatusFields,
    authorizer: Authorizer,
) -> StatusOverview:
    caller, filter = request.caller, SessionFilter(workspace=query.workspace)
    shown = sessions.apply_filter(caller, sessions.visible(caller), filter)
    past = await sessions.past_counts(caller, filter)
    counts = Counter[str]()  # those that ended long ago come first: the order is that of the oldest sessions
    for (session_status, _), count in past.items():
        counts[session_status.value] += count
    counts.update(session.status.value for session in shown)
    operator = authorizer.principal(caller) is None
    since = seen.since(caller)
    groups = Counter(attention(session, (), since) for session in shown)
    ids = None if operator else await sessions.visible_ids(caller)
    waiting_requests = await requests.list_requests(caller, all=False, limit=0)
    letters = inbox.available(caller, idle=True)
    waiting = await inbox.render(letters[:_STATUS_LINES])
    lines = [line for message in waiting for line in _headline(request.views, message, store)]
    has_cgroups, reason = await leftovers.cgroups()
    added = {field.name: await field.value() for field in status_fields} if operator else {}
    left = await leftovers.visible(caller)
    if query.workspace is not None:
        of = {s.id for s in sessions.select(caller, _sessions_of(left, store), filter)}
        left = [leftover for leftover in left if leftover.session_id in of]
    return StatusOverview(
        daemon=_daemon(daemon),
        terminal_server=daemon.terminal_server() if operator else None,
        sessions=counts,
        not_seen={str(group): groups[group] for group in (Attention.FAILED, Attention.DONE)},
        orphans=sum(sessions.is_orphan(s) for s in shown),
        orphan_processes=[_orphan(request, leftover) for leftover in left],
        cgroups=CgroupsView(available=has_cgroups, reason=reason),
        dead_letters=await store.dead_letters(ids),
        requests_open=len(waiting_requests),
        warnings=sum(field.signs(s.id) for field in fields for s in shown),
        inbox=len(letters),
        inbox_lines=lines[:_STATUS_LINES],
        parked=added.get("parked", []),
        programs=programs.lines() if operator else [],
        trouble=[
            *daemon.trouble(),
            *((*daemon.config.state.lines(), *daemon.lost_sockets()) if operator else ()),
            *_silent(request.views, monitor, ids),
        ],
    )


@routes.carries_out(operations.READ_CONFIG)
async def config(
    request: ApiRequest, *, authorizer: Authorizer, daemon: DaemonInfo, rules: RuleWriter
) -> ConfigView:
    authorizer.require(request.caller, operations.READ_CONFIG.audience, is_read=True)
    state = await daemon.config.read_now()
    return ConfigView(
        path=state.path,
        mistakes=[] if state.problem is None else state.problem.splitlines(),
        needs_restart=list(state.waiting),
        rules=[written_rule_view(rule, rules.path) for rule in rules.rules],
    )


@routes.carries_out(operations.UNDO_RULE)
async def undo_rule(request: ApiRequest, given: SeenRule, *, rules: RuleWriter) -> WrittenRuleView:
    return written_rule_view(await rules.undo(request.caller, given.line), rules.path)


@routes.carries_out(operations.LIST_ORPHANS)
async def orphans(request: ApiRequest, *, leftovers: Leftovers) -> list[OrphanProcessView]:
    found = await leftovers.visible(request.caller)
    return [_orphan(request, leftover) for leftover in found]


@routes.carries_out(operations.KILL_ORPHANS)
async def kill_orphans(request: ApiRequest, body: OrphanEnd, *, leftovers: Leftovers) -> EndedOrphansView:
    done = await leftovers.end(request.caller, force=bool(body.force))
    return EndedOrphansView(
        ended=[_orphan(request, leftover) for leftover in done.ended],
        left=[_orphan(request, leftover) for leftover in done.left],
    )


@routes.carries_out(operations.STOP)
async def stop_daemon(
    request: ApiRequest,
    body: StopOptions,
    *,
    authorizer: Authorizer,
    sessions: Sessions,
    sandboxing: Sandboxing,
    daemon: DaemonInfo,
) -> StoppedView:
    authorizer.require(request.caller, operations.STOP.audience)
    killed = await sessions.end_all() if body.all else []
    if body.all:
        with suppress(SandboxUnavailable):  # then no container runs, or nobody can reach it
            await sandboxing.remove_all()
    daemon.stopping.set()
    return StoppedView(killed=killed)


def _daemon(daemon: DaemonInfo) -> DaemonView:
    uptime_s = round(time.monotonic() - daemon.started_s, 3)
    return DaemonView(pid=os.getpid(), version=__version__, uptime_s=uptime_s)


def _sessions_of(left: Sequence[Leftover], store: Reads) -> list[Session]:
    return [s for leftover in left if (s := store.sessions.get(leftover.session_id)) is not None]


def _silent(views: Views, monitor: Monitor, ids: Collection[str] | None) -> Iterator[str]:
    """Yield a line for each of these sessions of which tmux or the engine tells nothing. `ids`: None means all."""
    for session_id in sorted(monitor.tmux_silent):
        if ids is None or session_id in ids:
            yield f"tmux does not respond for session {views.recipient(session_id)}"
    for session_id in sorted(monitor.engine_silent):
        if ids is None or session_id in ids:
            yield (
                f"the agent of session {views.recipient(session_id)} has ended, and the container engine, "
                "which knows how, does not respond"
            )


def _orphan(request: ApiRequest, leftover: Leftover) -> OrphanProcessView:
    return OrphanProcessView(
        session_id=leftover.session_id,
        label=request.views.recipient(leftover.session_id),
        pid=leftover.process.pid,
        command=leftover.command,
        age_s=round(leftover.age_s, 1),
        memory_bytes=leftover.memory_bytes,
    )


def _headline(views: Views, rendered: RenderedMessage, store: Reads) -> list[str]:
    """The lines of a message in an overview: the text of sm's own messages, the sender of other messages.

    The operator also sees the words of a session.
    """
    message = rendered.message
    if message.sender == SM_ITSELF:
        return rendered.text.split("\n")
    sender = store.sessions.get(message.sender)
    if message.session_id is None and sender is not None:
        return [operator_message_notice(sender, message, rendered.text)]
    return [f"message {message.id} from {views.message(message).from_label}"]
