"""The images of the tests with a Docker engine.

`python -m tests.engine_images` makes them. `./check` does it in its set-up, since it needs the network and minutes:
afterwards the tests find each step of the Dockerfile in the cache of their engine.
"""

import asyncio
import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sm.config import SandboxSection
from sm.sandboxes.docker.build import build_arguments, bundle_of, context_of
from sm.sandboxes.docker.engine import Engine
from sm.sandboxes.docker.image import Images
from sm.sandboxes.images import BuildRequest, ImageBuild, agents_of
from tests.engine import CACHE, image_id, locked, missing, shared_engine, unavailable

BASE = "debian:bookworm-slim"
IMAGE = "sm-sandbox:work"
WITH_CLAUDE = "sm-sandbox-test"
"""The image that `sm sandbox build --with claude` makes. The tests keep it, for the cache of the engine."""
_REQUEST = BuildRequest(agents_of(["claude"]), no_cache=False, pull=False, arguments={})
_INSIDE_PATH = "/opt/sm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_AGENTS = "COPY --from=claude"
"""The instruction of the Dockerfile that follows the installation of the tools."""
_MADE = CACHE / "images"
"""The digest of everything from which the images of this engine were made."""


@pytest.fixture(scope="session")
def base_image(engine: str) -> str:
    """Debian without further packages, under the name from which the Dockerfile starts."""
    _make(engine, BASE, _import_base)
    return BASE


@pytest.fixture(scope="session")
def sandbox_image(engine: str) -> str:
    """An image with the programs that the daemon expects in a container. It has no agent CLI and no user."""
    if not image_id(engine, IMAGE):
        _make(engine, BASE, _import_base)
        _make(engine, IMAGE, _build_sandbox)
    return IMAGE


def _make(engine: str, tag: str, make: Callable[[str], None]) -> None:
    with locked(CACHE / "lock"):
        if not image_id(engine, tag):
            if reason := missing():
                unavailable(f"{engine} has no image {tag}: {reason}")
            try:
                make(engine)
            except subprocess.CalledProcessError as error:
                unavailable(f"making {tag} failed: {_last_line(error.stderr or error.stdout)}")


def _last_line(output: bytes | None) -> str:
    lines = (output or b"").decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"


def _mirror() -> tuple[str, ...]:
    """The archive that this Debian uses, if there is one in the format of deb822 or of sources.list."""
    folder = Path("/etc/apt")
    for path in (*sorted(folder.glob("sources.list.d/debian*.sources")), folder / "sources.list"):
        if not path.exists():
            continue
        for line in path.read_text().splitlines():
            words = line.split()
            if words[:1] in (["URIs:"], ["deb"]):
                return tuple(word for word in words if word.startswith("http"))[:1]
    return ()


def _import_base(engine: str) -> None:
    with _base_archive().open("rb") as archive:
        argv = ["docker", "-H", engine, "import", "-", BASE]
        subprocess.run(argv, stdin=archive, check=True, capture_output=True)


def _base_archive() -> Path:
    """Debian without further packages. Kept for the next checkout: making it takes a minute."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sm-tests"
    archive = cache / "bookworm-minbase.tar"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            root, new = f"{folder}/root", f"{folder}/tar"
            _debootstrap(root)
            subprocess.run(["tar", "-C", root, "-cf", new, "."], check=True, capture_output=True)
            os.rename(new, archive)
    return archive


def _debootstrap(root: str) -> None:
    subprocess.run(
        ["debootstrap", "--variant=minbase", "bookworm", root, *_mirror()],
        check=True, capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    for name in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(f"{root}/{name}", ignore_errors=True)
        Path(root, name, "partial").mkdir(parents=True)


def _build_sandbox(engine: str) -> None:
    """Build the last stage of the Dockerfile without its agents and its user."""
    argv = ["docker", "-H", engine, "build", "--network=host", "--build-arg=NODE=", f"--tag={IMAGE}", "-"]
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}  # with the cache of the builder that sm uses
    subprocess.run(argv, input=_context_of_tools(), env=environment, check=True, capture_output=True)


def _context_of_tools() -> bytes:
    given, made = context_of(bundle_of(None)), io.BytesIO()
    with tarfile.open(fileobj=given) as source, tarfile.open(fileobj=made, mode="w") as target:
        for member in source:
            file = source.extractfile(member)
            assert file is not None
            content = file.read()
            if member.name == "Dockerfile":
                _, begin, stage = content.decode().rpartition("\nFROM ")
                tools, end, _ = stage.partition(_AGENTS)
                assert begin and end
                content = f"{begin}{tools}ENV PATH={_INSIDE_PATH}\nLABEL app=sm type=image\n".encode()
                member.size = len(content)
            target.addfile(member, io.BytesIO(content))
    return made.getvalue()


async def build_with_claude(connection: Engine) -> ImageBuild:
    """Make the image of users, as `sm sandbox build --with claude` does."""
    images = Images(connection, SandboxSection(image=WITH_CLAUDE))
    return await finished(await images.start_build(_REQUEST))


async def finished(build: ImageBuild) -> ImageBuild:
    count = 0
    while not build.is_done:
        await build.wait(count, 10)
        _, count = build.after(count)
    return build


def _digest() -> str:
    made = hashlib.sha256(context_of(bundle_of(None)).getvalue())
    made.update(repr((os.environ.get("SM_TEST_ENGINE"), build_arguments(_REQUEST, 0, 0))).encode())
    return made.hexdigest()


def main() -> int:
    """Make all images that this checkout has not made yet. The tests tell whether they can run without them."""
    if _MADE.exists() and _MADE.read_text() == _digest():
        return 0
    with contextlib.ExitStack() as stack:
        try:
            engine = stack.enter_context(shared_engine())
            for tag, make in ((BASE, _import_base), (IMAGE, _build_sandbox)):
                _make(engine, tag, make)
        except (pytest.skip.Exception, pytest.fail.Exception) as missed:
            sys.stderr.write(f"{missed.msg}\n")
            return 1
        with contextlib.closing(Engine(engine)) as connection:
            build = asyncio.run(build_with_claude(connection))
        if build.error is not None:
            sys.stderr.write(f"{build.error.message}\n")
            return 1
    _MADE.write_text(_digest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
