"""The routes of sandboxes: their engine, their image and their containers. All of them are the operator's."""

from typing import Annotated

from pydantic import Field

from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.fields import Present, count, doc
from sm.api.query import Query, WaitQuery
from sm.api.route import RouteTable
from sm.api.views import build_view
from sm.core.programs import image_agents, login_commands
from sm.errors import UsageError
from sm.sandboxes.images import ImageBuild, ImageFacts
from sm.services import Sandboxing, WritablePaths
from sm.sessions.sandboxing import ContainerStatus, EngineStatus, PruneScope, SandboxStatus
from sm.wire_types.sandbox_answers import (
    BuildLineView,
    BuildView,
    CommandView,
    ContainerView,
    DoneView,
    EngineView,
    ImageView,
    SandboxView,
    UnusedView,
    UsageView,
    WritableView,
)

_PATHS_MAX = 1000
routes = RouteTable()


class BuildBody(Body):
    agents: Annotated[
        list[str],
        doc(f"{''.join(f'`{name}`, `{name}@VERSION`, ' for name in image_agents())}`node`.", maxItems=10),
    ] = Field(default_factory=list)
    no_cache: bool | None = None
    pull: Annotated[bool | None, doc("Ask the registry for a newer base image.")] = None
    environment: Annotated[
        dict[str, str], doc("Variables of the caller, of which the build gets proxies and npm's registry.")
    ] = Field(default_factory=dict)


class BuildQuery(WaitQuery):
    after: Annotated[int, count(), doc("The number of lines that the caller has.")] = 0


class ForceBody(Body):
    force: Annotated[bool | None, doc("End the sessions and the other processes in it.")] = None


class EnterBody(Body):
    login: Annotated[
        str | None,
        doc(
            f"{' or '.join(f'`{name}`' for name in login_commands())}: the login of this agent. Null: a shell."
        ),
    ] = None


class PathsBody(Body):
    paths: Annotated[list[str], doc("Absolute paths of this machine.", maxItems=_PATHS_MAX)] = Field(
        default_factory=list
    )


class UnusedQuery(Query):
    homes: Annotated[Present, doc("Present: include homes of deleted workspaces.")] = False
    images: Annotated[Present, doc("Present: include images that no container uses.")] = False


class PruneBody(Body):
    homes: Annotated[bool | None, doc("Remove the homes of deleted workspaces.")] = None
    images: Annotated[bool | None, doc("Remove the images without a name that no container uses.")] = None


@routes.route("GET", "/v1/sandbox", agents=False, audit="sandbox")
async def sandbox_status(request: ApiRequest, *, sandboxing: Sandboxing) -> SandboxView:
    """Show the engine, the image and the containers."""
    return _sandbox_view(await sandboxing.status(request.caller))


@routes.route("POST", "/v1/sandbox/build", agents=False, audit="build")
async def build_image(request: ApiRequest, body: BuildBody, *, sandboxing: Sandboxing) -> BuildView:
    """Begin to build the image. A build with the same options that already runs is joined."""
    build = await sandboxing.build(
        request.caller, body.agents, body.environment, no_cache=bool(body.no_cache), pull=bool(body.pull)
    )
    return _progress(build, 0)


@routes.route("GET", "/v1/sandbox/build", agents=False, audit="build")
async def follow_build(request: ApiRequest, query: BuildQuery, *, sandboxing: Sandboxing) -> BuildView:
    """Show the progress of the build, from a line on. An error after the last line is the reason of a failed build."""
    build = sandboxing.running_build(request.caller)
    await build.wait(query.after, query.wait_s)
    return _progress(build, query.after)


@routes.route("POST", "/v1/sandbox/containers/{name}/stop", agents=False, audit="stop")
async def stop_container(request: ApiRequest, body: ForceBody, *, sandboxing: Sandboxing) -> DoneView:
    """Stop a container: that of a workspace, or `default`. The next spawn starts it."""
    await sandboxing.stop(request.caller, request.name, force=bool(body.force))
    return DoneView(container=request.name)


