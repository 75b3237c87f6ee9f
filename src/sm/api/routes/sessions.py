"""The routes of sessions: list, spawn, kill, restore, interrupt, fork, adopt, archive, remove."""

from typing import Annotated, cast

from pydantic import Field

from sm.api.answers import (
    AllRestoredView,
    EmptyView,
    FailureView,
    InterruptedView,
    KilledView,
    RemovedView,
    RestoredView,
    SessionView,
    SessionWithOutput,
    StartedView,
    WaitView,
)
from sm.api.body import Body, EmptyBody
from sm.api.context import ApiRequest
from sm.api.fields import Choice, LongText, NeededText, NeededTexts, Present, Seconds, doc
from sm.api.query import WAIT_MAX_S, ListQuery
from sm.api.route import RouteTable
from sm.api.views import nest, pruned
from sm.core.lifecycle import is_ended
from sm.core.models import RequestKey, SpawnRequest
from sm.core.states import ENDED_OF_ANY_KIND, Status, TrustLevel
from sm.sessions.manager import SessionResult
from sm.sessions.restore import RestoreResult

WaitS = Annotated[Seconds | None, doc(f"How long to wait for news, in seconds, at most {WAIT_MAX_S:.0f}.")]
Trust = Annotated[str | None, doc("`direct` or `sandboxed`; null: the level of the configuration.")]
routes = RouteTable()


class ChildrenQuery(ListQuery):
    recursive: Annotated[Present, doc("Present: include all descendants, not only the children.")] = False


class SpawnBody(Body):
    agent_type: NeededText = ""
    prompt: LongText | None = None
    name: Annotated[str | None, doc("The friendly name, without the type.")] = None
    title: str | None = None
    model: str | None = None
    preset: str | None = None
    args: Annotated[list[str] | None, doc("More arguments for the agent; only from the operator.")] = None
    parent: Annotated[str | None, doc("A session, named as in a path; null: the caller.")] = None
    workspace: Annotated[
        str | None, doc("A slug; `-`: none; null: the parent's, else the one of the working directory.")
    ] = None
    working_dir: Annotated[str | None, doc("An absolute path.")] = None
    cwd: Annotated[str | None, doc("The caller's directory, used without a `working_dir`.")] = None
    worktree: Annotated[
        str | None, doc("The git worktree that the client made: `DIRECTORY/.sm/worktrees/NAME`.")
    ] = None
    branch: Annotated[str | None, doc("The branch of that worktree: `sm/NAME`.")] = None
    trust: Trust = None
    environment: Annotated[
        dict[str, str] | None,
        doc("The caller's environment; variables that the configuration does not name are ignored."),
    ] = None
    wait_s: WaitS = None


class KillBody(Body):
    force: Annotated[bool | None, doc("Kill without a grace period.")] = None
    tree: Annotated[bool | None, doc("Kill all descendants too.")] = None


class RestoreBody(Body):
    tree: Annotated[bool | None, doc("Restore the ended descendants too.")] = None


class ForkBody(Body):
    name: str | None = None


class AdoptBody(Body):
    pane: Annotated[NeededText, doc("The pane's id in tmux: `%5`.")] = ""
    name: str | None = None
    agent_type: str | None = None
    trust: Trust = None


class ReparentBody(Body):
    parent: Annotated[str | None, doc("A session, named as in a path; null: the operator.")] = None


class WaitBody(Body):
    sessions: Annotated[NeededTexts, doc("Sessions, named as in a path.", minItems=1, maxItems=200)] = Field(
        default_factory=list
    )
    until: Annotated[str, Choice("status", (ENDED_OF_ANY_KIND, *Status), blank=True)] | None = None
    any: Annotated[bool | None, doc("One of the sessions is enough.")] = None
    wait_s: WaitS = None


class AcknowledgeBody(Body):
    sessions: list[str] | None = None


# Lists


@routes.route(
    "GET",
    "/v1/sessions",
    agents=True,
    id="allSessions",
    summary="List all sessions, oldest first",
    audit="all",
)
async def all_sessions(request: ApiRequest, query: ListQuery) -> list[SessionView]:
    found = request.services.sessions.listed(request.caller, query.filter())
    return request.views.sessions(request.caller, found)


@routes.route("GET", "/v1/me", agents=True, id="me", summary="Show the calling session; 404 for the operator")
async def me(request: ApiRequest) -> SessionView:
    return request.views.session(request.caller, request.services.sessions.find(request.caller, "me"))


@routes.route(
    "GET",
    "/v1/who",
    agents=True,
    id="who",
    summary="List the other children of the caller's parent; for the operator the sessions without a parent",
)
async def who(request: ApiRequest, query: ListQuery) -> list[SessionView]:
    found = request.services.sessions.siblings(request.caller, query.filter())
    return request.views.sessions(request.caller, found)


