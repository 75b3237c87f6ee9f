"""The connection: no server, no answer, the wrong tmux, lost and made again."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from sm.errors import NoServer, TerminalError, TerminalUnreachable
from sm.terminals.tmux.server import OLDEST, older
from sm.terminals.tmux.terminals import Tmux
from tests.load import scaled
from tests.terminals.world import INSTANCE, World, ended, sh, until, until_async

ID = "1a2b3c4d"
NAME = "command-1a2b3c4d"
FOREVER = sh("exec sleep 1000")
KEEPER = "sm-0b5e55ed"


def clients(world: World) -> list[int]:
    return [int(line) for line in world.tmux("list-clients", "-F", "#{client_pid}")]


def fake_tmux(world: World, script: str) -> None:
    """Put another program before tmux on the path: what a broken installation looks like."""
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
def test_version_is_read_in_every_form(version: str, old: bool) -> None:
    assert older(version, OLDEST) is old


async def test_missing_tmux_says_how_to_install_it(world: World) -> None:
    world.environment["PATH"] = str(world.home)
    async with world.terminals() as tmux:
        with pytest.raises(TerminalError, match="not installed") as error:
            await tmux.open(ID, NAME, "/", FOREVER)
        assert error.value.hint == "sudo apt-get install tmux"
        # That there is no server is known without it.
        with pytest.raises(NoServer):
            await tmux.snapshot()
    world.environment["PATH"] = os.environ["PATH"]


async def test_tmux_that_is_too_old_is_not_used(world: World) -> None:
    fake_tmux(world, "echo tmux 3.1c")
    async with world.terminals() as tmux:
        with pytest.raises(TerminalError, match=r"3\.1c is too old, 3\.2 is needed"):
            await tmux.open(ID, NAME, "/", FOREVER)
    world.environment["PATH"] = os.environ["PATH"]


@pytest.mark.parametrize("script", ["echo hello", "exit 1", "echo '%begin 1 2'; exec cat", "echo oops >&2"])
async def test_garbage_in_place_of_the_protocol_is_no_answer(world: World, script: str) -> None:
    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    fake_tmux(world, f'case "$*" in *-V) echo tmux 3.3a;; *) {script};; esac')
    async with world.terminals(timeout_s=scaled(1)) as tmux:
        with pytest.raises(TerminalUnreachable) as error:
            await tmux.snapshot()
        assert not isinstance(error.value, NoServer)
        if "oops" in script:
            assert "oops" in error.value.message
    world.environment["PATH"] = os.environ["PATH"]


async def test_stranger_behind_the_socket_is_no_answer(world: World) -> None:
    world.socket_path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(world.socket_path))
        stranger.listen()
        async with world.terminals(timeout_s=scaled(0.5)) as tmux:
            with pytest.raises(TerminalUnreachable):
                await tmux.snapshot()


async def test_socket_of_a_dead_server_is_no_server(world: World) -> None:
    world.socket_path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(world.socket_path))
    async with world.terminals() as tmux:
        with pytest.raises(NoServer):
            await tmux.snapshot()
        await tmux.open(ID, NAME, "/", FOREVER)


async def test_socket_directory_that_is_no_directory_is_no_answer(world: World) -> None:
    world.socket_path.parent.write_text("in the way")
    async with world.terminals() as tmux:
        with pytest.raises(TerminalUnreachable):
            await tmux.snapshot()
        with pytest.raises(TerminalUnreachable):
            await tmux.open(ID, NAME, "/", FOREVER)


async def test_stopped_server_is_no_answer_and_answers_when_it_goes_on(world: World) -> None:
    async with world.terminals() as patient:
        pane = await patient.open(ID, NAME, "/", FOREVER)
    server = world.server_pid()
    async with world.terminals(timeout_s=scaled(1)) as tmux:
        assert await tmux.snapshot() == {ID: pane}
        os.kill(server, signal.SIGSTOP)
        try:
            for _ in range(2):  # on the connection that there is, and on one that cannot be made
                with pytest.raises(TerminalUnreachable) as error:
                    await tmux.snapshot()
                assert "did not" in error.value.message
        finally:
            os.kill(server, signal.SIGCONT)
        assert await tmux.snapshot() == {ID: pane}


async def test_slow_queue_is_not_taken_for_silence(world: World) -> None:
    limit_s = scaled(1)
    async with world.terminals(timeout_s=limit_s) as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
        # Each opening waits a fifth of the limit, and the last one for all of them: more than the limit.
        world.tmux("set-hook", "-g", "after-new-session", f"run-shell 'sleep {limit_s / 5:.1f}'")
        ids = [f"{n:08x}" for n in range(8)]
        await asyncio.gather(*(tmux.open(key, f"command-{key}", "/", FOREVER) for key in ids))
        assert set(await tmux.snapshot()) == {ID, *ids}


async def test_first_question_waits_until_the_client_is_attached(world: World) -> None:
    # tmux may run a line of ours before it attaches us; without waiting, some of these ask about `mine`.
    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    for _ in range(30):
        async with world.terminals() as tmux:
            assert await tmux.snapshot() == {}
            await tmux.retire()
    assert world.sessions() == ["mine"]
    assert world.tmux("show-options", "-t", "=mine:") == []


async def test_user_whose_window_size_is_manual_keeps_their_server(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    server = world.server_pid()
    world.tmux("set-option", "-gw", "window-size", "manual")
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


@pytest.mark.parametrize("happens", [kill_keeper, kill_client, detach_all])
async def test_lost_connection_is_made_again(world: World, tmux: Tmux, happens: object) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    told: list[str] = []
    tmux.on_activity(told.extend)
    await until(lambda: told)
    old = clients(world)
    assert callable(happens)
    await happens(world)

    async def asked_again() -> bool:
        try:
            answer = await tmux.snapshot()
        except TerminalUnreachable:  # the loss itself may be what the first question meets
            return False
        now = clients(world)
        return answer == {ID: pane} and now != old and bool(now)

    await until_async(asked_again)
    # The subscription came with it.
    await tmux.open("99999999", "command-99999999", "/", FOREVER)
    await until(lambda: "99999999" in told)


async def test_killed_keeper_does_not_move_us_into_a_session_of_the_user(world: World) -> None:
    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    world.tmux("set-option", "-g", "detach-on-destroy", "off")
    async with world.terminals() as tmux:
        await tmux.snapshot()
        (client,) = clients(world)
        await kill_keeper(world)
        await until(lambda: client not in clients(world))


async def test_server_that_was_killed_is_no_server_and_can_be_started_at_once(
    world: World, tmux: Tmux
) -> None:
    for n in range(10):
        await tmux.open(f"{n:08x}", f"command-{n:08x}", "/", FOREVER)
        world.tmux("kill-server")
        if n % 2:
            with pytest.raises(NoServer):
                await until_async(lambda: tmux.snapshot())
    await tmux.open(ID, NAME, "/", FOREVER)
    assert set(await tmux.snapshot()) == {ID}


async def test_server_that_was_killed_hard_is_no_server(world: World, tmux: Tmux) -> None:
    await tmux.open(ID, NAME, "/", FOREVER)
    server = world.server_pid()
    os.kill(server, signal.SIGKILL)
    await until(lambda: ended(server))
    with pytest.raises(NoServer):
        await tmux.snapshot()


async def test_server_that_we_started_holds_nothing_of_ours(world: World) -> None:
    lock = world.home / "lock"
    with lock.open("w") as held:
        os.set_inheritable(held.fileno(), True)
        async with world.terminals() as tmux:
            pane = await tmux.open(ID, NAME, "/", FOREVER)
            server = world.server_pid()
            for pid in (server, pane.pid):
                links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
                assert str(lock) not in links
            assert os.readlink(f"/proc/{server}/cwd") == "/"
            for pid in (server, *clients(world)):
                assert os.getsid(pid) != os.getsid(0)
    assert not ended(server), "it went with our client"


async def test_foreign_session_with_our_keepers_name_is_left_alone(world: World, tmux: Tmux) -> None:
    world.tmux("new-session", "-d", "-s", KEEPER, "sleep 1000")
    with pytest.raises(TerminalError, match=KEEPER):
        await tmux.snapshot()
    assert world.tmux("show-options", "-t", f"={KEEPER}:") == []
    assert world.sessions() == [KEEPER]


async def test_keeper_that_a_person_renamed_is_replaced(world: World) -> None:
    async with world.terminals() as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("rename-session", "-t", f"={KEEPER}:", "strange")
    async with world.terminals() as tmux:
        await tmux.snapshot()
        await until(lambda: set(world.sessions()) == {NAME, KEEPER})
        assert world.tmux("show-options", "-v", "-t", f"={KEEPER}:", "@sm_instance") == [INSTANCE]


async def test_we_never_use_the_server_that_TMUX_names(world: World) -> None:
    world.environment |= {"TMUX": f"{world.home}/elsewhere,1,0", "TMUX_PANE": "%0"}
    async with world.terminals() as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
    del world.environment["TMUX"], world.environment["TMUX_PANE"]
    assert NAME in world.sessions()
