"""The image of sandboxes: its facts, its build, and the images that nothing uses any more."""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sm.config import SandboxSection
from sm.errors import IllegalState, ImageMissing, SandboxUnavailable, SandboxUnreachable, SmError
from sm.sandboxes.docker.build import BuildReader, build_arguments, bundle_of, context_of, last_lines, plain
from sm.sandboxes.docker.engine import Engine, EngineError
from sm.sandboxes.images import BuildLine, BuildRequest, ImageBuild, ImageFacts, UnusedImage

if TYPE_CHECKING:
    from docker import DockerClient

log = logging.getLogger(__name__)

_BUILD = "sm sandbox build"
_BUILD_S = 7200.0
_SILENCE_S = 900
"""The longest silence of an engine during a build: a step without output, such as a download."""
_FROM = re.compile(r"\d+/\d+ FROM (\S+)")
"""The step that gets a base image from its registry."""
_DF_S = 60.0
_SHOWN_LINES = 15
_OTHER_USER = 1000
"""The image's user for a daemon of root, whose containers run as the owner of a directory."""


class Images:
    """The images of sandboxes on one engine. `settings`: the section of config.yaml.

    `found` is awaited when an image was found or built. Every operation raises SandboxUnavailable when the engine does
    not answer.
    """

    def __init__(
        self,
        engine: Engine,
        settings: SandboxSection,
        found: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._engine = engine
        self._found = found
        self._settings = settings
        self._build: ImageBuild | None = None
        self._task: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._seen: dict[str, ImageFacts] = {}
        """Each image by its name, as it was last found."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each successful build."""
        self._listeners.append(listener)

    @property
    def name(self) -> str:
        """The image of containers whose workspace names no other one."""
        return self._settings.image

    @property
    def build(self) -> ImageBuild | None:
        """The build that runs, or the last one."""
        return self._build

    async def find(self, name: str) -> ImageFacts | None:
        """The image with this name; None if the engine has none."""
        image = await self._engine.call(lambda client: _find(client, name))
        if image is None:
            self._seen.pop(name, None)
            return None
        self._seen[name] = image
        if self._found is not None:
            await self._found()
        return image

    def seen(self, name: str) -> ImageFacts | None:
        """The image with this name as `find` last found it. Does not ask the engine."""
        return self._seen.get(name)

    async def require(self, name: str) -> ImageFacts:
        """The image with this name. Raises ImageMissing if the engine has none."""
        if (image := await self.find(name)) is None:
            raise ImageMissing(f"the engine has no image {name}", _BUILD)
        return image

    async def start_build(self, request: BuildRequest) -> ImageBuild:
        """Begin a build, or join the one that runs with the same request.

        A build that fails leaves the image as it is. Raises IllegalState while another build runs.
        """
        if (running := self._build) is not None and not running.is_done:
            if running.request != request:
                raise IllegalState(
                    "an image is being built with other options", f"wait for its end, then: {_BUILD}"
                )
            return running
        build = self._build = ImageBuild(request)
        self._task = asyncio.create_task(self._run(build), name="image build")
        return build

    async def _run(self, build: ImageBuild) -> None:
        result: ImageFacts | SmError = SandboxUnavailable("the build of the image was interrupted", _BUILD)
        try:
            bundle = await asyncio.to_thread(bundle_of, self._settings.ca_file)
            image_id = await self._build_in_thread(build, bundle)
            result = await self._engine.call(lambda client: _tag(client, image_id, self.name))
            log.info("built the image %s", self.name)
            if self._found is not None:
                await self._found()
            for listener in self._listeners:
                listener()
        except SmError as error:
            result = error
        finally:
            build.end(result)

    async def _build_in_thread(self, build: ImageBuild, bundle: bytes) -> str:
        """Build for minutes in a thread, and return the image's id. Raises SandboxUnavailable."""
        loop = asyncio.get_running_loop()

        def add(line: BuildLine) -> None:
            with suppress(RuntimeError):  # the daemon has ended, and the engine ends the build
                loop.call_soon_threadsafe(build.add, line)

        reader = BuildReader(add)
        try:
            await self._engine.call(
                lambda client: _build(client, build.request, bundle, reader), timeout_s=_BUILD_S
            )
        except (EngineError, SandboxUnreachable) as error:
            reader.error = plain(error.message)
        if reader.error is not None or reader.image_id is None:
            raise _failure(build, reader.error or "the engine ended the build without a result")
        return reader.image_id

    async def unused(self) -> Sequence[UnusedImage]:
        """Images of `sm sandbox build`, of this instance or others, that have no name and no container."""
        return await self._engine.call(_unused, timeout_s=_DF_S)

    async def remove(self, images: Sequence[UnusedImage]) -> None:
        """Remove images. One that has got a name or a container meanwhile stays."""
        await self._engine.call(lambda client: _remove(client, images), timeout_s=_DF_S)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _failure(build: ImageBuild, error: str) -> SandboxUnavailable:
    lines = list(last_lines(build.after(0)[0], _SHOWN_LINES))
    if error not in lines:
        lines.append(error)
    output = "\n".join(lines)
    base = _FROM.match(lines[0])
    return SandboxUnavailable(
        f"the image could not be built:\n{output}",
        f"{_BUILD} --no-cache"
        if base is None
        else f"without --pull, the build uses the base image that the engine has: {_BUILD}"
        if build.request.pull
        else f"the engine must reach the registry, perhaps through a proxy of its own: docker pull {base[1]}",
    )


def _find(client: "DockerClient", name: str) -> ImageFacts | None:
    from docker.errors import ImageNotFound

    try:
        return _facts(client.api.inspect_image(name), name)  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return None


def _facts(image: Mapping[str, Any], name: str) -> ImageFacts:
    labels: Mapping[str, str] = (image.get("Config") or {}).get("Labels") or {}
    ours = labels.get("app") == "sm" and labels.get("type") == "image"

    def number(label: str) -> int | None:
        text = labels.get(label, "")
        return int(text) if ours and text.isdecimal() else None

    return ImageFacts(
        id=str(image["Id"]),
        name=name,
        version=labels.get("version") if ours else None,
        agents=tuple(labels.get("agents", "").split()) if ours else None,
        uid=number("uid"),
        gid=number("gid"),
        size_bytes=int(image.get("Size") or 0),
        created_at=str(image.get("Created") or ""),
    )


def _tag(client: "DockerClient", image_id: str, name: str) -> ImageFacts:
    repository, tag = _repository_and_tag(name)
    client.api.tag(image_id, repository, tag)
    return _facts(client.api.inspect_image(image_id), name)  # type: ignore[no-untyped-call]


def _repository_and_tag(name: str) -> tuple[str, str]:
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "latest")


