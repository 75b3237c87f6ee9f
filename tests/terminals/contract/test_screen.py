"""The contract of Screen: the text of terminals."""

import os
import pty
import signal
import subprocess

from sm.terminals.base import Terminals
from tests.terminals.contract.samples import FOREVER, ID, NAME, ends_with, gone
from tests.terminals.world import World, sh, until, until_async


async def test_capture_returns_the_last_lines_of_history_and_screen(terminals: Terminals) -> None:
    await terminals.open(ID, NAME, "/", sh("seq 1 900; echo; echo '  end  '; echo; sleep 1000"))
    await until_async(lambda: ends_with(terminals, "  end"))
    assert await terminals.capture(NAME, 3) == ["900", "", "  end"]
    assert await terminals.capture(NAME, 400) == [str(n) for n in range(503, 901)] + ["", "  end"]
    assert len(await terminals.capture(NAME, 5000)) == 902
    assert await terminals.capture(NAME, 0) == []


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
    os.kill(pane.pid, signal.SIGKILL)
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


async def test_attach_command_attaches_a_client_to_the_terminal(terminals: Terminals, world: World) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    master, slave = pty.openpty()
    # As inside another tmux with another socket directory: neither may affect the command.
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": str(world.home)}
    person = subprocess.Popen(
        terminals.attach_command(NAME),
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    try:
        await until(lambda: NAME in "".join(world.tmux("list-clients", "-F", "#{session_name}\n")))
        shown = (await terminals.snapshot())[ID]
        assert (shown.pid, pane.viewed, shown.viewed) == (pane.pid, False, True)
    finally:
        world.run("detach-client", "-s", f"={NAME}")
        os.close(master)
        os.close(slave)
        person.wait(20)