@routes.route(
    "GET", "/v1/others", agents=True, id="others", summary="List the other sessions of the caller's workspace"
)
async def others(request: ApiRequest, query: ListQuery) -> list[SessionView]:
    found = request.services.sessions.others(request.caller, query.filter())
    return request.views.sessions(request.caller, found)


@routes.route("GET", "/v1/sessions/{ref}", agents=True, id="session", summary="Show a session")
async def session(request: ApiRequest) -> SessionWithOutput:
    services, caller = request.services, request.caller
    found = services.sessions.find(caller, request.name)
    view = cast(SessionWithOutput, request.views.session(caller, found))
    if is_ended(found.status) and services.sessions.reads(caller, found):
        view["last_output"] = await services.monitor.last_output(found)
    return view


@routes.route(
    "GET",
    "/v1/sessions/{ref}/children",
    agents=True,
    id="children",
    summary="List the children of a session; of the caller if `ref` is `-`",
)
async def children(request: ApiRequest, query: ChildrenQuery) -> list[SessionView]:
    sessions, views, caller = request.services.sessions, request.views, request.caller
    top = sessions.children(caller, request.name, archived=query.archived)
    if not query.recursive:
        return views.sessions(caller, sessions.narrowed(caller, top, query.filter()))
    below: dict[str, list[SessionView]] = {}
    for parent in top:
        for each in sessions.descendants(caller, parent.id):
            below.setdefault(each.parent_id or "", []).append(views.session(caller, each))
    tree = nest([views.session(caller, s) for s in top], below)
    every = request.services.store.sessions.values()
    return pruned(tree, {s.id for s in sessions.narrowed(caller, every, query.filter())})


# Starts and ends


@routes.route(
    "POST",
    "/v1/sessions",
    agents=True,
    id="spawn",
    summary="Start an agent",
    description="Answers when the process runs, or has run and ended; with `wait_s` when the agent is ready.",
)
async def spawn(request: ApiRequest, body: SpawnBody, key: RequestKey | None) -> StartedView:
    wanted = SpawnRequest(
        agent_type=body.agent_type,
        prompt=body.prompt,
        name=body.name,
        model=body.model,
        preset=body.preset,
        extra_args=tuple(body.args or ()),
        parent=body.parent,
        working_dir=body.working_dir,
        current_dir=body.cwd,
        trust=body.trust,
        title=body.title,
        workspace=body.workspace,
        worktree=body.worktree,
        branch=body.branch,
        environment=body.environment or {},
    )
    sessions = request.services.sessions
    return started(request, await sessions.spawn(request.caller, wanted, key, body.wait_s, request.connected))


@routes.route(
    "POST",
    "/v1/sessions/{ref}/kill",
    agents=True,
    id="kill",
    summary="End the process of a session, and answer when the process is gone",
)
async def kill(request: ApiRequest, body: KillBody, key: RequestKey | None) -> KilledView:
    sessions, caller = request.services.sessions, request.caller
    killed = await sessions.kill(
        caller, request.name, key, force=bool(body.force), tree=bool(body.tree), listens=request.connected
    )
    target = sessions.find(caller, request.name)
    below = [request.views.session(caller, s) for s in killed if s.id != target.id]
    ids = [s.id for s in killed]
    return {**request.views.session(caller, target), "killed": ids, "killed_too": below}


@routes.route(
    "POST",
    "/v1/sessions/{ref}/restore",
    agents=True,
    id="restore",
    summary="Start an ended session again, in a new process",
)
async def restore(request: ApiRequest, body: RestoreBody, key: RequestKey | None) -> RestoredView:
    services, caller = request.services, request.caller
    target = services.sessions.find(caller, request.name)
    done = await services.sessions.restore(
        caller, target.id, key, tree=bool(body.tree), listens=request.connected
    )
    too = [request.views.session(caller, s) for s in done.sessions if s.id != target.id]
    view = request.views.session(caller, services.store.sessions.get(target.id, target))
    ids = [s.id for s in done.sessions]
    return {**view, "restored": ids, "restored_too": too, "failed": _failed(done)}


@routes.route(
    "POST",
    "/v1/restore",
    agents=False,
    id="restoreAll",
    summary="Start all sessions again that lived when tmux or the machine went down",
)
async def restore_all(request: ApiRequest, body: EmptyBody, key: RequestKey | None) -> AllRestoredView:
    done = await request.services.sessions.restore_all(request.caller, key, request.connected)
    restored = [request.views.session(request.caller, s) for s in done.sessions]
    return {"restored": restored, "failed": _failed(done)}