def _build(client: "DockerClient", request: BuildRequest, bundle: bytes, reader: BuildReader) -> None:
    """Build the image without a name: until the end, the image before has it."""
    # A daemon of root has containers of other users.
    uid, gid = os.geteuid() or _OTHER_USER, os.getegid() or _OTHER_USER
    records = client.api.build(
        fileobj=context_of(bundle),
        custom_context=True,
        decode=True,
        rm=True,
        forcerm=True,
        nocache=request.no_cache,
        pull=request.pull,
        network_mode="host",
        timeout=_SILENCE_S,
        buildargs=build_arguments(request, uid, gid),
    )
    for record in records:
        reader.read(record)


def _unused(client: "DockerClient") -> list[UnusedImage]:
    found = []
    for image in client.api.df().get("Images") or ():
        labels = image.get("Labels") or {}
        names = [tag for tag in image.get("RepoTags") or () if tag != "<none>:<none>"]
        if labels.get("app") == "sm" and not names and not image.get("Containers"):
            size = int(image.get("Size") or 0) - max(0, int(image.get("SharedSize") or 0))
            found.append(UnusedImage(str(image["Id"]), max(0, size)))
    return found


def _remove(client: "DockerClient", images: Sequence[UnusedImage]) -> None:
    from docker.errors import APIError

    for image in images:
        try:
            client.api.remove_image(image.id)
        except APIError as error:
            log.info("an image was not removed", extra={"sm_signal": plain(str(error))})
