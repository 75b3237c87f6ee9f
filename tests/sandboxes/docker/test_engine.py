"""The connection to a Docker engine: its errors, its time limits and its facts, on a real engine."""

import asyncio
import contextlib
import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from sm.errors import SandboxUnavailable, SandboxUnreachable
from sm.sandboxes.docker.engine import Engine, EngineError
from tests.engine import NO_ENGINE, EngineProcess
from tests.waits import NEVER_S, until_async

pytestmark = pytest.mark.processes


@pytest.fixture
def connection(engine: str) -> Iterator[Engine]:
    with contextlib.closing(Engine(engine)) as connection:
        yield connection


@pytest.fixture
async def hung(private_engine: EngineProcess) -> AsyncIterator[Engine]:
    """A connection to an engine that hangs after it has answered."""
    with contextlib.closing(Engine(private_engine.url, ping_s=2)) as connection:
        await connection.call(lambda client: client.ping(), timeout_s=NEVER_S)
        private_engine.hang()
        yield connection


def docker_threads() -> int:
    return sum(thread.name == "docker" for thread in threading.enumerate())


async def test_facts_name_the_engine_and_are_read_once(connection: Engine) -> None:
    facts = await connection.facts()
    assert facts.version and facts.storage_driver and facts.seccomp and facts.cgroup_version in (1, 2)
    assert Path(facts.data_root).is_dir() or os.geteuid() != 0
    assert facts.memory > 0
    assert await connection.facts() is facts


async def test_nofile_max_is_the_hard_limit_of_the_engine(private_engine: EngineProcess) -> None:
    process = private_engine.process()
    assert process is not None
    command = ["prlimit", "--pid", str(process.pid), "--nofile", "--noheadings", "--output", "HARD"]
    with contextlib.closing(Engine(private_engine.url)) as connection:
        facts = await connection.facts()
    assert str(facts.nofile_max) == subprocess.check_output(command, text=True).strip()


async def test_call_raises_the_status_when_the_engine_refuses(connection: Engine) -> None:
    with pytest.raises(EngineError, match="No such container: none") as raised:
        await connection.call(lambda client: client.api.inspect_container("none"))
    assert raised.value.status == 404


@pytest.mark.parametrize(
    "url", ["tcp://127.0.0.1:2375", "ssh://root@host", "http://host", "npipe:////./pipe/x"]
)
async def test_engine_on_another_machine_is_unavailable(url: str) -> None:
    with pytest.raises(SandboxUnavailable, match="is not on this machine") as raised:
        await Engine(url).ping()
    assert "unix:///var/run/docker.sock" in str(raised.value.hint)


async def test_ping_names_the_path_when_there_is_no_socket() -> None:
    with pytest.raises(SandboxUnavailable, match=r"/nonexistent/docker.sock does not exist") as raised:
        await Engine().ping()
    assert raised.value.hint == "sudo systemctl start docker"


async def test_ping_names_the_socket_when_nothing_listens_on_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as unused:
        unused.bind(str(path))
    with pytest.raises(SandboxUnavailable, match=r"no Docker engine listens on .*/s: Connection refused"):
        await Engine(f"unix://{path}").ping()


async def test_ping_is_refused_when_another_program_listens(tmp_path: Path) -> None:
    server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), str(tmp_path / "s"))
    async with server:
        with pytest.raises(SandboxUnavailable, match="closed the connection"):
            await Engine(f"unix://{tmp_path}/s").ping()


async def test_podman_is_refused_by_name_before_it_is_used(tmp_path: Path) -> None:
    # The answer of Podman 4.3.1 of Debian 12, without the headers that Docker has too.
    head = b"HTTP/1.0 200 OK\r\nLibpod-Api-Version: 4.3.1\r\nServer: Libpod/4.3.1 (linux)\r\n\r\nOK"
    asked: list[bytes] = []

    async def podman(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(head)
        writer.close()

    server = await asyncio.start_unix_server(podman, str(tmp_path / "s"))
    async with server:
        engine = Engine(f"unix://{tmp_path}/s")
        for use in (engine.ping(), engine.facts(), engine.call(lambda client: client.info())):
            with pytest.raises(
                SandboxUnavailable, match=r"/s is Podman 4\.3\.1, and containers of sm need Docker"
            ):
                await use
    assert asked == [b"GET /_ping HTTP/1.0\r\n"] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
async def test_ping_names_the_group_when_the_user_has_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        path.chmod(0o600)
        for folder in (tmp_path, *tmp_path.parents[:3]):
            if folder.stat().st_uid == 0 and folder != Path("/tmp"):
                folder.chmod(folder.stat().st_mode | 0o011)
        os.seteuid(1234)
        try:
            with pytest.raises(SandboxUnavailable, match="user 1234 may not use the Docker engine") as raised:
                await Engine(f"unix://{path}").ping()
        finally:
            os.seteuid(0)
    # The user has no name, which usermod needs.
    assert "start the daemon with group docker" in str(raised.value.hint)


def test_sdk_is_not_imported_when_no_engine_answers() -> None:
    code = (
        "import asyncio, sys\n"
        "from sm.errors import SandboxUnavailable\n"
        "from sm.sandboxes.docker.engine import Engine\n"
        "async def main():\n"
        "    try: await Engine().call(lambda client: None)\n"
        "    except SandboxUnavailable: print('docker' in sys.modules, 'requests' in sys.modules)\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "DOCKER_HOST": NO_ENGINE}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False False\n", "")


async def test_calls_are_refused_without_a_thread_while_the_engine_hangs(hung: Engine) -> None:
    before = docker_threads()
    answers = await asyncio.gather(
        *(hung.call(lambda client: client.ping()) for _ in range(50)), return_exceptions=True
    )
    assert {type(answer) for answer in answers} == {SandboxUnreachable}
    assert "does not respond" in str(answers[0])
    assert docker_threads() <= before  # those of earlier tests may end meanwhile


async def test_call_ends_in_time_when_the_engine_hangs_during_it(private_engine: EngineProcess) -> None:
    with contextlib.closing(Engine(private_engine.url)) as connection:
        process = private_engine.process()
        assert process is not None

        def hang_and_ask(client: object) -> None:
            private_engine.hang()
            client.info()  # type: ignore[attr-defined]

        with pytest.raises(SandboxUnavailable, match=r"does not respond|did not answer"):
            await connection.call(hang_and_ask, timeout_s=2)

        async def no_threads() -> bool:
            return docker_threads() == 0

        await until_async(no_threads, "the thread of the call has ended")
        private_engine.resume()
        assert await connection.call(lambda client: client.ping(), timeout_s=NEVER_S)


async def test_call_is_answered_again_by_an_engine_that_started_again(private_engine: EngineProcess) -> None:
    with contextlib.closing(Engine(private_engine.url)) as connection:
        before = await connection.facts()
        private_engine.kill()
        with pytest.raises(SandboxUnavailable, match="no Docker engine"):
            await connection.facts()
        private_engine.start()
        assert (await connection.facts()).version == before.version
        assert await connection.facts() is not before


async def test_call_leaves_no_open_socket_when_the_engine_has_gone(private_engine: EngineProcess) -> None:
    def engine_ends(client: DockerClient) -> None:
        client.close()  # the connections that it has
        private_engine.kill()
        client.ping()

    with contextlib.closing(Engine(private_engine.url)) as connection:
        with pytest.raises(SandboxUnreachable):
            await connection.call(engine_ends, timeout_s=NEVER_S)
        gc.collect()  # an open socket warns when it is collected
