"""The image of sandboxes, built by a real engine."""

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from sm import __version__
from sm.config import SandboxSection
from sm.core.programs import image_agents
from sm.errors import IllegalState, SandboxUnavailable
from sm.sandboxes.docker import build as build_module
from sm.sandboxes.docker.engine import Engine
from sm.sandboxes.docker.image import Images
from sm.sandboxes.images import BuildRequest, ImageFacts
from tests.engine import NO_ENGINE
from tests.engine_images import WITH_CLAUDE, build_with_claude, finished
from tests.waits import NEVER_S

pytestmark = pytest.mark.processes
PLAIN = BuildRequest((), no_cache=False, pull=False, arguments={})
LABELS = "LABEL app=sm type=image version=0.0.1 uid=1 gid=1 agents=codex\n"


@pytest.fixture
def connection(engine: str, base_image: str) -> Iterator[Engine]:
    with contextlib.closing(Engine(engine)) as connection:
        yield connection


@pytest.fixture
async def images(connection: Engine) -> AsyncIterator[Images]:
    """Images under a name of their own, which the test's end removes."""
    images = Images(connection, SandboxSection(image=f"sm-test-{uuid.uuid4().hex[:8]}"))
    yield images
    await images.close()
    if (image := await images.find(images.name)) is not None:
        await connection.call(lambda client: client.api.remove_image(image.name))


@pytest.fixture
def dockerfile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A short Dockerfile in place of the real one."""
    file = tmp_path / "Dockerfile"
    monkeypatch.setattr(build_module, "_DOCKERFILES", (str(file),))
    monkeypatch.setattr(build_module, "build_arguments", lambda *_: {})
    file.write_text(f"FROM debian:bookworm-slim\n{LABELS}")
    return file


async def output(connection: Engine, image: str, command: str, user: str) -> str:
    """The output of a shell in a container of the image."""

    def run(client: DockerClient) -> bytes:
        return client.containers.run(
            image,
            ["sh", "-c", command],
            remove=True,
            network_mode="none",
            user=user,
            labels={"app": "sm-test"},
        )

    return (await connection.call(run, timeout_s=NEVER_S)).decode()


@pytest.mark.timeout(900)
async def test_image_has_the_tools_claude_and_the_certificates_and_serves_any_user(
    connection: Engine,
) -> None:
    assert (await build_with_claude(connection)).error is None
    image = await Images(connection, SandboxSection(image=WITH_CLAUDE)).require(WITH_CLAUDE)
    assert image == ImageFacts(
        id=image.id,
        name=WITH_CLAUDE,
        version=__version__,
        agents=(f"claude@{image_agents()['claude'].tested}",),
        uid=os.geteuid() or 1000,
        gid=os.getegid() or 1000,
        size_bytes=image.size_bytes,
        created_at=image.created_at,
    )
    assert image.size_bytes < 700_000_000
    assert (image.has("claude"), image.has("codex"), image.warnings()) == (True, False, ())
    script = (
        "echo $PATH; id -u; claude --version; python3 -c 'import sys; print(sys.version_info >= (3, 11))';"
        "for tool in git rg ps less curl jq; do command -v $tool >/dev/null || echo no $tool; done;"
        "command -v node npm; ls -A /var/lib/apt/lists | wc -l;"
        "python3 -c 'import ssl; print(len(ssl.create_default_context().get_ca_certs()))'"
    )
    certificates = build_module.bundle_of(None).count(b"-----BEGIN CERTIFICATE-----")
    for uid in (image.uid, 1234):
        lines = (await output(connection, image.id, f"HOME=/tmp; {script}", f"{uid}:{uid}")).splitlines()
        assert lines[0].split(":")[0] == "/opt/sm/bin"
        assert lines[1:] == [
            str(uid),
            f"{image_agents()['claude'].tested} (Claude Code)",
            "True",
            "0",
            str(certificates),
        ]


async def test_two_requests_at_once_are_one_build(images: Images, dockerfile: Path) -> None:
    first, second = await asyncio.gather(images.start_build(PLAIN), images.start_build(PLAIN))
    assert first is second
    with pytest.raises(IllegalState, match="being built with other options"):
        await images.start_build(BuildRequest((), no_cache=True, pull=False, arguments={}))
    await finished(first)
    assert first.image is not None
    steps = [line.text for line in first.after(0)[0] if line.is_step]
    assert steps == ["1/2 FROM debian:bookworm-slim", f"2/2 {LABELS.strip()}"]
    again = await images.start_build(PLAIN)
    assert again is not first
    assert (await finished(again)).image == first.image


async def test_failed_build_leaves_the_image_and_ends_with_the_last_lines_of_its_step(
    images: Images, dockerfile: Path
) -> None:
    before = (await finished(await images.start_build(PLAIN))).image
    dockerfile.write_text("FROM debian:bookworm-slim\nRUN echo one; echo two >&2; exit 3\n")
    error = (await finished(await images.start_build(PLAIN))).error
    assert isinstance(error, SandboxUnavailable)
    assert error.exit_code == 9
    first, step, *output, last = error.message.splitlines()
    assert (first, step) == ("the image could not be built:", "2/2 RUN echo one; echo two >&2; exit 3")
    assert sorted(output) == ["one", "two"]  # of two pipes, which the engine reads in any order
    assert last == "exit code 3"
    assert await images.find(images.name) == before


async def test_image_of_another_version_is_used_with_a_warning_and_its_predecessor_becomes_unused(
    images: Images, dockerfile: Path
) -> None:
    old = (await finished(await images.start_build(PLAIN))).image
    assert old is not None
    assert old.agents == ("codex",)
    (warning,) = old.warnings()
    assert f"is of sm 0.0.1, this is sm {__version__}" in warning
    assert "sm sandbox build" in warning
    dockerfile.write_text(f"FROM debian:bookworm-slim\nENV A=1\n{LABELS}")
    new = (await finished(await images.start_build(PLAIN))).image
    assert new is not None
    unused = {image.id: image for image in await images.unused()}
    assert old.id in unused
    assert new.id not in unused
    await images.remove([unused[old.id]])
    assert old.id not in {image.id for image in await images.unused()}
    assert await images.find(images.name) == new


async def test_missing_image_names_the_command_that_builds_it(images: Images) -> None:
    with pytest.raises(SandboxUnavailable, match=f"no image {images.name}") as refused:
        await images.require(images.name)
    assert refused.value.hint == "sm sandbox build"


async def test_build_without_an_engine_fails_with_the_reason() -> None:
    images = Images(Engine(NO_ENGINE), SandboxSection())
    build = await finished(await images.start_build(PLAIN))
    assert isinstance(build.error, SandboxUnavailable)
    assert "no Docker engine runs" in build.error.message
