"""tmux terminals under foreign configuration, after crashes, and next to sessions of other owners."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sm.config.model import TmuxSection
from sm.core.models import Exit
from sm.errors import NoServer, NoTerminal, TerminalError, TerminalUnreachable
from sm.terminals.base import Busy, ForeignPane, Pane
from sm.terminals.tmux import keys
from sm.terminals.tmux.keys import TmuxKeyboard
from sm.terminals.tmux.lookup import Finder
from sm.terminals.tmux.terminals import Tmux
from tests.terminals.contract.samples import FOREVER, ID, NAME, ends_with
from tests.terminals.world import INSTANCE, World, ended, sh, until, until_async

HOSTILE = {
    "plain": "",
    "base-index": "set -g base-index 1\nsetw -g pane-base-index 1\nset -g renumber-windows on",
    # A shell that exits at once: it runs only if the agent was not exec'ed directly.
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
    "configured sessions": "new-session -d -s mine\nnew-session -d -s other",
}
HOSTILE["all at once"] = "\n".join(
    conf for key, conf in HOSTILE.items() if key != "default-shell that goes missing"
)


def marked_panes(world: World) -> dict[str, str]:
    """Pane ids by session id, from sm's markers as libtmux reads them."""
    format = "pane #{@sm_session_id} #{pane_id}"
    lines = [line.split() for line in world.tmux("list-panes", "-a", "-f", "#{@sm_agent}", "-F", format)]
    return {line[1]: line[2] for line in lines if line[0] == "pane"}  # a hook prints here too


