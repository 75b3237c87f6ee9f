"""The owner of an agent socket, and its peers: real processes of several users."""

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import cast

import pytest
from aiohttp import web

from sm.api.agent_sockets import AgentSockets
from sm.api.auth import Containment
from sm.api.context import CONTEXT
from sm.api.middleware import edge
from sm.api.sockets import AGENT_SOCKET_LIMITS
from sm.core.models import Session, digest
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.linux.processes import identify
from sm.paths import InstancePaths
from sm.store import Store
from tests.samples import session

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for processes of other users"),
]
TOKEN = "5a" * 32
USER = (23456, 23457)
"""The user of the container."""


class OneSession:
    """A store with one sandboxed session, whose process is this test."""

    def __init__(self, holder: Session) -> None:
        self.sessions = {holder.id: holder}
        self.memory = self
        self._holder = holder

    def session_of_token(self, token_hash: str) -> Session | None:
        return self._holder if token_hash == self._holder.token_hash else None


@pytest.fixture
def paths() -> Iterator[InstancePaths]:
    """A state directory that other users cannot enter, with a path short enough for sockets."""
    home = tempfile.mkdtemp(prefix="sm-", dir="/tmp")
    yield InstancePaths(f"{home}/config.yaml", home)
    rmtree(home)


@pytest.fixture
def holder() -> Session:
    return replace(
        session("1a2b3c4d", status=Status.RUNNING),
        workspace="shop",
        effective_mode=TrustLevel.SANDBOXED,
        process=identify(os.getpid()),
        token_hash=digest(TOKEN),
    )


async def _me(request: web.Request) -> web.Response:
    return web.Response(text=str(request[CONTEXT].caller))


def _app() -> web.Application:
    app = web.Application(middlewares=[edge(lambda *_: None)])
    app.router.add_get("/v1/me", _me)
    return app


@asynccontextmanager
async def opened(
    paths: InstancePaths, holder: Session, containment: Containment
) -> AsyncIterator[AgentSockets]:
    store = cast(Store, OneSession(holder))
    sockets = AgentSockets(paths, store, AGENT_SOCKET_LIMITS, containment, _app)
    await sockets.ready_for(holder)
    try:
        yield sockets
    finally:
        await sockets.close()


# The directory of the socket stays open from before the process changes its user: a container has it mounted.
_ASK = """
import os, socket, sys
directory, uid, gid, token = os.open(sys.argv[1], os.O_PATH), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
os.setgroups([]); os.setresgid(gid, gid, gid); os.setresuid(uid, uid, uid)
peer = socket.socket(socket.AF_UNIX)
try:
    peer.connect(f"/proc/self/fd/{directory}/s")
    head = ("GET /v1/me HTTP/1.1", "Host: sm", "Connection: close", "SM-Protocol: 1", f"Authorization: Bearer {token}")
    peer.sendall("\\r\\n".join((*head, "", "")).encode())
    answer = b""
    while piece := peer.recv(65536):
        answer += piece
    print(answer.split()[1].decode())
except PermissionError:
    print("refused")
"""


async def ask(paths: InstancePaths, uid: int, gid: int) -> str:
    """The HTTP status for a process of this user, or `refused` when it cannot connect."""
    argv = (
        sys.executable,
        "-c",
        _ASK,
        paths.sandbox("shop").socket_dir,
        str(uid),
        str(gid),
        TOKEN,
    )
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    return out.decode().strip()


def in_shop(user: tuple[int, int] | None = USER, *, contained: bool = True) -> Containment:
    return Containment(
        lambda pid, workspace: contained and pid > 0 and workspace == "shop", lambda workspace: user
    )


async def test_agent_socket_belongs_to_the_user_of_the_container(
    paths: InstancePaths, holder: Session
) -> None:
    async with opened(paths, holder, in_shop()):
        place = paths.sandbox("shop")
        owners = [
            (s.st_uid, s.st_gid, stat.S_IMODE(s.st_mode))
            for s in map(os.stat, (place.socket, place.socket_dir))
        ]
        assert owners == [(*USER, 0o600), (*USER, 0o700)]
        above = Path(place.socket_dir).parent.stat()
        assert (above.st_uid, stat.S_IMODE(above.st_mode)) == (0, 0o700)


async def test_agent_socket_serves_the_user_of_the_container_and_no_other(
    paths: InstancePaths, holder: Session
) -> None:
    async with opened(paths, holder, in_shop()):
        assert await ask(paths, *USER) == "200"
        assert await ask(paths, 0, 0) == "200"
        assert await ask(paths, USER[0] + 1, USER[1]) == "refused"


async def test_agent_socket_refuses_the_token_from_outside_of_the_container(
    paths: InstancePaths, holder: Session
) -> None:
    async with opened(paths, holder, in_shop(contained=False)):
        assert await ask(paths, *USER) == "401"
        assert await ask(paths, 0, 0) == "401"


async def test_agent_socket_changes_its_owner_when_the_container_gets_another_user(
    paths: InstancePaths, holder: Session
) -> None:
    users: list[tuple[int, int] | None] = [None]
    containment = Containment(lambda pid, workspace: True, lambda workspace: users[0])
    async with opened(paths, holder, containment) as sockets:
        assert await ask(paths, *USER) == "refused"  # no container is known
        users[0] = USER
        await sockets.ready_for(holder)
        assert await ask(paths, *USER) == "200"
