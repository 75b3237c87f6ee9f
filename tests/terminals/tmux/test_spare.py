"""The spare tmux session for the next agent: it saves time, and nothing depends on it."""

import asyncio
import contextlib

import pytest

from sm.errors import TerminalError, TerminalUnreachable
from sm.terminals.tmux.terminals import Tmux
from tests.terminals.contract.samples import FOREVER
from tests.terminals.world import World, ended, until, until_async

FIRST = ("11111111", "command-11111111", "/", FOREVER)
SECOND = ("22222222", "command-22222222", "/", FOREVER)


async def spare_of(world: World) -> str:
    """Wait until the spare session has its empty pane; return its name."""
    spare = ("-f", "#{m:sm-spare-*,#{session_name}}")

    def ready() -> list[str]:
        panes = world.tmux("list-panes", "-a", *spare, "-F", "#{session_name} #{pane_dead}")
        return [line.removesuffix(" 1") for line in panes if panes == [line] and line.endswith(" 1")]

    return (await until(ready))[0]


async def test_next_terminal_uses_the_spare_session(tmux: Tmux, world: World) -> None:
    await tmux.open(*FIRST)
    spare = await spare_of(world)
    (ready,) = world.tmux("display-message", "-p", "-t", f"={spare}:", "#{session_id}")
    pane = await tmux.open(*SECOND)
    show = "#{session_id} #{history_limit} #{window_width}x#{window_height} #{remain-on-exit} #{pane_id}"
    (found,) = world.tmux("display-message", "-p", "-t", f"={SECOND[1]}:", show)
    assert found == f"{ready} 5000 200x50 on {pane.pane_id}"
    assert spare not in world.sessions()


async def test_terminal_from_the_spare_session_has_the_options_of_the_first_one(
    tmux: Tmux, world: World
) -> None:
    await tmux.open(*FIRST)
    await spare_of(world)
    await tmux.open(*SECOND)

    def options(opened: tuple[str, str, str, object]) -> list[str]:
        to = ("-t", f"={opened[1]}:")
        scopes: list[tuple[str, ...]] = [(), ("-w",), ("-p",)]
        shown = [line for scope in scopes for line in world.tmux("show-options", *scope, *to)]
        return [line.replace(opened[0], "ID") for line in (*shown, *world.tmux("show-hooks", *to))]

    assert options(SECOND) == options(FIRST)
    assert len(options(FIRST)) >= 12


@pytest.mark.parametrize("search", [True, False])
async def test_open_works_when_the_spare_session_was_killed(tmux: Tmux, world: World, search: bool) -> None:
    await tmux.open(*FIRST)
    world.tmux("kill-session", "-t", f"={await spare_of(world)}")
    pane = await tmux.open(*SECOND, search=search)
    assert (await tmux.snapshot())[SECOND[0]] == pane


async def test_spare_session_of_a_server_that_has_ended_is_not_used_on_the_next_server(
    tmux: Tmux, world: World
) -> None:
    await tmux.open(*FIRST)
    spare = await spare_of(world)
    (id,) = world.tmux("display-message", "-p", "-t", f"={spare}:", "#{session_id}")
    server = world.server_pid()
    world.tmux("kill-server")
    await until(lambda: ended(server))
    mine = [f"mine{n}" for n in range(5)]  # they have the ids of the first server
    for name in mine:
        world.tmux("new-session", "-d", "-s", name, "sleep 1000")
    assert id in world.tmux("list-sessions", "-F", "#{session_id}")

    async def reconnected() -> bool:
        with contextlib.suppress(TerminalUnreachable):
            return await tmux.snapshot() == {}
        return False

    await until_async(reconnected)
    pane = await tmux.open(*SECOND, search=False)
    assert (await tmux.snapshot())[SECOND[0]] == pane
    assert set(mine) <= set(world.sessions())


async def test_spare_session_is_removed_when_the_name_is_taken(tmux: Tmux, world: World) -> None:
    await tmux.open(*FIRST)
    spare = await spare_of(world)
    world.tmux("new-session", "-d", "-s", SECOND[1], "sleep 1000")
    with pytest.raises(TerminalError, match=SECOND[1]):
        await tmux.open(*SECOND)
    assert spare not in world.sessions()


async def test_concurrent_opens_leave_one_spare_session(tmux: Tmux, world: World) -> None:
    await asyncio.gather(*(tmux.open(f"{n:08x}", f"command-{n:08x}", "/", FOREVER) for n in range(10)))
    await spare_of(world)
    await tmux.snapshot()  # tmux has executed all earlier commands
    assert sum(name.startswith("sm-spare-") for name in world.sessions()) == 1


async def test_spare_session_of_a_killed_client_is_removed_by_the_next_client(world: World) -> None:
    async with world.terminals() as tmux:
        await tmux.open(*FIRST)
        left = await spare_of(world)
        await until(lambda: world.tmux("show-options", "-qv", "-t", f"={left}:", "@sm_instance"))
    async with world.terminals() as tmux:
        await tmux.open(*SECOND)
        spare = await spare_of(world)
        await tmux.snapshot()  # tmux has executed all earlier commands
        assert [name for name in world.sessions() if name.startswith("sm-spare-")] == [spare]
        assert spare != left
