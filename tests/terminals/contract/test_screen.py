"""The contract of Screen: the text of terminals."""

import os
import pty
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from sm.terminals.base import Terminals
from tests.terminals.contract.samples import FOREVER, ID, NAME, ends_with, gone, kill
from tests.terminals.world import World, sh, until, until_async


async def test_capture_returns_the_last_lines_of_history_and_screen(terminals: Terminals) -> None:
    await terminals.open(ID, NAME, "/", sh("seq 1 900; echo; echo '  end  '; echo; sleep 1000"))
    await until_async(lambda: ends_with(terminals, "  end"))
    assert await terminals.capture(NAME, 3) == ["900", "", "  end"]
    assert await terminals.capture(NAME, 400) == [str(n) for n in range(503, 901)] + ["", "  end"]
    assert len(await terminals.capture(NAME, 5000)) == 902
    assert await terminals.capture(NAME, 0) == []


@pytest.mark.tmux_only("wrapped lines of tmux")
async def test_capture_joins_wrapped_lines(terminals: Terminals) -> None:
    long = "x" * 999
    await terminals.open(
        ID, NAME, "/", sh(f"for i in $(seq 40); do echo ${{i}}{long}; done; echo end; sleep 1000")
    )
    await until_async(lambda: ends_with(terminals, "end"))
    assert await terminals.capture(NAME, 31) == [f"{n}{long}" for n in range(11, 41)] + ["end"]


async def test_capture_shows_only_the_output_when_the_agent_has_ended(terminals: Terminals) -> None:
    pane = await terminals.open(ID, NAME, "/", sh("echo one; printf two; exec sleep 1000"))
    await until_async(lambda: ends_with(terminals, "two"))
    kill(pane.pid, signal.SIGKILL)
    await gone(pane.pid)
    await terminals.exit_status(pane)
    assert await terminals.capture(NAME, 10) == ["one", "two"]


async def test_capture_styled_keeps_escape_sequences_and_capture_visible_drops_them(
    terminals: Terminals,
) -> None:
    await terminals.open(ID, NAME, "/", sh(r"printf 'a \033[2mdim\033[0m b'; exec sleep 1000"))
    await until_async(lambda: ends_with(terminals, "a dim b"))
    assert (await terminals.capture_styled(NAME))[0].startswith("a \x1b[2mdim\x1b[0m")
    assert (await terminals.capture_visible(NAME))[0] == "a dim b"
    assert len(await terminals.capture_styled(NAME)) == len(await terminals.capture_visible(NAME))


@asynccontextmanager
async def attached(terminals: Terminals, world: World, name: str) -> AsyncIterator[int]:
    """A person's terminal that shows terminal `name`: the descriptor of its output."""
    master, slave = pty.openpty()
    # As inside another tmux with another socket directory: neither may affect the command.
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": str(world.home)}
    person = subprocess.Popen(
        terminals.attach_command(name),
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    try:
        await until(lambda: name in "".join(world.tmux("list-clients", "-F", "#{session_name}\n")))
        yield master
    finally:
        world.run("detach-client", "-s", f"={name}")
        os.close(master)
        os.close(slave)
        person.wait()


@pytest.mark.tmux_only("a person with a terminal")
async def test_attach_command_attaches_a_client_to_the_terminal(terminals: Terminals, world: World) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    async with attached(terminals, world, NAME):
        shown = (await terminals.snapshot())[ID]
        assert (shown.pid, pane.viewed, shown.viewed) == (pane.pid, False, True)


@pytest.mark.tmux_only("a person with a terminal")
async def test_show_line_reaches_only_the_people_at_the_terminal(terminals: Terminals, world: World) -> None:
    mark = world.home / "ran"
    line = f"you typed: #(touch {mark}) #{{pid}} %H; "
    other = "command-5e6f7a8b"
    await terminals.open(ID, NAME, "/", FOREVER)
    await terminals.open("5e6f7a8b", other, "/", FOREVER)
    await terminals.show_line(NAME, "nobody sees it")
    async with attached(terminals, world, NAME) as screen, attached(terminals, world, other) as elsewhere:
        await terminals.show_line(NAME, line)
        await terminals.show_line(other, "the end")
        assert line.encode() in await output_until(screen, b"%H;")
        assert b"you typed" not in await output_until(elsewhere, b"the end")
    assert not mark.exists()


@pytest.mark.tmux_only("a person with a terminal")
async def test_key_pause_is_not_longer_than_the_time_since_a_persons_key(
    terminals: Terminals, world: World
) -> None:
    await terminals.open(ID, NAME, "/", sh("exec cat"))
    await terminals.press(NAME, "x")
    assert await terminals.key_pause_s(NAME) == float("inf"), "nobody is attached"
    async with attached(terminals, world, NAME) as screen:
        before_s = time.time()
        os.write(screen, b"k")
        await until_async(lambda: ends_with(terminals, "xk"))
        pause_s = await terminals.key_pause_s(NAME)
        assert pause_s <= time.time() - before_s
        world.tmux("split-window", "-t", f"={NAME}:", "sleep 1000")
        assert await terminals.key_pause_s(NAME) == float("inf"), "keys go to another pane"


async def output_until(terminal: int, words: bytes) -> bytes:
    """The output of a person's terminal up to `words`."""
    found = bytearray()
    os.set_blocking(terminal, False)

    def shown() -> bool:
        with suppress(BlockingIOError):
            found.extend(os.read(terminal, 65536))
        return words in found

    await until(shown)
    return bytes(found)