@pytest.fixture(params=HOSTILE)
async def hostile(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World(None, HOSTILE[request.param])
    fish = world.home / "fish"
    fish.write_text("#!/bin/sh\nexit 97\n")
    fish.chmod(0o700)
    yield world
    await world.end()


async def test_terminals_work_under_a_hostile_tmux_configuration(hostile: World) -> None:
    async with hostile.terminals() as tmux:
        script = "echo started; read line; echo got $line; exit 7"
        pane = await tmux.open(ID, NAME, "/", sh(script))
        other = await tmux.open("99999999", "command-99999999", "/", FOREVER)
        assert os.path.exists(f"/proc/{other.pid}")
        assert marked_panes(hostile) == {ID: pane.pane_id, "99999999": other.pane_id}
        assert {key: p.pid for key, p in (await tmux.snapshot()).items()} == {
            ID: pane.pid,
            "99999999": other.pid,
        }
        assert await tmux.session_of_tty(pane.tty) == ID
        (shape,) = hostile.tmux(
            "display-message", "-p", "-t", pane.pane_id, "#{window_width} #{history_limit}"
        )
        assert shape.split()[1] == "5000"
        # A user's hook may split the window, so its width is that of the whole window.
        assert shape.split()[0] == "200"
        await tmux.type_line(NAME, "this")

        async def has_answer() -> bool:
            return (await tmux.capture(NAME, 1)) == ["got this"]

        await until_async(has_answer)
        await until(lambda: ended(pane.pid))
        assert await tmux.exit_status(pane) == Exit(7)
        assert (await tmux.capture(NAME, 50))[-1] == "got this"
        await tmux.close(NAME)
        await tmux.close("command-99999999")
        await until(lambda: ended(other.pid))
        assert await tmux.snapshot() == {}
        await tmux.retire()
    left = hostile.run("list-sessions", "-F", "#{@sm_instance}#{@sm_terminal}").stdout
    assert INSTANCE not in left


async def test_users_options_hooks_environment_and_buffers_stay_unchanged(world: World) -> None:
    def settings() -> list[list[str]]:
        scopes = [["-g"], ["-gw"], ["-s"], ["-t", "=mine:"], ["-w", "-t", "=mine:"]]
        options = [world.tmux("show-options", *scope) for scope in scopes]
        return [*options, world.tmux("show-hooks", "-g"), world.tmux("show-environment", "-g")]

    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    before = settings()
    buffers = world.tmux("list-buffers")
    async with world.terminals() as tmux:
        tmux.on_activity(lambda moved: None)
        await tmux.open(ID, NAME, "/", FOREVER)
        await tmux.type_line(NAME, "hello")
        await tmux.capture(NAME, 10)
        assert settings() == before
        await tmux.close(NAME)
        await tmux.retire()
    assert settings() == before
    assert world.tmux("list-buffers") == buffers
    assert world.sessions() == ["mine"]


async def test_terminal_is_one_window_with_one_pane_and_the_options_of_sm(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)

    def windows() -> list[str]:
        format = "#{pane_id} #{window_index} #{window_name} #{window_width}x#{window_height} #{session_name}"
        return [line for line in world.tmux("list-panes", "-a", "-F", format) if NAME in line]

    assert windows() == [f"{pane.pane_id} 0 {NAME} 200x50 {NAME}"]
    assert world.tmux("show-options", "-v", "-t", f"={NAME}:", "destroy-unattached") == ["off"]
    assert world.tmux("show-options", "-v", "-t", f"={NAME}:", "@sm_instance") == [INSTANCE]
    assert world.tmux("show-options", "-v", "-t", f"={NAME}:", "@sm_session_id") == [ID]
    assert world.tmux("show-hooks", "-t", f"={NAME}:") == []
    of_window = world.tmux("show-options", "-w", "-t", f"={NAME}:")
    assert {"allow-rename off", "automatic-rename off", "window-size latest"} <= set(of_window)


async def test_window_keeps_the_title_when_the_program_or_the_users_options_rename_windows(
    world: World, tmux: Tmux
) -> None:
    await tmux.open("99999999", "command-99999999", "/", FOREVER)  # starts the server
    world.tmux("set-option", "-gw", "automatic-rename", "on")
    world.tmux("set-option", "-gw", "allow-rename", "on")
    script = ("sh", "-c", r"read line; printf '\033kevil\033\\'; echo renamed; exec sleep 1000")
    pane = await tmux.open(ID, NAME, "/", script, title="engineer-login")
    await tmux.type_line(NAME, "go")

    async def printed() -> bool:
        return "renamed" in await tmux.capture(NAME, 10)

    await until_async(printed, "the program has tried to rename its window")
    assert world.tmux("display-message", "-p", "-t", pane.pane_id, "#{window_name} #{session_name}") == [
        f"engineer-login {NAME}"
    ]


async def test_title_is_shown_without_running_commands_or_styles(world: World, tmux: Tmux) -> None:
    evil = f"x-#(touch {world.home}/ran)-#[fg=red]-#{{pid}}-#S"
    pane = await tmux.open(ID, NAME, "/", FOREVER, title=evil)
    show = ("display-message", "-p", "-t", pane.pane_id)
    shown = evil.replace("#", "_")
    assert world.tmux(*show, "#{window_name}") == world.tmux(*show, "#{E:window_name}") == [shown]
    assert not (world.home / "ran").exists()


async def test_terminal_is_still_used_when_a_person_renamed_its_session(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("rename-session", "-t", f"={NAME}:", "my pet")
    assert (await tmux.snapshot())[ID].pid == pane.pid
    assert tmux.attach_command(NAME)[-1] == "=my pet:"
    assert (await tmux.open(ID, NAME, "/", FOREVER)).pid == pane.pid
    await tmux.type_line(NAME, "x")
    await tmux.close(NAME)
    await until(lambda: ended(pane.pid))


@pytest.mark.parametrize(
    "hook", ["hook renames new session", "hook renames created session", "hook renames renamed window"]
)
async def test_attach_command_uses_the_new_name_when_a_hook_renamed_the_session(hook: str) -> None:
    world = World(None, HOSTILE[hook])
    try:
        async with world.terminals() as tmux:
            for id, name in ((ID, NAME), ("99999999", "command-99999999")):
                pane = await tmux.open(id, name, "/", FOREVER)
                (called,) = world.tmux("display-message", "-p", "-t", pane.pane_id, "#{session_name}")
                await until(lambda: tmux.attach_command(name)[-1] == f"={called}:")  # noqa: B023
    finally:
        await world.end()


async def test_terminal_is_still_used_when_a_person_moved_its_pane(world: World, tmux: Tmux) -> None:
    world.tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("join-pane", "-s", pane.pane_id, "-t", "=mine:")
    assert (await tmux.snapshot())[ID].pid == pane.pid
    assert await tmux.session_of_tty(pane.tty) == ID
    await tmux.close(NAME)
    await until(lambda: ended(pane.pid))
    assert "mine" in world.sessions()


async def test_pane_id_of_another_terminal_is_not_taken_for_the_last_known_one(
    world: World, tmux: Tmux
) -> None:
    """Two terminals exchange their marks, as after a restart of tmux, which gives out the same ids again."""
    panes = [(await tmux.open(f"{n:08x}", f"command-{n:08x}", "/", FOREVER)).pane_id for n in range(2)]
    tags = [world.tmux("show-options", "-p", "-v", "-t", pane, "@sm_agent")[0] for pane in panes]
    for pane, tag in zip(panes, reversed(tags), strict=True):
        world.tmux("set-option", "-p", "-t", pane, "@sm_agent", tag)
    world.tmux("send-keys", "-t", panes[0], "first", "")
    assert await until_async(lambda: tmux.capture("command-00000001", 5)) == ["first"]
    assert await tmux.capture("command-00000000", 5) == []


async def test_close_ends_the_pane_when_a_grouped_session_also_shows_it(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("new-session", "-d", "-s", "beside", "-t", f"={NAME}")
    assert set(await tmux.snapshot()) == {ID}
    await tmux.close(NAME)
    await until(lambda: ended(pane.pid))
    assert await tmux.snapshot() == {}


async def test_open_refuses_a_terminal_without_its_agent_pane(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    world.tmux("new-window", "-t", f"={NAME}:", "sleep 1000")
    world.tmux("kill-pane", "-t", pane.pane_id)
    assert await tmux.snapshot() == {}
    with pytest.raises(TerminalError, match="has no agent"):
        await tmux.open(ID, NAME, "/", FOREVER)
    await tmux.close(NAME)
    assert NAME not in world.sessions()
    assert (await tmux.open(ID, NAME, "/", FOREVER)).pid != pane.pid


async def test_open_completes_a_terminal_that_a_crash_left_half_made(world: World, tmux: Tmux) -> None:
    world.tmux("new-session", "-d", "-s", NAME, "sleep 1000")
    world.tmux("set-option", "-t", f"={NAME}:", "@sm_terminal", f"{INSTANCE} {ID} {NAME}")
    assert await tmux.snapshot() == {}, "no agent runs in the terminal yet"
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    assert marked_panes(world) == {ID: pane.pane_id}


async def test_close_removes_a_half_made_terminal(world: World, tmux: Tmux) -> None:
    world.tmux("new-session", "-d", "-s", NAME, "sleep 1000")
    world.tmux("set-option", "-t", f"={NAME}:", "@sm_terminal", f"{INSTANCE} {ID} {NAME}")
    await tmux.close(NAME)
    assert NAME not in world.sessions()


async def test_open_leaves_no_session_when_tmux_refuses_it(world: World) -> None:
    async with world.terminals() as tmux:
        await tmux.open("99999999", "command-99999999", "/", FOREVER)
    # In sequence: an instance has one connection, and a second one ends the first.
    settings = TmuxSection().model_copy(update={"history_limit": -1})  # no validation
    async with Tmux(INSTANCE, settings, world.environment) as impossible:
        with pytest.raises(TerminalError, match=NAME):
            await impossible.open(ID, NAME, "/", FOREVER)
        assert NAME not in world.sessions()
        assert set(await impossible.snapshot()) == {"99999999"}


@pytest.mark.parametrize("turns", range(12))
async def test_open_leaves_no_terminal_when_it_is_cancelled(world: World, tmux: Tmux, turns: int) -> None:
    await tmux.open("99999999", "command-99999999", "/", FOREVER)
    opening = asyncio.ensure_future(tmux.open(ID, NAME, "/", FOREVER))
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert NAME not in world.sessions()
    assert set(await tmux.snapshot()) == {"99999999"}


async def test_cancelled_open_keeps_an_existing_terminal(world: World, tmux: Tmux) -> None:
    pane = await tmux.open(ID, NAME, "/", FOREVER)
    opening = asyncio.ensure_future(tmux.open(ID, NAME, "/", FOREVER))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert (await tmux.snapshot())[ID].pid == pane.pid


async def test_next_daemon_finds_the_existing_terminals(world: World) -> None:
    async with world.terminals() as first:
        pane = await first.open(ID, NAME, "/", FOREVER)
    async with world.terminals() as second:
        assert await second.snapshot() == {ID: pane}
        await second.close(NAME)


async def test_retire_ends_the_server_when_no_terminal_is_left(world: World) -> None:
    async with world.terminals() as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
        server = world.server_pid()
        await tmux.close(NAME)
        await tmux.retire()
        await until(lambda: ended(server))
        with pytest.raises(NoServer):
            await tmux.snapshot()
        await tmux.retire()


async def test_retire_keeps_the_keeper_session_when_terminals_are_left(world: World) -> None:
    async with world.terminals() as tmux:
        await tmux.open(ID, NAME, "/", FOREVER)
        await tmux.retire()
    assert {NAME, "sm-0b5e55ed"} <= set(world.sessions())


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def in_foreground(world: World, pane_id: str, program: str) -> bool:
    return world.tmux("display-message", "-p", "-t", pane_id, "#{pane_current_command}") == [program]


@pytest.mark.parametrize("call", ["paste", "press"])
async def test_nothing_is_typed_when_the_process_ends_between_the_look_up_and_the_key(
    world: World, tmux: Tmux, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """`paste-buffer` into a pane whose process has ended crashes tmux 3.3a, with all terminals."""
    pane = await tmux.open(ID, NAME, "/", sh("stty -echo; printf half; read line; exit 3"))
    await until_async(lambda: ends_with(tmux, "half"))
    find = Finder.find_running

    async def find_and_wait(finder: Finder, name: str) -> Pane:
        found = await find(finder, name)
        world.tmux("send-keys", "-t", pane.pane_id, "Enter")
        await tmux.exit_status(found)
        return found

    monkeypatch.setattr(Finder, "find_running", find_and_wait)
    with pytest.raises(NoTerminal):
        await getattr(tmux, call)(NAME, "Enter" if call == "press" else "half")
    assert world.server_pid() == pane.server_pid
    assert await tmux.capture(NAME, 5) == ["half"]


@pytest.mark.parametrize("call", ["paste", "press"])
@pytest.mark.parametrize("seen", ["before the look-up", "after it"])
async def test_nothing_is_typed_into_the_shell_around_an_adopted_agent_that_has_ended(
    world: World, tmux: Tmux, monkeypatch: pytest.MonkeyPatch, seen: str, call: str
) -> None:
    """A person's shell would run each line of a pasted text."""
    (shell,) = world.tmux(
        "new-session", "-d", "-s", "mine", "-P", "-F", "#{pane_id} #{pane_pid}", "exec sh -i"
    )
    pane_id, shell_pid = shell.split()
    world.tmux("send-keys", "-t", pane_id, "exec 2> /dev/null; cat > /dev/null", "Enter")
    (agent,) = await until(lambda: children(int(shell_pid)))
    await until_async(lambda: in_foreground(world, pane_id, "cat"))
    await tmux.adopt(ID, NAME, ForeignPane(pane_id, int(shell_pid)), foreign=True, agent_pid=agent)
    await tmux.paste(NAME, "for the agent")
    made = world.home / "made"
    find = Finder.find_running

    async def end() -> None:
        os.kill(agent, signal.SIGKILL)
        await until_async(lambda: in_foreground(world, pane_id, "sh"))
        world.tmux("send-keys", "-t", pane_id, "-l", f"touch {made}")  # Enter would run it

    async def find_and_end(finder: Finder, name: str) -> Pane:
        found = await find(finder, name)
        if seen == "after it":
            await end()
            # What the daemon knows may be older than what tmux sees.
            monkeypatch.setattr(keys, "_has_terminal", lambda pid: True)
        return found

    if seen == "before the look-up":
        await end()
    monkeypatch.setattr(Finder, "find_running", find_and_end)
    answer = await getattr(tmux, call)(NAME, "Enter" if call == "press" else f"\ntouch {made}\n")
    assert answer == Busy(f"another program than the agent has terminal {NAME}")
    world.tmux("send-keys", "-t", pane_id, "C-u")
    world.tmux("send-keys", "-t", pane_id, f"touch {made}-by-its-person", "Enter")
    await until(Path(f"{made}-by-its-person").exists)
    assert not made.exists()


@pytest.mark.parametrize("program", ["two\nlines", "two words", "%end 1 2 3", "#{pid},}:"])
async def test_list_of_terminals_is_readable_when_a_program_has_a_strange_name(
    world: World, tmux: Tmux, program: str
) -> None:
    named = 'exec -a "$NAME" cat'
    (shell,) = world.tmux(
        *("new-session", "-d", "-s", "mine", "-e", f"NAME={program}"),
        *("-P", "-F", "#{pane_id} #{pane_pid}", f"exec bash -c '{named}'"),
    )
    pane_id, pid = shell.split()
    await until(lambda: Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0] == program)
    await tmux.adopt(ID, NAME, ForeignPane(pane_id, int(pid)), foreign=True, agent_pid=int(pid))
    assert (await tmux.snapshot())[ID].pane_id == pane_id
    await tmux.paste(NAME, "for the agent")


async def test_type_line_is_unreachable_when_the_process_ends_between_the_text_and_enter(
    world: World, tmux: Tmux, monkeypatch: pytest.MonkeyPatch
) -> None:
    pane = await tmux.open(ID, NAME, "/", sh("read line; exit 3"))

    async def end_the_process(keyboard: TmuxKeyboard, text: str) -> None:
        world.tmux("send-keys", "-t", pane.pane_id, "Enter")
        await tmux.exit_status(pane)

    monkeypatch.setattr(TmuxKeyboard, "_settle", end_the_process)
    with pytest.raises(TerminalUnreachable, match="has ended, after the text was pasted"):
        await tmux.type_line(NAME, "text")


async def test_input_of_kept_panes_is_off_when_an_older_version_left_them(world: World) -> None:
    async with world.terminals() as tmux:
        pane = await tmux.open(ID, NAME, "/", sh("exit 3"))
        await tmux.exit_status(pane)
        await until_async(lambda: input_is_off(world, pane))
        world.tmux("select-pane", "-e", "-t", pane.pane_id)
    async with world.terminals() as next_daemon:
        await next_daemon.snapshot()
        await until_async(lambda: input_is_off(world, pane))
        world.tmux("select-pane", "-e", "-t", pane.pane_id)
        assert await next_daemon.exit_status(pane) == Exit(3)
        await until_async(lambda: input_is_off(world, pane))


async def input_is_off(world: World, pane: Pane) -> bool:
    return world.tmux("display-message", "-p", "-t", pane.pane_id, "#{pane_input_off}") == ["1"]
