"""The contract of Lifecycle: open, adopt, close, snapshot, endings, who owns a tty."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping

import pytest

from sm.core.models import Exit
from sm.errors import NoServer, NoTerminal, TerminalError
from sm.terminals.base import Pane, Terminals
from tests.terminals.contract.samples import FOREVER, ID, NAME, commands_below, ends_with, gone, line_of
from tests.terminals.world import World, sh, until, until_async


async def test_no_server_is_another_answer_than_no_terminals(terminals: Terminals, world: World) -> None:
    with pytest.raises(NoServer):
        await terminals.snapshot()
    assert not world.socket_path.exists(), "asking started a server"
    await terminals.open(ID, NAME, "/", FOREVER)
    await terminals.close(NAME)
    assert await terminals.snapshot() == {}


@pytest.mark.parametrize("call", ["capture", "type_line", "session_of_tty"])
async def test_without_a_server_every_question_says_so(terminals: Terminals, call: str) -> None:
    asked: Mapping[str, Callable[[], Awaitable[object]]] = {
        "capture": lambda: terminals.capture(NAME, 5),
        "type_line": lambda: terminals.type_line(NAME, "hello"),
        "session_of_tty": lambda: terminals.session_of_tty("/dev/pts/0"),
    }
    with pytest.raises(NoServer):
        await asked[call]()


async def test_closing_without_a_server_is_fine(terminals: Terminals) -> None:
    await terminals.close(NAME)


async def test_opened_terminal_runs_the_process_and_is_in_the_snapshot(terminals: Terminals) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    assert (pane.session_id, pane.name, pane.dead, pane.exit) == (ID, NAME, False, None)
    assert os.path.exists(f"/proc/{pane.pid}")
    await until(lambda: os.readlink(f"/proc/{pane.pid}/fd/0") == pane.tty)
    assert await terminals.snapshot() == {ID: pane}


async def test_opening_again_returns_the_terminal_that_stands(terminals: Terminals) -> None:
    first = await terminals.open(ID, NAME, "/", FOREVER)
    again = await terminals.open(ID, NAME, "/", FOREVER)
    assert again == first
    assert len(await terminals.snapshot()) == 1


async def test_ended_terminal_stays_and_is_returned_as_it_is(terminals: Terminals) -> None:
    pane = await terminals.open(ID, NAME, "/", sh("exit 4"))
    await gone(pane.pid)
    assert await terminals.ending(pane) == Exit(4)
    again = await terminals.open(ID, NAME, "/", FOREVER)
    assert (again.pid, again.dead, again.exit) == (pane.pid, True, Exit(4))


async def test_name_of_somebody_else_is_refused_and_left_alone(terminals: Terminals, world: World) -> None:
    world.tmux("new-session", "-d", "-s", NAME, "sleep 1000")
    before = world.tmux("list-panes", "-a", "-F", "#{session_name} #{pane_pid}")
    with pytest.raises(TerminalError, match=NAME):
        await terminals.open(ID, NAME, "/", FOREVER)
    after = world.tmux("list-panes", "-a", "-F", "#{session_name} #{pane_pid}")
    assert [line for line in after if line.startswith(NAME)] == before
    await terminals.close(NAME)
    assert NAME in world.sessions(), "closed what was not ours"


async def test_terminal_of_another_instance_is_not_ours(terminals: Terminals, world: World) -> None:
    async with world.terminals("77777777-1111-4222-8333-444455556666") as others:
        theirs = await others.open(ID, NAME, "/", FOREVER)
        with pytest.raises(TerminalError):
            await terminals.open(ID, NAME, "/", FOREVER)
        assert await terminals.snapshot() == {}
        assert await terminals.session_of_tty(theirs.tty) is None
        await terminals.close(NAME)
        assert await others.snapshot() == {ID: theirs}


@pytest.mark.parametrize("name", ["a:b", "a.b", "", "a b", "#{pid}", "*"])
async def test_name_that_would_mean_something_else_is_refused(terminals: Terminals, name: str) -> None:
    with pytest.raises(TerminalError):
        await terminals.open(ID, name, "/", FOREVER)


async def test_fifty_opened_at_once_all_run(terminals: Terminals) -> None:
    wanted = {f"{n:08x}": f"command-{n:08x}" for n in range(50)}
    panes = await asyncio.gather(*(terminals.open(key, name, "/", FOREVER) for key, name in wanted.items()))
    found = await terminals.snapshot()
    assert {key: pane.name for key, pane in found.items()} == wanted
    assert len({pane.pid for pane in panes}) == 50
    assert all(os.path.exists(f"/proc/{pane.pid}") for pane in panes)


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
async def test_working_directory_and_arguments_arrive_as_they_are(
    terminals: Terminals, world: World, directory: str
) -> None:
    working_dir = world.home / directory
    working_dir.mkdir()
    out = world.home / "out"
    script = f'{{ /bin/pwd; printf "%s\\0" "$@"; }} > {out}.new; mv {out}.new {out}'
    await terminals.open(ID, NAME, str(working_dir), ("/bin/sh", "-c", script, "sh", directory, "", "last;"))
    await until(out.exists)
    # /bin/pwd, since the shell's own believes the PWD it was given.
    pwd, _, arguments = out.read_bytes().decode().partition("\n" if "\n" not in directory else "here\n")
    if "\n" in directory:
        pwd += "here"
    assert pwd == str(working_dir)
    assert arguments.split("\0") == [directory, "", "last;", ""]
    assert not list(world.home.rglob("pwned"))


async def test_one_argument_is_a_program_and_no_command_line(terminals: Terminals, world: World) -> None:
    program = world.home / "exit 5; it"
    program.write_text("#!/bin/sh\nexit 6\n")
    program.chmod(0o700)
    pane = await terminals.open(ID, NAME, "/", (str(program),))
    await gone(pane.pid)
    assert await terminals.ending(pane) == Exit(6)


async def test_hundred_that_exit_at_once_all_keep_their_code(terminals: Terminals, world: World) -> None:
    go = world.home / "go"
    os.mkfifo(go)

    def script(code: int) -> tuple[str, str, str]:
        return sh(f"read line < {go}; exit {code}")

    panes = await asyncio.gather(
        *(terminals.open(f"{n:08x}", f"command-{n:08x}", "/", script(n)) for n in range(100))
    )
    # The case of agents that lived for a while: no helper of the start is left whose own end would make
    # tmux look at the others.
    server = world.server_pid()
    await until(lambda: b"sleep\x001\x00" not in commands_below(server))
    with go.open("w"):  # opens when all of them wait, and closing it ends every `read`
        pass

    async def end_of(pane: Pane) -> Exit:
        await gone(pane.pid)
        return await terminals.ending(pane)

    assert await asyncio.gather(*(end_of(pane) for pane in panes)) == [Exit(n) for n in range(100)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_death_by_signal_names_the_signal(terminals: Terminals, number: signal.Signals) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    os.kill(pane.pid, number)
    await gone(pane.pid)
    assert await terminals.ending(pane) == Exit(signal=number)
    assert (await terminals.snapshot())[ID].exit == Exit(signal=number)


@pytest.mark.parametrize(
    ("kill", "error"), [(("kill-session", "-t", f"={NAME}"), NoTerminal), (("kill-server",), NoServer)]
)
async def test_ending_tells_a_terminal_that_went_from_a_server_that_went(
    terminals: Terminals, world: World, kill: tuple[str, ...], error: type[Exception]
) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    world.tmux(*kill)
    await gone(pane.pid)
    with pytest.raises(error):
        await terminals.ending(pane)


async def test_ending_does_not_take_another_servers_pane_for_this_one(
    terminals: Terminals, world: World
) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    world.tmux("kill-server")
    await gone(pane.pid)
    await until(lambda: not world.sessions())
    other = await terminals.open(ID, NAME, "/", sh("exit 9"))
    assert other.pane_id == pane.pane_id
    with pytest.raises(NoServer):  # nobody has closed it: it went with all others
        await terminals.ending(pane)


async def test_a_server_says_since_when_it_runs(terminals: Terminals, world: World) -> None:
    with pytest.raises(NoServer):
        await terminals.since()
    before = time.time()
    await terminals.open(ID, NAME, "/", FOREVER)
    assert int(before) <= await terminals.since() <= time.time()


async def test_closed_terminal_is_gone_and_closing_again_is_fine(terminals: Terminals) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    await terminals.open("99999999", "command-99999999", "/", FOREVER)
    await terminals.close(NAME)
    await terminals.close(NAME)
    await gone(pane.pid)
    assert set(await terminals.snapshot()) == {"99999999"}


@pytest.mark.parametrize("call", ["capture", "type_line"])
async def test_terminal_that_is_not_there_is_no_terminal(terminals: Terminals, call: str) -> None:
    # One whose name begins with the wanted one must not be taken for it.
    await terminals.open("11111111", NAME + "1", "/", FOREVER)
    with pytest.raises(NoTerminal):
        await (terminals.capture(NAME, 5) if call == "capture" else terminals.type_line(NAME, "x"))


async def test_the_terminal_of_an_ended_agent_names_nobody(terminals: Terminals) -> None:
    """The kernel gives its number to the next terminal."""
    first = await terminals.open(ID, NAME, "/", sh("exit 0"))
    await gone(first.pid)
    await terminals.ending(first)
    for number in range(20):
        other = f"2222{number:04d}"
        pane = await terminals.open(other, f"command-{other}", "/", FOREVER)
        assert await terminals.session_of_tty(pane.tty) == other
        if pane.tty == first.tty:
            return
    assert await terminals.session_of_tty(first.tty) is None


async def test_tty_of_any_pane_in_the_session_names_it(terminals: Terminals, world: World) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    split = world.tmux("split-window", "-t", f"={NAME}:", "-P", "-F", "#{pane_tty}", "sleep 1000")
    window = world.tmux("new-window", "-t", f"={NAME}:", "-P", "-F", "#{pane_tty}", "sleep 1000")
    foreign = world.tmux("new-session", "-d", "-P", "-F", "#{pane_tty}", "sleep 1000")
    for tty in (pane.tty, *split, *window):
        assert await terminals.session_of_tty(tty) == ID
    for tty in (*foreign, "/dev/pts/9999", "/dev/null", "?", "", "#{pane_tty}", "/dev/pts/1,x"):
        assert await terminals.session_of_tty(tty) is None


async def test_agents_pane_is_found_whatever_a_person_opens_beside_it(
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
