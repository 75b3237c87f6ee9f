"""The routes of sandboxes: their engine, their image and their containers. All of them are the operator's."""

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.api.views import build_view
from sm.errors import UsageError
from sm.operations import sandbox_operations as operations
from sm.operations.sandbox_operations import (
    BuildLines,
    BuildOptions,
    CheckedPaths,
    ContainerCommand,
    ContainerEnd,
    PruneOptions,
    UnusedScope,
)
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

routes = OperationTable()


@routes.carries_out(operations.SHOW_SANDBOX)
async def sandbox_status(request: ApiRequest, *, sandboxing: Sandboxing) -> SandboxView:
    return _sandbox_view(await sandboxing.status(request.caller))


@routes.carries_out(operations.BUILD)
async def build_image(request: ApiRequest, body: BuildOptions, *, sandboxing: Sandboxing) -> BuildView:
    build = await sandboxing.build(
        request.caller, body.agents, body.environment, no_cache=bool(body.no_cache), pull=bool(body.pull)
    )
    return _progress(build, 0)


@routes.carries_out(operations.FOLLOW_BUILD)
async def follow_build(request: ApiRequest, query: BuildLines, *, sandboxing: Sandboxing) -> BuildView:
    build = sandboxing.running_build(request.caller)
    await build.wait(query.after, query.wait_s)
    return _progress(build, query.after)


@routes.carries_out(operations.STOP_CONTAINER)
async def stop_container(request: ApiRequest, body: ContainerEnd, *, sandboxing: Sandboxing) -> DoneView:
    await sandboxing.stop(request.caller, request.name, force=bool(body.force))
    return DoneView(container=request.name)


@routes.carries_out(operations.REMOVE_CONTAINER)
async def remove_container(request: ApiRequest, body: ContainerEnd, *, sandboxing: Sandboxing) -> DoneView:
    await sandboxing.remove(request.caller, request.name, force=bool(body.force))
    return DoneView(container=request.name)


@routes.carries_out(operations.ENTER_CONTAINER)
async def enter_container(
    request: ApiRequest, body: ContainerCommand, *, sandboxing: Sandboxing
) -> CommandView:
    argv = await sandboxing.enter(request.caller, request.name, body.login)
    return CommandView(argv=argv)


@routes.carries_out(operations.CHECK_PATHS)
async def writable_paths(request: ApiRequest, body: CheckedPaths, *, writable: WritablePaths) -> WritableView:
    if len(body.paths) > _PATHS_MAX or not all(path.startswith("/") for path in body.paths):
        raise UsageError(f"give at most {_PATHS_MAX} absolute paths")
    return WritableView(writable=list(await writable.among(body.paths)))


@routes.carries_out(operations.LIST_UNUSED)
async def unused_things(
    request: ApiRequest, query: UnusedScope, *, sandboxing: Sandboxing
) -> list[UnusedView]:
    scope = PruneScope(query.homes, query.images)
    return await sandboxing.unused(request.caller, scope)


@routes.carries_out(operations.PRUNE)
async def prune_sandboxes(
    request: ApiRequest, body: PruneOptions, *, sandboxing: Sandboxing
) -> list[UnusedView]:
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