@routes.route(
    "POST",
    "/v1/sessions/{ref}/interrupt",
    agents=True,
    id="interrupt",
    summary="Interrupt the current turn of an agent",
)
async def interrupt(request: ApiRequest, body: EmptyBody, key: RequestKey | None) -> InterruptedView:
    done = await request.services.sessions.interrupt(request.caller, request.name, key)
    return {**request.views.session(request.caller, done.session), "interrupted": done.stopped}


@routes.route(
    "POST",
    "/v1/sessions/{ref}/fork",
    agents=True,
    id="fork",
    summary="Start a session from a copy of the conversation of another one",
)
async def fork(request: ApiRequest, body: ForkBody, key: RequestKey | None) -> StartedView:
    sessions = request.services.sessions
    return started(
        request, await sessions.fork(request.caller, request.name, body.name, key, request.connected)
    )


@routes.route(
    "POST",
    "/v1/adopt",
    agents=False,
    id="adopt",
    summary="Make a session of an agent that runs in a tmux pane already",
)
async def adopt(request: ApiRequest, body: AdoptBody, key: RequestKey | None) -> StartedView:
    answer = await request.services.sessions.adopt(
        request.caller,
        body.pane,
        key,
        name=body.name,
        agent_type=body.agent_type,
        trust=body.trust,
        listens=request.connected,
    )
    return started(request, answer)


# Records


@routes.route(
    "POST",
    "/v1/sessions/{ref}/reparent",
    agents=True,
    id="reparent",
    summary="Move a session under another parent; null: the operator",
)
async def reparent(request: ApiRequest, body: ReparentBody, key: RequestKey | None) -> SessionView:
    moved = await request.services.sessions.reparent(request.caller, request.name, body.parent, key)
    return request.views.session(request.caller, moved)


@routes.route(
    "POST",
    "/v1/sessions/{ref}/archive",
    agents=True,
    id="archive",
    summary="Hide an ended session from lists",
)
async def archive(request: ApiRequest, body: EmptyBody, key: RequestKey | None) -> SessionView:
    return await _archive(request, key, archived=True)


@routes.route(
    "POST",
    "/v1/sessions/{ref}/unarchive",
    agents=True,
    id="unarchive",
    summary="Show an archived session in lists again",
)
async def unarchive(request: ApiRequest, body: EmptyBody, key: RequestKey | None) -> SessionView:
    return await _archive(request, key, archived=False)


@routes.route(
    "POST",
    "/v1/sessions/{ref}/remove",
    agents=True,
    id="remove",
    summary="Delete the record of an ended session",
)
async def remove(request: ApiRequest, body: EmptyBody, key: RequestKey | None) -> RemovedView:
    sessions = request.services.sessions
    removed = await sessions.remove(request.caller, request.name, key)
    request.views.forget(removed.session_id)
    users = await sessions.worktree_users(removed)
    return {
        "removed": removed.session_id,
        "effective_mode": TrustLevel(removed.effective_mode) if removed.effective_mode else None,
        "worktree": {"path": removed.worktree, "branch": removed.branch} if removed.worktree else None,
        "used": users.used,
        "sandboxed": users.sandboxed,
    }


# Waits


@routes.route("POST", "/v1/wait", agents=True, id="wait", summary="Wait until sessions have a status")
async def wait(request: ApiRequest, body: WaitBody) -> WaitView:
    result = await request.services.waits.sessions(
        request.caller,
        body.sessions,
        body.until or ENDED_OF_ANY_KIND,
        request.hold,
        body.wait_s or 0,
        any_of=bool(body.any),
    )
    views = [request.views.session(request.caller, s) for s in result.sessions]
    return {"reached": result.reached, "sessions": views}


@routes.route(
    "POST",
    "/v1/wait/heard",
    agents=True,
    id="heard",
    summary="Acknowledge the endings in an answer, so that the caller gets no notice of them",
    audit="heard",
)
async def acknowledge(request: ApiRequest, body: AcknowledgeBody) -> EmptyView:
    await request.services.sessions.acknowledge_endings(request.caller, body.sessions or ())
    return {}


def started(request: ApiRequest, answer: SessionResult) -> StartedView:
    """The answer of a route that starts or ends a session."""
    return {**request.views.session(request.caller, answer.session), "warnings": list(answer.warnings)}


async def _archive(request: ApiRequest, key: RequestKey | None, *, archived: bool) -> SessionView:
    changed = await request.services.sessions.archive(request.caller, request.name, key, archived=archived)
    return request.views.session(request.caller, changed)


def _failed(done: RestoreResult) -> list[FailureView]:
    return [
        {"session_id": session_id, "code": error.code, "message": error.message, "hint": error.hint}
        for session_id, error in done.failed
    ]
