"""The routes of the daemon itself: health, status, stop."""

import os
import time
from collections import Counter
from contextlib import suppress

from sm import __version__
from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.api.views import build_view
from sm.core.attention import Attention, attention
from sm.core.lifecycle import is_live
from sm.core.messages import SM_ITSELF
from sm.core.wording import operator_message_notice
from sm.errors import SandboxUnavailable
from sm.messaging.messages import RenderedMessage
from sm.operations import daemon_operations as operations
from sm.operations.arguments import InWorkspace
from sm.operations.daemon_operations import OrphanEnd, StopOptions
from sm.services import DaemonInfo, Leftover, SessionFilter
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

_STATUS_LINES = 5

routes = OperationTable()


@routes.carries_out(operations.CHECK_HEALTH)
async def health(request: ApiRequest) -> HealthView:
    services = request.services
    seen = services.sessions.visible(request.caller, archived=True)
    return build_view(
        HealthView,
        _daemon(services.daemon),
        socket=services.daemon.socket,
        sessions=sum(is_live(s.status) for s in seen),
    )


@routes.carries_out(operations.SHOW_OVERALL_STATUS)
async def status(request: ApiRequest, query: InWorkspace) -> StatusOverview:
    services, caller = request.services, request.caller
    visible = services.sessions.visible(caller)
    seen = services.sessions.apply_filter(caller, visible, SessionFilter(workspace=query.workspace))
    past = await services.sessions.past_counts(caller, SessionFilter(workspace=query.workspace))
    counts = Counter(session.status.value for session in seen)
    for (session_status, _), count in past.items():
        counts[session_status.value] += count
    operator = services.sessions.principal(caller) is None
    unseen_since = services.seen.since(caller)
    groups = Counter(attention(session, (), unseen_since) for session in seen)
    ids = None if operator else await services.sessions.visible_ids(caller)
    requests = await services.requests.list_requests(caller, all=False, limit=0)
    inbox = services.messages.available(caller, idle=True)
    waiting = await services.messages.render(inbox[:_STATUS_LINES])
    lines = [line for message in waiting for line in _headline(request, message)]
    tmux_silent = [s for s in sorted(services.monitor.tmux_silent) if ids is None or s in ids]
    engine_silent = [s for s in sorted(services.monitor.engine_silent) if ids is None or s in ids]
    has_cgroups, reason = await services.leftovers.cgroups()
    added = {field.name: await field.value() for field in services.status_fields} if operator else {}
    return StatusOverview(
        daemon=_daemon(services.daemon),
        terminal_server=services.daemon.terminal_server() if operator else None,
        sessions=counts,
        not_seen={str(group): groups[group] for group in (Attention.FAILED, Attention.DONE)},
        orphans=sum(services.sessions.is_orphan(s) for s in seen),
        orphan_processes=[
            _orphan(request, leftover)
            for leftover in await services.leftovers.visible(caller)
            if query.workspace is None or _is_in(request, leftover.session_id, query.workspace)
        ],
        cgroups=CgroupsView(available=has_cgroups, reason=reason),
        dead_letters=await services.store.dead_letters(ids),
        requests_open=len(requests),
        warnings=sum(field.signs(s.id) for field in services.fields for s in seen),
        inbox=len(inbox),
        inbox_lines=lines[:_STATUS_LINES],
        parked=added.get("parked", []),
        programs=services.programs.lines() if operator else [],
        trouble=[
            *services.daemon.trouble(),
            *((*services.daemon.config.state.lines(), *services.daemon.lost_sockets()) if operator else ()),
            *(f"tmux does not respond for session {request.views.recipient(s)}" for s in tmux_silent),
            *(
                f"the agent of session {request.views.recipient(s)} has ended, and the container engine, "
                "which knows how, does not respond"
                for s in engine_silent
            ),
        ],
    )


@routes.carries_out(operations.READ_CONFIG)
async def config(request: ApiRequest) -> ConfigView:
    request.services.sessions.may_read_config(request.caller)
    state = await request.services.daemon.config.read_now()
    return ConfigView(
        path=state.path,
        mistakes=[] if state.problem is None else state.problem.splitlines(),
        needs_restart=list(state.waiting),
    )


@routes.carries_out(operations.LIST_ORPHANS)
async def orphans(request: ApiRequest) -> list[OrphanProcessView]:
    found = await request.services.leftovers.visible(request.caller)
    return [_orphan(request, leftover) for leftover in found]


@routes.carries_out(operations.KILL_ORPHANS)
async def kill_orphans(request: ApiRequest, body: OrphanEnd) -> EndedOrphansView:
    done = await request.services.leftovers.end(request.caller, force=bool(body.force))
    return EndedOrphansView(
        ended=[_orphan(request, leftover) for leftover in done.ended],
        left=[_orphan(request, leftover) for leftover in done.left],
    )


@routes.carries_out(operations.STOP)
async def stop_daemon(request: ApiRequest, body: StopOptions) -> StoppedView:
    sessions = request.services.sessions
    sessions.may_stop_daemon(request.caller)
    killed = await sessions.end_all() if body.all else []
    if body.all:
        with suppress(SandboxUnavailable):  # then no container runs, or nobody can reach it
            await request.services.sandboxing.remove_all()
    request.services.daemon.stopping.set()
    return StoppedView(killed=killed)


def _daemon(daemon: DaemonInfo) -> DaemonView:
    uptime_s = round(time.monotonic() - daemon.started_s, 3)
    return DaemonView(pid=os.getpid(), version=__version__, uptime_s=uptime_s)


def _is_in(request: ApiRequest, session_id: str, workspace: str) -> bool:
    session = request.services.store.sessions.get(session_id)
    filter = SessionFilter(workspace=workspace)
    return session is not None and bool(request.services.sessions.select(request.caller, [session], filter))


def _orphan(request: ApiRequest, leftover: Leftover) -> OrphanProcessView:
    return OrphanProcessView(
        session_id=leftover.session_id,
        label=request.views.recipient(leftover.session_id),
        pid=leftover.process.pid,
        command=leftover.command,
        age_s=round(leftover.age_s, 1),
        memory_bytes=leftover.memory_bytes,
    )


def _headline(request: ApiRequest, rendered: RenderedMessage) -> list[str]:
    """The lines of a message in an overview: the text of sm's own messages, the sender of other messages.

    The operator also sees the words of a session.
    """
    message = rendered.message
    if message.sender == SM_ITSELF:
        return rendered.text.split("\n")
    sender = request.services.store.sessions.get(message.sender)
    if message.session_id is None and sender is not None:
        return [operator_message_notice(sender, message, rendered.text)]
    return [f"message {message.id} from {request.views.message(message).from_label}"]
