"""The routes of sessions: list, spawn, kill, restore, interrupt, fork, adopt, archive, rename, remove."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.api.views import Views, failures_json, losses_json, nest, session_sums_json
from sm.core.attention import (
    HIDDEN,
    Attention,
    EndedChildren,
    attention,
    count_hidden,
    current_task,
    request_line,
)
from sm.core.lifecycle import is_ended
from sm.core.models import RequestKey, Session, SpawnRequest
from sm.core.requests import Request
from sm.core.session_index import oldest_first
from sm.core.states import TrustLevel
from sm.core.statuses import ENDED_OF_ANY_KIND
from sm.core.task_kinds import TASK_MAX
from sm.core.text import folded
from sm.core.usage import SessionUsage
from sm.operations import list_operations
from sm.operations import session_operations as operations
from sm.operations.arguments import PagedSessions, SeenByPerson, SessionFilter
from sm.operations.list_operations import ChildrenScope, OverviewScope, SessionsScope
from sm.operations.session_operations import (
    AgentToStart,
    AwaitedSessions,
    ForkName,
    KillOptions,
    KnownEndings,
    NewName,
    NewParent,
    PaneToAdopt,
    RestoreAllOptions,
    RestoreOptions,
    SeenMarks,
)
from sm.services import (
    Adoptions,
    Authorizer,
    Forks,
    Interrupts,
    Monitor,
    ProgramChecks,
    Reads,
    Records,
    Requests,
    Restorer,
    SeenSessions,
    Sessions,
    SessionSums,
    Waits,
)
from sm.wire_types.fields import LEFT_OUT, EmptyView
from sm.wire_types.session_answers import (
    AllRestoredView,
    InterruptedView,
    KilledView,
    OverviewRestView,
    OverviewView,
    RemovedView,
    RestoredView,
    SeenView,
    SessionView,
    SessionWithOutput,
    SessionWithSums,
    StartedView,
    WaitView,
    WorktreeView,
)

_WORDS_MAX = 50
"""Failed sessions whose last lines are read for one overview."""

routes = OperationTable()


_ADDITIONS = (
    "base", "branch", "budget", "new_copy", "new_worktree", "pull_request", "remote", "remote_branch", "restart",
    "worktree",
)  # fmt: skip
"""The arguments of capabilities."""


# Lists


@routes.carries_out(list_operations.LIST_SESSIONS)
async def all_sessions(
    request: ApiRequest, query: SessionsScope, *, sessions: Sessions
) -> list[SessionWithSums]:
    listed = await sessions.list_sessions(request.caller, query.filter(), query.page(), query.prefix)
    page = request.page(listed)
    if query.sums:
        return await request.views.sessions_with_sums(page)
    return cast("list[SessionWithSums]", request.views.sessions(page))


@routes.carries_out(list_operations.OVERVIEW)
async def overview(
    request: ApiRequest,
    query: OverviewScope,
    *,
    sessions: Sessions,
    seen: SeenSessions,
    requests: Requests,
    monitor: Monitor,
    store: Reads,
    authorizer: Authorizer,
) -> list[OverviewView]:
    caller = request.caller
    waiting: dict[str, list[Request]] = {}
    for asked in await requests.list_requests(caller, all=False, limit=0):
        if not asked.has_proposed_answer:
            waiting.setdefault(asked.session_id, []).append(asked)
    since, groups = seen.since(caller), dict[str, Attention]()
    with_ended = query.ended or query.archived
    if with_ended:
        listed = await sessions.list_sessions(caller, query.filter(), query.page())
        shown = request.page(listed)
    else:
        shown = sessions.select(caller, store.sessions.values(), query.filter())
    for session in shown:
        groups[session.id] = attention(session, waiting.get(session.id, ()), since)
    if not with_ended:
        shown = [s for s in shown if groups[s.id] not in HIDDEN]
    usages = await monitor.usages(shown)
    ended = await sessions.ended_children(caller, shown)
    failed = [s for s in shown if groups[s.id] is Attention.FAILED and usages[s.id].answer is None]
    words = {s.id: await monitor.last_words(s) for s in failed[:_WORDS_MAX]}
    prompts = await store.spawn_prompts([s.id for s in shown], TASK_MAX)
    return [
        overview_json(
            request.views,
            s,
            groups[s.id],
            waiting.get(s.id, []),
            usages[s.id],
            ended,
            words.get(s.id),
            prompts.get(s.id),
            activity=monitor.activity(s.id),
            may_read=authorizer.may_read(caller, s),
        )
        for s in shown
    ]


@routes.carries_out(list_operations.COUNT_REST)
async def overview_rest(
    request: ApiRequest,
    query: SessionFilter,
    *,
    sessions: Sessions,
    seen: SeenSessions,
    programs: ProgramChecks,
    store: Reads,
    authorizer: Authorizer,
) -> OverviewRestView:
    caller = request.caller
    since, filter = seen.since(caller), query.filter()
    kept = sessions.select(caller, store.sessions.values(), filter)
    counts = count_hidden(kept, since, await sessions.past_counts(caller, filter))
    lost = len(seen.lost(caller, kept))
    lost += await seen.count_lost(caller, sessions.past(caller, filter))
    return OverviewRestView(
        failed=counts["failed"],
        completed=counts["completed"],
        killed=counts["killed"],
        older=counts["older"],
        lost=lost,
        programs=programs.problems() if authorizer.principal(caller) is None else [],
    )


@routes.carries_out(list_operations.SHOW_CALLER)
async def me(request: ApiRequest, *, authorizer: Authorizer) -> SessionView:
    return request.views.session(authorizer.find(request.caller, "me", list_operations.SHOW_CALLER.audience))


@routes.carries_out(list_operations.LIST_SIBLINGS)
async def who(request: ApiRequest, query: PagedSessions, *, sessions: Sessions) -> list[SessionView]:
    listed = await sessions.siblings(request.caller, query.filter(), query.page())
    return request.views.sessions(request.page(listed))


@routes.carries_out(list_operations.LIST_OTHERS)
async def others(request: ApiRequest, query: PagedSessions, *, sessions: Sessions) -> list[SessionView]:
    listed = await sessions.others(request.caller, query.filter(), query.page())
    return request.views.sessions(request.page(listed))


@routes.carries_out(operations.SHOW_STATUS)
async def session(
    request: ApiRequest, given: SeenByPerson, *, sessions: Sessions, monitor: Monitor, authorizer: Authorizer
) -> SessionWithOutput:
    shown = await request.look_at(is_person=given.seen)
    has_output = is_ended(shown.status) and authorizer.may_read(request.caller, shown)
    return SessionWithOutput(
        **vars(request.views.session(shown)),
        children_by_status=await sessions.count_children(request.caller, shown.id),
        last_output=await monitor.last_output(shown) if has_output else LEFT_OUT,
    )


@routes.carries_out(list_operations.LIST_CHILDREN)
async def children(
    request: ApiRequest, query: ChildrenScope, *, sessions: Sessions, monitor: Monitor, usage: SessionSums
) -> Sequence[SessionWithSums]:
    views, caller = request.views, request.caller
    if not query.recursive:
        listed = await sessions.children(caller, request.name, query.filter(), query.page())
        return cast("list[SessionWithSums]", views.sessions(request.page(listed)))
    listed, above = await sessions.below(caller, request.name, query.filter(), query.page())
    members = sorted([*request.page(listed), *above], key=oldest_first)
    now_s = monitor.now()
    sums = await usage.sums(caller, members)

    def view(session: Session) -> SessionWithSums:
        both = session_sums_json(usage.own(session.id), sums(session.id), now_s)
        return SessionWithSums(**vars(views.session(session)), sums=both)

    return nest(members, view)


# Starts and ends


@routes.carries_out(operations.SPAWN)
async def spawn(
    request: ApiRequest, body: AgentToStart, key: RequestKey | None, *, sessions: Sessions
) -> StartedView:
    apart = {"args", "cwd", "env", "environment", "files", "process_limits", "wait_s", *_ADDITIONS}
    wanted = SpawnRequest(
        **{name: value for name, value in asdict(body).items() if name not in apart},
        extra_args=tuple(body.args or ()),
        files=tuple(body.files or ()),
        current_dir=body.cwd,
        env=body.env or {},
        environment=body.environment or {},
        process_limits=body.process_limits or {},
        additions={name: getattr(body, name) for name in _ADDITIONS},
    )
    return request.views.started(
        await sessions.spawn(request.caller, wanted, key, body.wait_s, request.is_connected)
    )


@routes.carries_out(operations.KILL)
async def kill(
    request: ApiRequest, given: KillOptions, key: RequestKey | None, *, sessions: Sessions, seen: SeenSessions
) -> KilledView:
    killed = await sessions.kill(
        request.caller,
        request.name,
        key,
        force=bool(given.force),
        tree=bool(given.tree),
        is_connected=request.is_connected,
    )
    await seen.look(request.caller, killed)
    target = await request.look_at()
    too = request.views.sessions(s for s in killed if s.id != target.id)
    view = request.views.session(target)
    return KilledView(**vars(view), killed=[s.id for s in killed], killed_too=too)


@routes.carries_out(operations.RESTORE)
async def restore(
    request: ApiRequest, given: RestoreOptions, key: RequestKey | None, *, restorer: Restorer, store: Reads
) -> RestoredView:
    target = await request.look_at()
    done = await restorer.restore(
        request.caller,
        target.id,
        key,
        tree=bool(given.tree),
        go_on=bool(given.go_on),
        trust=given.trust,
        is_connected=request.is_connected,
    )
    return RestoredView(
        **vars(request.views.session(store.sessions.get(target.id, target))),
        restored=[s.id for s in done.sessions],
        restored_too=request.views.sessions(s for s in done.sessions if s.id != target.id),
        continued=done.continued,
        losses=losses_json(done),
        left=request.views.sessions(s for i in done.left if (s := store.sessions.get(i)) is not None),
        failed=failures_json(done),
    )


@routes.carries_out(operations.RESTORE_ALL)
async def restore_all(
    request: ApiRequest, given: RestoreAllOptions, key: RequestKey | None, *, restorer: Restorer
) -> AllRestoredView:
    done = await restorer.restore_all(
        request.caller, key, go_on=bool(given.go_on), is_connected=request.is_connected
    )
    return AllRestoredView(
        restored=request.views.sessions(done.sessions),
        continued=done.continued,
        losses=losses_json(done),
        failed=failures_json(done),
    )


@routes.carries_out(operations.INTERRUPT)
async def interrupt(
    request: ApiRequest, key: RequestKey | None, *, interrupts: Interrupts
) -> InterruptedView:
    done = await interrupts.interrupt(request.caller, request.name, key)
    view = request.views.session(done.session)
    return InterruptedView(**vars(view), interrupted=done.stopped, continued=done.continued)


@routes.carries_out(operations.FORK)
async def fork(request: ApiRequest, body: ForkName, key: RequestKey | None, *, forks: Forks) -> StartedView:
    return request.views.started(
        await forks.fork(request.caller, request.name, body.name, key, request.is_connected)
    )


@routes.carries_out(operations.ADOPT)
async def adopt(
    request: ApiRequest, body: PaneToAdopt, key: RequestKey | None, *, adoptions: Adoptions
) -> StartedView:
    return request.views.started(
        await adoptions.adopt(
            request.caller,
            body.pane,
            key,
            name=body.name,
            agent_type=body.agent_type,
            trust=body.trust,
            is_connected=request.is_connected,
        )
    )


# Records


@routes.carries_out(operations.REPARENT)
async def reparent(
    request: ApiRequest, given: NewParent, key: RequestKey | None, *, records: Records
) -> SessionView:
    return request.views.session(await records.reparent(request.caller, request.name, given.parent, key))


@routes.carries_out(operations.RENAME)
async def rename(
    request: ApiRequest, given: NewName, key: RequestKey | None, *, records: Records
) -> SessionView:
    return request.views.session(await records.rename(request.caller, request.name, given.name, key))


@routes.carries_out(operations.ARCHIVE)
async def archive(
    request: ApiRequest, key: RequestKey | None, *, records: Records, seen: SeenSessions, store: Reads
) -> SessionView:
    archived = await records.archive(request.caller, request.name, key, archived=True)
    await seen.look(request.caller, [archived])
    return request.views.session(store.sessions.get(archived.id, archived))


@routes.carries_out(operations.UNARCHIVE)
async def unarchive(request: ApiRequest, key: RequestKey | None, *, records: Records) -> SessionView:
    return request.views.session(await records.archive(request.caller, request.name, key, archived=False))


@routes.carries_out(operations.MARK_SEEN)
async def seen(
    request: ApiRequest, body: SeenMarks, key: RequestKey | None, *, seen: SeenSessions
) -> SeenView:
    marked = await seen.mark(request.caller, body.sessions, key)
    return SeenView(request.views.sessions(marked))


@routes.carries_out(operations.REMOVE)
async def remove(request: ApiRequest, key: RequestKey | None, *, records: Records) -> RemovedView:
    removed = await records.remove(request.caller, request.name, key)
    request.views.forget(removed.session_id)
    users = await records.use_of(removed)
    return RemovedView(
        removed=removed.session_id,
        label=removed.label or removed.session_id,
        effective_mode=TrustLevel(removed.effective_mode) if removed.effective_mode else None,
        worktree=WorktreeView(removed.worktree, removed.branch) if removed.worktree else None,
        used=users.used,
        sandboxed=users.sandboxed,
        repository=users.repository,
        git_directory=users.git_directory,
        start=users.start,
        keeps_branch=users.keeps_branch,
        teardown=list(users.teardown),
        teardown_within_s=users.teardown_within_s,
    )


# Waits


@routes.carries_out(operations.WAIT)
async def wait(request: ApiRequest, body: AwaitedSessions, *, waits: Waits) -> WaitView:
    until, wait_s = body.until or ENDED_OF_ANY_KIND, body.wait_s or 0
    result = await waits.sessions(
        request.caller, body.sessions, until, request.long_poll, wait_s, any_of=bool(body.any)
    )
    return WaitView(result.reached, request.views.sessions(result.sessions))


@routes.carries_out(operations.ACKNOWLEDGE)
async def heard(request: ApiRequest, body: KnownEndings, *, sessions: Sessions) -> EmptyView:
    await sessions.acknowledge_endings(request.caller, body.sessions or ())
    return EmptyView()


# Shapes


def overview_json(
    views: Views,
    session: Session,
    group: Attention,
    requests: Sequence[Request],
    used: SessionUsage,
    ended: EndedChildren,
    words: str | None,
    prompt: str | None,
    *,
    activity: str | None,
    may_read: bool,
) -> OverviewView:
    """A row of the overview. A caller that may not read the session does not see its texts.

    `words`: the last line that it printed, for a session that said nothing else; `prompt`: its task at its start.
    """
    texts = (activity, used.answer or words, prompt) if may_read else (None, None, None)
    task = current_task(session, request_line(requests), *texts)
    return OverviewView(
        **{**vars(views.session(session)), "model": used.model},
        attention=group,
        children_failed=ended.failed(session.id),
        children_done=ended.done(session.id),
        task=folded(task.text, TASK_MAX),
        task_kind=task.kind,
        requests=[asked.name for asked in requests],
        context_percent=used.context_percent,
        cost_usd=used.cost_usd,
    )
