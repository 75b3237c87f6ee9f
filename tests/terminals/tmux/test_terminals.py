"""What is special about tmux: other people's configuration, what is left behind, who made what."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from sm.config.model import TmuxSection
from sm.core.models import Exit
from sm.errors import NoServer, TerminalError
from sm.terminals.tmux.terminals import Tmux
from tests.terminals.world import INSTANCE, World, ended, sh, until, until_async

ID = "1a2b3c4d"
NAME = "command-1a2b3c4d"
FOREVER = sh("exec sleep 1000")

HOSTILE = {
    "plain": "",
    "base-index": "set -g base-index 1\nsetw -g pane-base-index 1\nset -g renumber-windows on",
    # A shell that does nothing but end: whoever runs it has not exec'ed the agent.
    "default-shell": "set -g default-shell /bin/false\nset -g default-command 'exit 98'",
    "default-shell that is missing": "set -g default-shell /usr/bin/no-such-fish",
    "default-shell that goes missing": "set -g default-shell ~/fish\nrun-shell 'rm ~/fish'",
    "destroy-unattached": "set -g destroy-unattached on",
    "detach-on-destroy": "set -g detach-on-destroy off",
    "remain-on-exit off": "set -g remain-on-exit off",
    "remain-on-exit on": "set -g remain-on-exit on\nset -g remain-on-exit-format 'bye'",
    "looks": "set -g mouse on\nset -g status off\nset -g exit-empty on\nset -g visual-activity on",
    "sizes": "set -g window-size smallest\nset -g default-size 60x20\nset -g aggressive-resize on",
    "history": "set -g history-limit 5",
    "environment": "set -g update-environment 'PATH HOME NOTHING'\nset-environment -g TMUX_TMPDIR /nowhere",
    "renamed windows": "setw -g allow-rename on\nsetw -g automatic-rename on",
    "hook renames new session": "set-hook -g after-new-session 'rename-session \"first-#{session_id}\"'",
    "hook renames created session": "set-hook -g session-created 'rename-session \"second-#{session_id}\"'",
    "hook renames renamed window": "set-hook -g window-renamed 'rename-session \"third-#{session_id}\"'",
    "hook splits": "set-hook -g after-new-window 'split-window'\nset-hook -g after-new-session 'split-window -b'",
    "hook makes windows": "set-hook -g after-new-session 'new-window'\nset-hook -g session-created 'new-window'",
    "hook prints": "set-hook -g after-list-panes 'display-message -p hook'\n"
    "set-hook -g after-set-option 'display-message -p hook'",
    "hook fails": "set-hook -g after-new-window 'kill-session -t nobody'\n"
    "set-hook -g after-set-option 'kill-session -t nobody'",
    "hook waits": "set-hook -g after-new-session 'run-shell \"sleep 0.1\"'",
    "broken": "no such command\nset -g no-such-option on",
    "sessions of its own": "new-session -d -s mine\nnew-session -d -s other",
}
HOSTILE["all at once"] = "\n".join(
    conf for key, conf in HOSTILE.items() if key != "default-shell that goes missing"
)


def of_ours(world: World) -> dict[str, str]:
    """Pane ids by session id, as another witness reads the markers."""
    shown = "pane #{@sm_session_id} #{pane_id}"
    lines = [line.split() for line in world.tmux("list-panes", "-a", "-f", "#{@sm_agent}", "-F", shown)]
    return {line[1]: line[2] for line in lines if line[0] == "pane"}  # a hook prints here too


@pytest.fixture(params=HOSTILE)
async def hostile(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World(None, HOSTILE[request.param])
    fish = world.home / "fish"
    fish.write_text("#!/bin/sh\nexit 97\n")
    fish.chmod(0o700)
    yield world
    await world.end()


async def test_main_job_works_under_hostile_configuration(hostile: World) -> None:
    async with hostile.terminals() as tmux:
        script = "echo started; read line; echo got $line; exit 7"
        pane = await tmux.open(ID, NAME, "/", sh(script))
        other = await tmux.open("99999999", "command-99999999", "/", FOREVER)
        assert os.path.exists(f"/proc/{other.pid}")
        assert of_ours(hostile) == {ID: pane.pane_id, "99999999": other.pane_id}
        assert {key: p.pid for key, p in (await tmux.snapshot()).items()} == {
            ID: pane.pid,
            "99999999": other.pid,
        }
        assert await tmux.session_of_tty(pane.tty) == ID
        (shape,) = hostile.tmux(
            "display-message", "-p", "-t", pane.pane_id, "#{window_width} #{history_limit}"
        )
        assert shape.split()[1] == "5000"
        # A hook of the user that splits our window takes half of it, which is theirs to do.
        assert shape.split()[0] == "200"
        await tmux.type_line(NAME, "this")

        async def answered() -> bool:
            return (await tmux.capture(NAME, 1)) == ["got this"]

        await until_async(answered)
        await until(lambda: ended(pane.pid))
        assert await tmux.ending(pane) == Exit(7)
        assert (await tmux.capture(NAME, 50))[-1] == "got this"
        await tmux.close(NAME)
        await tmux.close("command-99999999")
        await until(lambda: ended(other.pid))
        assert await tmux.snapshot() == {}
        await tmux.retire()
    left = hostile.run("list-sessions", "-F", "#{@sm_instance}#{@sm_terminal}").stdout
    assert INSTANCE not in left


async def test_nothing_of_the_users_is_changed(world: World) -> None:
    def everything() -> list[list[str]]:
        whose = [["-g"], ["-gw"], ["-s"], ["-t", "=mine:"], ["-w", "-t", "=mine:"]]
        shown = [world.tmux("show-options", *which) for which in whose]
        return [*shown, world.tmux("show-hooks", "-g"), world.tmux("show-environment", "-g")]

    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    before = everything()
    buffers = world.tmux("list-buffers")
    async with world.terminals() as tmux:
        tmux.on_activity(lambda moved: None)
        await tmux.open(ID, NAME, "/", FOREVER)
        await tmux.type_line(NAME, "hello")
        await tmux.capture(NAME, 10)
        assert everything() == before
        await tmux.close(NAME)
        await tmux.retire()
    assert everything() == before
    assert world.tmux("list-buffers") == buffers
    assert world.sessions() == ["mine"]


async def test_terminal_is_one_window_with_one_pane_and_our_options(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)

    def windows() -> list[str]:
        shown = "#{pane_id} #{window_index} #{window_name} #{window_width}x#{window_height} #{session_name}"
        return [line for line in world.tmux("list-panes", "-a", "-F", shown) if NAME in line]

    # The placeholder goes when the caller has long had its answer.
    await until(lambda: len(windows()) == 1)
    assert windows() == [f"{pane.pane_id} 0 {NAME} 200x50 {NAME}"]
    assert world.tmux("show-options", "-v", "-t", f"={NAME}:", "destroy-unattached") == ["off"]
    assert world.tmux("show-options", "-v", "-t", f"={NAME}:", "@sm_instance") == [INSTANCE]
    assert world.tmux("show-options", "-v", "-t", f"={NAME}:", "@sm_session_id") == [ID]
    assert world.tmux("show-hooks", "-t", f"={NAME}:") == []
    of_window = world.tmux("show-options", "-w", "-t", f"={NAME}:")
    assert {"allow-rename off", "automatic-rename off", "window-size latest"} <= set(of_window)


async def test_session_that_a_person_renamed_is_still_ours(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("rename-session", "-t", f"={NAME}:", "my pet")
    assert (await tmux.snapshot())[ID].pid == pane.pid
    assert tmux.attach_command(NAME)[-1] == "=my pet:"
    assert (await tmux.open(ID, NAME, "/", FOREVER)).pid == pane.pid
    await tmux.type_line(NAME, "x")
    await tmux.close(NAME)
    await until(lambda: ended(pane.pid))


@pytest.mark.parametrize("hook", ["hook renames new session", "hook renames created session"])
async def test_attach_command_knows_at_once_what_a_hook_made_of_the_name(hook: str) -> None:
    world = World(None, HOSTILE[hook])
    try:
        async with world.terminals() as tmux:
            for id, name in ((ID, NAME), ("99999999", "command-99999999")):
                pane = await tmux.open(id, name, "/", FOREVER)
                (called,) = world.tmux("display-message", "-p", "-t", pane.pane_id, "#{session_name}")
                assert tmux.attach_command(name)[-1] == f"={called}:"
    finally:
        await world.end()


async def test_pane_that_a_person_moved_into_their_own_session_is_still_ours(
    world: World, tmux: Tmux
) -> None:
    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("join-pane", "-s", pane.pane_id, "-t", "=mine:")
    assert (await tmux.snapshot())[ID].pid == pane.pid
    assert await tmux.session_of_tty(pane.tty) == ID
    await tmux.close(NAME)
    await until(lambda: ended(pane.pid))
    assert "mine" in world.sessions()


async def test_closing_ends_the_pane_that_a_grouped_session_holds_too(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("new-session", "-d", "-s", "beside", "-t", f"={NAME}")
    assert set(await tmux.snapshot()) == {ID}
    await tmux.close(NAME)
    await until(lambda: ended(pane.pid))
    assert await tmux.snapshot() == {}


async def test_terminal_without_its_agents_pane_is_not_opened_over(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("new-window", "-t", f"={NAME}:", "sleep 1000")
    world.tmux("kill-pane", "-t", pane.pane_id)
    assert await tmux.snapshot() == {}
    with pytest.raises(TerminalError, match="without its agent"):
        await tmux.open(ID, NAME, "/", FOREVER)
    await tmux.close(NAME)
    assert NAME not in world.sessions()
    assert (await tmux.open(ID, NAME, "/", FOREVER)).pid != pane.pid


async def test_terminal_that_was_half_made_when_we_died_is_made_again(world: World, tmux: Tmux) -> None:
    world.tmux("new-session", "-d", "-s", NAME, "sleep 1000")
    world.tmux("set-option", "-t", f"={NAME}:", "@sm_terminal", f"{INSTANCE} {ID} {NAME}")
    assert await tmux.snapshot() == {}, "no agent was started in it"
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    assert of_ours(world) == {ID: pane.pane_id}


async def test_terminal_that_was_half_made_can_be_closed(world: World, tmux: Tmux) -> None:
    world.tmux("new-session", "-d", "-s", NAME, "sleep 1000")
    world.tmux("set-option", "-t", f"={NAME}:", "@sm_terminal", f"{INSTANCE} {ID} {NAME}")
    await tmux.close(NAME)
    assert NAME not in world.sessions()


async def test_open_that_tmux_refuses_leaves_nothing(world: World) -> None:
    async with world.terminals() as tmux:
        await tmux.open("99999999", "command-99999999", "/", FOREVER)
    # One after the other: an instance has one connection, and a second one ends the first.
    settings = TmuxSection().model_copy(update={"history_limit": -1})  # no validation
    async with Tmux(INSTANCE, settings, world.environment) as impossible:
        with pytest.raises(TerminalError, match=NAME):
            await impossible.open(ID, NAME, "/", FOREVER)
        assert NAME not in world.sessions()
        assert set(await impossible.snapshot()) == {"99999999"}


@pytest.mark.parametrize("turns", range(12))
async def test_cancelled_open_leaves_no_terminal(world: World, tmux: Tmux, turns: int) -> None:
    await tmux.open("99999999", "command-99999999", "/", FOREVER)
    opening = asyncio.ensure_future(tmux.open(ID, NAME, "/", FOREVER))
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert NAME not in world.sessions()
    assert set(await tmux.snapshot()) == {"99999999"}


async def test_cancelled_open_spares_the_terminal_that_stood_before(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    opening = asyncio.ensure_future(tmux.open(ID, NAME, "/", FOREVER))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert (await tmux.snapshot())[ID].pid == pane.pid


async def test_terminals_are_found_again_by_the_next_daemon(world: World) -> None:
    async with world.terminals() as first:
        pane = await first.open(ID, NAME, "/", FOREVER)
    async with world.terminals() as second:
        assert await second.snapshot() == {ID: pane}
        await second.close(NAME)


async def test_retiring_leaves_no_session_and_no_server(world: World) -> None:
    async with world.terminals() as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
        server = world.server_pid()
        await tmux.close(NAME)
        await tmux.retire()
        await until(lambda: ended(server))
        with pytest.raises(NoServer):
            await tmux.snapshot()
        await tmux.retire()


async def test_retiring_spares_terminals_and_the_keeper_with_them(world: World) -> None:
    async with world.terminals() as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
        await tmux.retire()
    assert {NAME, "sm-0b5e55ed"} <= set(world.sessions())