@routes.route("POST", "/v1/sandbox/containers/{name}/remove", agents=False, audit="remove")
async def remove_container(request: ApiRequest, body: ForceBody, *, sandboxing: Sandboxing) -> DoneView:
    """Remove a container, but not its home. The next spawn makes it anew."""
    await sandboxing.remove(request.caller, request.name, force=bool(body.force))
    return DoneView(container=request.name)


@routes.route("POST", "/v1/sandbox/containers/{name}/enter", agents=False, audit="enter")
async def enter_container(request: ApiRequest, body: EnterBody, *, sandboxing: Sandboxing) -> CommandView:
    """Start a container, and name the command for a shell or a login in it."""
    argv = await sandboxing.enter(request.caller, request.name, body.login)
    return CommandView(argv=argv)


@routes.route("POST", "/v1/sandbox/writable", agents=False)
async def writable_paths(request: ApiRequest, body: PathsBody, *, writable: WritablePaths) -> WritableView:
    """Tell which of these paths a sandboxed session of any time could write, also an ended or removed one.

    Git must not run where it would read or write one of them. Every caller of the operator's socket may ask.
    """
    if len(body.paths) > _PATHS_MAX or not all(path.startswith("/") for path in body.paths):
        raise UsageError(f"give at most {_PATHS_MAX} absolute paths")
    return WritableView(writable=list(await writable.among(body.paths)))


@routes.route("GET", "/v1/sandbox/unused", agents=False, audit="prune")
async def unused_things(
    request: ApiRequest, query: UnusedQuery, *, sandboxing: Sandboxing
) -> list[UnusedView]:
    """List the containers, homes and images that a prune would remove."""
    scope = PruneScope(query.homes, query.images)
    return await sandboxing.unused(request.caller, scope)


@routes.route("POST", "/v1/sandbox/prune", agents=False, audit="prune")
async def prune_sandboxes(
    request: ApiRequest, body: PruneBody, *, sandboxing: Sandboxing
) -> list[UnusedView]:
    """Remove stopped containers without sessions, and homes and images that nothing uses."""
    scope = PruneScope(bool(body.homes), bool(body.images))
    return await sandboxing.prune(request.caller, scope)


def _progress(build: ImageBuild, after: int) -> BuildView:
    lines, total = build.after(after)
    if build.error is not None and not lines:
        raise build.error
    return BuildView(
        lines=[BuildLineView(text=line.text, step=line.is_step) for line in lines],
        next=total,
        done=build.image is not None,
        image=None if build.image is None else _image_view(build.image),
    )


def _sandbox_view(status: SandboxStatus) -> SandboxView:
    return build_view(
        SandboxView,
        status,
        engine=_engine(status.engine),
        image=None if status.image is None else _image_view(status.image),
        containers=[_container(container) for container in status.containers],
    )


def _engine(engine: EngineStatus) -> EngineView:
    facts, error = engine.facts, engine.error
    return EngineView(
        url=engine.url,
        available=error is None,
        problem=None if error is None else error.message,
        hint=None if error is None else error.hint,
        version=None if facts is None else facts.version,
        cgroup_version=None if facts is None else facts.cgroup_version,
        storage_driver=None if facts is None else facts.storage_driver,
        seccomp=None if facts is None else facts.seccomp,
        live_restore=None if facts is None else facts.live_restore,
        data_root=None if facts is None else facts.data_root,
        data_free_bytes=engine.data_free_bytes,
    )


def _image_view(image: ImageFacts) -> ImageView:
    return build_view(ImageView, image, warnings=image.warnings())


def _container(container: ContainerStatus) -> ContainerView:
    usage = None if container.usage is None else build_view(UsageView, container.usage)
    return build_view(ContainerView, container, usage=usage, current=container.is_current)
