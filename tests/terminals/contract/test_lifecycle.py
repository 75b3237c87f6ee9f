"""The contract of Lifecycle: open, adopt, close, snapshot, endings and the owner of a tty."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping

import pytest

from sm.core.models import Exit
from sm.errors import NoServer, NoTerminal, TerminalError
from sm.linux.kernel import kernel
from sm.terminals.base import Pane, Terminals
from tests.terminals.contract.samples import (
    FOREVER,
    ID,
    NAME,
    commands_below,
    ends_with,
    gone,
    kill,
    line_of,
    lives,
)
from tests.terminals.world import World, sh, until, until_async


async def test_snapshot_tells_a_missing_server_from_an_empty_one(terminals: Terminals, world: World) -> None:
    with pytest.raises(NoServer):
        await terminals.snapshot()
    assert not world.socket_path.exists(), "snapshot started a server"
    await terminals.open(ID, NAME, "/", FOREVER)
    await terminals.close(NAME)
    assert await terminals.snapshot() == {}


@pytest.mark.parametrize("call", ["capture", "type_line", "session_of_tty"])
async def test_terminal_call_raises_no_server_when_no_server_runs(terminals: Terminals, call: str) -> None:
    calls: Mapping[str, Callable[[], Awaitable[object]]] = {
        "capture": lambda: terminals.capture(NAME, 5),
        "type_line": lambda: terminals.type_line(NAME, "hello"),
        "session_of_tty": lambda: terminals.session_of_tty("/dev/pts/0"),
    }
    with pytest.raises(NoServer):
        await calls[call]()


async def test_close_does_nothing_when_no_server_runs(terminals: Terminals) -> None:
    await terminals.close(NAME)


async def test_open_starts_the_process_and_adds_the_terminal_to_the_snapshot(terminals: Terminals) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    assert (pane.session_id, pane.name, pane.dead, pane.exit) == (ID, NAME, False, None)
    assert lives(pane.pid)
    await until(lambda: kernel().link(f"/proc/{pane.pid}/fd/0") == pane.tty)
    assert await terminals.snapshot() == {ID: pane}


async def test_open_returns_the_existing_terminal_when_it_is_already_open(terminals: Terminals) -> None:
    first = await terminals.open(ID, NAME, "/", FOREVER)
    again = await terminals.open(ID, NAME, "/", FOREVER)
    assert again == first
    assert len(await terminals.snapshot()) == 1


async def test_open_returns_the_ended_terminal_when_its_process_has_ended(terminals: Terminals) -> None:
    pane = await terminals.open(ID, NAME, "/", sh("exit 4"))
    await gone(pane.pid)
    assert await terminals.exit_status(pane) == Exit(4)
    again = await terminals.open(ID, NAME, "/", FOREVER)
    assert (again.pid, again.dead, again.exit) == (pane.pid, True, Exit(4))


async def test_snapshot_knows_since_when_a_process_has_ended(terminals: Terminals, world: World) -> None:
    before = int(world.now_s())
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    assert pane.dead_since_s is None
    kill(pane.pid, signal.SIGKILL)
    await gone(pane.pid)
    await terminals.exit_status(pane)
    since_s = (await terminals.snapshot())[ID].dead_since_s
    assert since_s is None or before <= since_s <= world.now_s()  # None for tmux 3.2


async def test_open_and_close_leave_a_foreign_session_alone_when_it_has_the_same_name(
    terminals: Terminals, world: World
) -> None:
    world.tmux("new-session", "-d", "-s", NAME, "sleep 1000")
    before = world.tmux("list-panes", "-a", "-F", "#{session_name} #{pane_pid}")
    with pytest.raises(TerminalError, match=NAME):
        await terminals.open(ID, NAME, "/", FOREVER)
    after = world.tmux("list-panes", "-a", "-F", "#{session_name} #{pane_pid}")
    assert [line for line in after if line.startswith(NAME)] == before
    await terminals.close(NAME)
    assert NAME in world.sessions(), "close removed a session of the user"


async def test_terminal_of_another_instance_is_neither_used_nor_listed(
    terminals: Terminals, world: World
) -> None:
    async with world.terminals("77777777-1111-4222-8333-444455556666") as other:
        pane = await other.open(ID, NAME, "/", FOREVER)
        # tmux 3.3a crashes when a session is made while a control client connects (control_write).
        await until(lambda: world.is_played or any(n.startswith("sm-spare-") for n in world.sessions()))
        with pytest.raises(TerminalError):
            await terminals.open(ID, NAME, "/", FOREVER)
        assert await terminals.snapshot() == {}
        assert await terminals.session_of_tty(pane.tty) is None
        await terminals.close(NAME)
        assert await other.snapshot() == {ID: pane}


@pytest.mark.parametrize("name", ["a:b", "a.b", "", "a b", "#{pid}", "*"])
async def test_open_refuses_a_name_with_special_characters_for_tmux(terminals: Terminals, name: str) -> None:
    with pytest.raises(TerminalError):
        await terminals.open(ID, name, "/", FOREVER)


async def test_open_starts_fifty_terminals_concurrently(terminals: Terminals) -> None:
    names = {f"{n:08x}": f"command-{n:08x}" for n in range(50)}
    panes = await asyncio.gather(*(terminals.open(key, name, "/", FOREVER) for key, name in names.items()))
    found = await terminals.snapshot()
    assert {key: pane.name for key, pane in found.items()} == names
    assert len({pane.pid for pane in panes}) == 50
    assert all(lives(pane.pid) for pane in panes)


@pytest.mark.tmux_only("an exec of tmux")
@pytest.mark.parametrize(
    "directory",
    [
        "plain",
        "with space",
        "quote'and\"double",
        "semicolon;",
        ";",
        "$HOME ${HOME}",
        "#{pid} #(touch pwned) #S ##",
        "#[fg=red] ##[x ###",
        "}#,{",
        "~",
        "%end 1 2 1",
        "line\nend\rhere",
        "back\\slash\\n\\",
        "täst ☃ 文字",
        "-d",
        "tab\tesc\x1b[0m",
    ],
)
async def test_open_passes_working_directory_and_arguments_unchanged(
    terminals: Terminals, world: World, directory: str
) -> None:
    working_dir = world.home / directory
    working_dir.mkdir()
    out = world.home / "out"
    script = f'{{ /bin/pwd; printf "%s\\0" "$@"; }} > {out}.new; mv {out}.new {out}'
    await terminals.open(ID, NAME, str(working_dir), ("/bin/sh", "-c", script, "sh", directory, "", "last;"))
    await until(out.exists)
    # /bin/pwd, because the shell's builtin trusts the variable PWD.
    pwd, _, arguments = out.read_bytes().decode().partition("\n" if "\n" not in directory else "here\n")
    if "\n" in directory:
        pwd += "here"
    assert pwd == str(working_dir)
    assert arguments.split("\0") == [directory, "", "last;", ""]
    assert not list(world.home.rglob("pwned"))


@pytest.mark.tmux_only("an exec of tmux")
async def test_open_runs_a_single_argument_as_a_program_and_not_as_a_command_line(
    terminals: Terminals, world: World
) -> None:
    program = world.home / "exit 5; it"
    program.write_text("#!/bin/sh\nexit 6\n")
    program.chmod(0o700)
    pane = await terminals.open(ID, NAME, "/", (str(program),))
    await gone(pane.pid)
    assert await terminals.exit_status(pane) == Exit(6)


@pytest.mark.tmux_only("SIGCHLD of tmux")
async def test_exit_status_reports_every_exit_code_when_a_hundred_processes_exit_together(
    terminals: Terminals, world: World
) -> None:
    go = world.home / "go"
    os.mkfifo(go)

    def script(code: int) -> tuple[str, str, str]:
        return sh(f"read line < {go}; exit {code}")

    panes = await asyncio.gather(
        *(terminals.open(f"{n:08x}", f"command-{n:08x}", "/", script(n)) for n in range(100))
    )
    # As with agents that have run for a while: no child of the start is left whose end would make tmux check the
    # other panes.
    server = world.server_pid()
    await until(lambda: b"sleep\x001\x00" not in commands_below(server))
    with go.open("w"):  # opens when every script waits, and closing ends every `read`
        pass

    async def end_of(pane: Pane) -> Exit:
        await gone(pane.pid)
        return await terminals.exit_status(pane)

    assert await asyncio.gather(*(end_of(pane) for pane in panes)) == [Exit(n) for n in range(100)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_exit_status_reports_the_signal_that_killed_the_process(
    terminals: Terminals, number: signal.Signals
) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    kill(pane.pid, number)
    await gone(pane.pid)
    assert await terminals.exit_status(pane) == Exit(signal=number)
    assert (await terminals.snapshot())[ID].exit == Exit(signal=number)


@pytest.mark.parametrize(
    ("kill", "error"), [(("kill-session", "-t", f"={NAME}"), NoTerminal), (("kill-server",), NoServer)]
)
async def test_exit_status_tells_a_removed_terminal_from_a_stopped_server(
    terminals: Terminals, world: World, kill: tuple[str, ...], error: type[Exception]
) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    world.tmux(*kill)
    await gone(pane.pid)
    with pytest.raises(error):
        await terminals.exit_status(pane)


async def test_exit_status_ignores_the_same_pane_id_of_a_new_server(
    terminals: Terminals, world: World
) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    world.tmux("kill-server")
    await gone(pane.pid)
    await until(lambda: not world.sessions())
    other = await terminals.open(ID, NAME, "/", sh("exit 9"))
    assert other.pane_id == pane.pane_id
    with pytest.raises(NoServer):  # the terminal was not closed, but went with its server
        await terminals.exit_status(pane)


async def test_server_started_s_is_the_start_time_of_the_server(terminals: Terminals, world: World) -> None:
    with pytest.raises(NoServer):
        await terminals.server_started_s()
    before = world.now_s()
    await terminals.open(ID, NAME, "/", FOREVER)
    assert int(before) <= await terminals.server_started_s() <= world.now_s()


async def test_server_pid_is_the_parent_of_agents_while_the_server_is_known(
    terminals: Terminals, world: World
) -> None:
    seen = [terminals.server_pid]
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    seen.append(terminals.server_pid)
    world.tmux("kill-server")
    await gone(pane.pid)
    with pytest.raises(NoServer):
        await terminals.server_started_s()
    assert [*seen, terminals.server_pid] == [None, pane.server_pid, None]


async def test_close_removes_the_terminal_and_can_be_repeated(terminals: Terminals) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    await terminals.open("99999999", "command-99999999", "/", FOREVER)
    await terminals.close(NAME)
    await terminals.close(NAME)
    await gone(pane.pid)
    assert set(await terminals.snapshot()) == {"99999999"}


@pytest.mark.parametrize("call", ["capture", "type_line"])
async def test_call_raises_no_terminal_when_only_a_longer_name_exists(
    terminals: Terminals, call: str
) -> None:
    # A terminal whose name only begins with the requested name must not match.
    await terminals.open("11111111", NAME + "1", "/", FOREVER)
    with pytest.raises(NoTerminal):
        await (terminals.capture(NAME, 5) if call == "capture" else terminals.type_line(NAME, "x"))


async def test_session_of_tty_forgets_the_tty_of_an_ended_agent(terminals: Terminals) -> None:
    """The kernel gives the number of the tty to the next terminal."""
    first = await terminals.open(ID, NAME, "/", sh("exit 0"))
    await gone(first.pid)
    await terminals.exit_status(first)
    for number in range(20):
        other = f"2222{number:04d}"
        pane = await terminals.open(other, f"command-{other}", "/", FOREVER)
        assert await terminals.session_of_tty(pane.tty) == other
        if pane.tty == first.tty:
            return
    assert await terminals.session_of_tty(first.tty) is None


@pytest.mark.tmux_only("windows of tmux")
async def test_session_of_tty_finds_the_session_of_every_pane(terminals: Terminals, world: World) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    split = world.tmux("split-window", "-t", f"={NAME}:", "-P", "-F", "#{pane_tty}", "sleep 1000")
    window = world.tmux("new-window", "-t", f"={NAME}:", "-P", "-F", "#{pane_tty}", "sleep 1000")
    foreign = world.tmux("new-session", "-d", "-P", "-F", "#{pane_tty}", "sleep 1000")
    for tty in (pane.tty, *split, *window):
        assert await terminals.session_of_tty(tty) == ID
    for tty in (*foreign, "/dev/pts/9999", "/dev/null", "?", "", "#{pane_tty}", "/dev/pts/1,x"):
        assert await terminals.session_of_tty(tty) is None


@pytest.mark.tmux_only("windows of tmux")
async def test_agent_pane_is_still_used_when_a_person_opens_other_panes_and_windows(
    terminals: Terminals, world: World
) -> None:
    pane = await terminals.open(ID, NAME, "/", sh("echo agent; read line; echo got $line; sleep 1000"))
    await line_of(terminals, NAME)
    world.tmux("split-window", "-b", "-t", f"={NAME}:", "sleep 1000")
    world.tmux("new-window", "-t", f"={NAME}:", "sleep 1000")
    found = (await terminals.snapshot())[ID]
    assert (found.pane_id, found.pid, found.tty) == (pane.pane_id, pane.pid, pane.tty)
    await terminals.type_line(NAME, "it")
    await until_async(lambda: ends_with(terminals, "got it"))
