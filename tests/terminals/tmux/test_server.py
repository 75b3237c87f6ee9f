"""The connection to the tmux server: missing, unreachable, of a wrong version, lost and reopened."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from sm.errors import NoServer, TerminalError, TerminalUnreachable
from sm.terminals.tmux.terminals import Tmux
from sm.terminals.tmux.tmux_server import OLDEST, older
from tests.terminals.contract.samples import FOREVER, ID, NAME
from tests.terminals.world import INSTANCE, World, ended, until, until_async

KEEPER = "sm-0b5e55ed"


def clients(world: World) -> list[int]:
    return [int(line) for line in world.tmux("list-clients", "-F", "#{client_pid}")]


def fake_tmux(world: World, script: str) -> None:
    """Put another program before tmux on the path, as in a broken installation."""
    directory = world.home / "bin"
    directory.mkdir()
    (directory / "tmux").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "tmux").chmod(0o700)
    world.environment["PATH"] = f"{directory}:{world.environment['PATH']}"


@pytest.mark.parametrize(
    ("version", "old"),
    [
        ("tmux 3.1c", True),
        ("tmux 2.9a", True),
        ("tmux 3.2", False),
        ("tmux 3.2-rc3", False),
        ("tmux 3.3a", False),
        ("tmux 3.10", False),
        ("tmux next-3.4", False),
        ("tmux next-3.1", True),
        ("tmux openbsd-7.1", False),
        ("tmux master", False),
        ("", False),
    ],
)
def test_older_parses_every_form_of_tmux_version(version: str, old: bool) -> None:
    assert older(version, OLDEST) is old


async def test_open_fails_with_an_install_hint_when_tmux_is_missing(world: World) -> None:
    world.environment["PATH"] = str(world.home)
    async with world.terminals() as tmux:
        with pytest.raises(TerminalError, match="not installed") as error:
            await tmux.open(ID, NAME, "/", FOREVER)
        assert error.value.hint == "sudo apt-get install tmux"
        # Without tmux installed, it is still known that no server runs.
        with pytest.raises(NoServer):
            await tmux.snapshot()
    world.environment["PATH"] = os.environ["PATH"]


async def test_open_fails_when_tmux_is_too_old(world: World) -> None:
    fake_tmux(world, "echo tmux 3.1c")
    async with world.terminals() as tmux:
        with pytest.raises(TerminalError, match=r"3\.1c is too old, sm needs tmux 3\.2 or newer"):
            await tmux.open(ID, NAME, "/", FOREVER)
    world.environment["PATH"] = os.environ["PATH"]


@pytest.mark.parametrize("script", ["echo hello", "exit 1", "echo '%begin 1 2'; exec cat", "echo oops >&2"])
async def test_snapshot_is_unreachable_when_tmux_prints_garbage(world: World, script: str) -> None:
    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    fake_tmux(world, f'case "$*" in *-V) echo tmux 3.3a;; *) {script};; esac')
    async with world.terminals(timeout_s=2) as tmux:
        with pytest.raises(TerminalUnreachable) as error:
            await tmux.snapshot()
        assert not isinstance(error.value, NoServer)
        if "oops" in script:
            assert "oops" in error.value.message
    world.environment["PATH"] = os.environ["PATH"]


async def test_snapshot_is_unreachable_when_another_program_owns_the_socket(world: World) -> None:
    world.socket_path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(world.socket_path))
        stranger.listen()
        async with world.terminals(timeout_s=2) as tmux:
            with pytest.raises(TerminalUnreachable):
                await tmux.snapshot()


async def test_snapshot_raises_no_server_when_the_socket_belongs_to_a_dead_server(world: World) -> None:
    world.socket_path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(world.socket_path))
    async with world.terminals() as tmux:
        with pytest.raises(NoServer):
            await tmux.snapshot()
        await tmux.open(ID, NAME, "/", FOREVER)


async def test_terminal_call_is_unreachable_when_the_socket_directory_is_a_file(world: World) -> None:
    world.socket_path.parent.write_text("in the way")
    async with world.terminals() as tmux:
        with pytest.raises(TerminalUnreachable):
            await tmux.snapshot()
        with pytest.raises(TerminalUnreachable):
            await tmux.open(ID, NAME, "/", FOREVER)


async def test_snapshot_is_unreachable_while_the_server_is_stopped(world: World) -> None:
    async with world.terminals() as patient:
        pane = await patient.open(ID, NAME, "/", FOREVER)
    server = world.server_pid()
    async with world.terminals(timeout_s=2) as tmux:
        assert await tmux.snapshot() == {ID: pane}
        os.kill(server, signal.SIGSTOP)
        try:
            for _ in range(2):  # on the open connection, and when a new one cannot be opened
                with pytest.raises(TerminalUnreachable) as error:
                    await tmux.snapshot()
                assert "did not" in error.value.message
        finally:
            os.kill(server, signal.SIGCONT)
        assert await tmux.snapshot() == {ID: pane}


async def test_slow_command_queue_does_not_time_out(world: World) -> None:
    limit_s = 2
    async with world.terminals(timeout_s=limit_s) as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
        # Each open takes a fifth of the limit, so the last one waits longer than the limit.
        world.tmux("set-hook", "-g", "after-new-session", f"run-shell 'sleep {limit_s / 5:.1f}'")
        ids = [f"{n:08x}" for n in range(8)]
        await asyncio.gather(*(tmux.open(key, f"command-{key}", "/", FOREVER) for key in ids))
        assert set(await tmux.snapshot()) == {ID, *ids}


async def test_first_command_waits_until_the_client_is_attached(world: World) -> None:
    # tmux may run a command before it attaches the client; without waiting, some commands would apply to `mine`.
    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    for _ in range(30):
        async with world.terminals() as tmux:
            assert await tmux.snapshot() == {}
            await tmux.retire()
    assert world.sessions() == ["mine"]
    assert world.tmux("show-options", "-t", "=mine:") == []


async def test_server_of_a_user_with_manual_window_size_is_refused_and_kept(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    spare = (await until(lambda: [name for name in world.sessions() if name.startswith("sm-spare-")]))[0]
    server = world.server_pid()
    world.tmux("set-option", "-gw", "window-size", "manual")
    world.tmux("kill-session", "-t", f"={spare}")
    if older(world.run("-V").stdout[0], (3, 4)):
        with pytest.raises(TerminalError, match="manual"):
            await tmux.open("99999999", "command-99999999", "/", FOREVER)
        async with world.terminals() as others:
            with pytest.raises(TerminalError, match="manual"):
                await others.snapshot()
    assert await tmux.snapshot() == {ID: pane}
    assert world.server_pid() == server


async def kill_keeper(world: World) -> None:
    world.tmux("kill-session", "-t", f"={KEEPER}")


async def kill_client(world: World) -> None:
    for client in clients(world):
        os.kill(client, signal.SIGKILL)


async def detach_all(world: World) -> None:
    world.tmux("detach-client", "-s", f"={KEEPER}")


@pytest.mark.parametrize("disconnect", [kill_keeper, kill_client, detach_all])
async def test_lost_connection_is_reopened(world: World, tmux: Tmux, disconnect: object) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    moved: list[str] = []
    tmux.on_activity(moved.extend)
    await until(lambda: moved)
    old = clients(world)
    assert callable(disconnect)
    await disconnect(world)

    async def reconnected() -> bool:
        try:
            answer = await tmux.snapshot()
        except TerminalUnreachable:  # the first call may find the lost connection
            return False
        now = clients(world)
        return answer == {ID: pane} and now != old and bool(now)

    await until_async(reconnected)
    # The subscription was renewed too.
    await tmux.open("99999999", "command-99999999", "/", FOREVER)
    await until(lambda: "99999999" in moved)


async def test_killed_keeper_session_does_not_move_the_client_into_a_users_session(world: World) -> None:
    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    world.tmux("set-option", "-g", "detach-on-destroy", "off")
    async with world.terminals() as tmux:
        await tmux.snapshot()
        (client,) = clients(world)
        await kill_keeper(world)
        await until(lambda: client not in clients(world))


async def test_killed_server_can_be_started_again_immediately(world: World, tmux: Tmux) -> None:
    for n in range(10):
        await tmux.open(f"{n:08x}", f"command-{n:08x}", "/", FOREVER)
        world.tmux("kill-server")
        if n % 2:
            with pytest.raises(NoServer):
                await until_async(lambda: tmux.snapshot())
    await tmux.open(ID, NAME, "/", FOREVER)
    assert set(await tmux.snapshot()) == {ID}


async def test_snapshot_raises_no_server_when_the_server_got_sigkill(world: World, tmux: Tmux) -> None:
    await tmux.open(ID, NAME, "/", FOREVER)
    server = world.server_pid()
    os.kill(server, signal.SIGKILL)
    await until(lambda: ended(server))
    with pytest.raises(NoServer):
        await tmux.snapshot()


async def test_started_server_inherits_no_files_directory_or_kernel_session(world: World) -> None:
    lock = world.home / "lock"
    with lock.open("w") as lock_file:
        os.set_inheritable(lock_file.fileno(), True)
        async with world.terminals() as tmux:
            pane = await tmux.open(ID, NAME, "/", FOREVER)
            server = world.server_pid()
            for pid in (server, pane.pid):
                links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
                assert str(lock) not in links
            assert os.readlink(f"/proc/{server}/cwd") == "/"
            for pid in (server, *clients(world)):
                assert os.getsid(pid) != os.getsid(0)
    assert not ended(server), "the server ended with its client"


async def test_foreign_session_with_the_name_of_the_keeper_is_left_alone(world: World, tmux: Tmux) -> None:
    world.tmux("new-session", "-d", "-s", KEEPER, "sleep 1000")
    with pytest.raises(TerminalError, match=KEEPER):
        await tmux.snapshot()
    assert world.tmux("show-options", "-t", f"={KEEPER}:") == []
    assert world.sessions() == [KEEPER]


async def test_keeper_session_is_replaced_when_a_person_renamed_it(world: World) -> None:
    async with world.terminals() as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("rename-session", "-t", f"={KEEPER}:", "strange")
    async with world.terminals() as tmux:
        await tmux.snapshot()
        await until(lambda: set(world.sessions()) == {NAME, KEEPER})
        assert world.tmux("show-options", "-v", "-t", f"={KEEPER}:", "@sm_instance") == [INSTANCE]


async def test_server_named_by_the_TMUX_variable_is_ignored(world: World) -> None:
    world.environment |= {"TMUX": f"{world.home}/elsewhere,1,0", "TMUX_PANE": "%0"}
    async with world.terminals() as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
    del world.environment["TMUX"], world.environment["TMUX_PANE"]
    assert NAME in world.sessions()
