"""The spare tmux session for the next agent: it saves time, and nothing depends on it."""

import asyncio

import pytest

from sm.errors import TerminalError
from sm.terminals.tmux import create
from sm.terminals.tmux.terminals import Tmux
from tests.terminals.contract.samples import FOREVER
from tests.terminals.world import World, until

FIRST = ("11111111", "command-11111111", "/", FOREVER)
SECOND = ("22222222", "command-22222222", "/", FOREVER)
THIRD = ("33333333", "command-33333333", "/", FOREVER)


async def spare_of(world: World) -> str:
    """Wait for the spare session; return its name."""
    return (await until(lambda: [name for name in world.sessions() if name.startswith("sm-spare-")]))[0]


def windows(world: World, opened: tuple[str, str, str, object]) -> list[str]:
    return world.tmux("list-windows", "-t", f"={opened[1]}:", "-F", "#{window_name}")


async def test_next_terminal_uses_the_spare_session(tmux: Tmux, world: World) -> None:
    await tmux.open(*FIRST)
    spare = await spare_of(world)
    (ready,) = world.tmux("display-message", "-p", "-t", f"={spare}:", "#{session_id}")
    pane = await tmux.open(*SECOND)
    show = "#{session_id} #{history_limit} #{window_width}x#{window_height} #{remain-on-exit} #{pane_id}"
    (found,) = world.tmux("display-message", "-p", "-t", f"={SECOND[1]}:", show)
    assert found == f"{ready} 5000 200x50 on {pane.pane_id}"
    assert spare not in world.sessions()


async def test_open_works_when_the_spare_session_was_killed(tmux: Tmux, world: World) -> None:
    await tmux.open(*FIRST)
    world.tmux("kill-session", "-t", f"={await spare_of(world)}")
    pane = await tmux.open(*SECOND)
    assert (await tmux.snapshot())[SECOND[0]] == pane


async def test_spare_session_is_removed_when_the_name_is_taken(tmux: Tmux, world: World) -> None:
    await tmux.open(*FIRST)
    spare = await spare_of(world)
    world.tmux("new-session", "-d", "-s", SECOND[1], "sleep 1000")
    with pytest.raises(TerminalError, match=SECOND[1]):
        await tmux.open(*SECOND)
    assert spare not in world.sessions()


async def test_spare_session_ends_by_itself_when_the_user_sets_remain_on_exit(world: World) -> None:
    (world.home / ".tmux.conf").write_text("set -g remain-on-exit on\nset -g destroy-unattached on\n")
    async with world.terminals() as tmux:
        await tmux.open(*FIRST)
        spare = f"={await spare_of(world)}:"

        def is_option_set() -> bool:
            return world.tmux("show-options", "-w", "-v", "-t", spare, "remain-on-exit") == ["off"]

        await until(is_option_set)


async def test_placeholder_window_of_a_killed_daemon_is_removed_by_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create, "_CLEAN_UP_AFTER_S", 0)
    async with world.terminals() as tmux:
        await tmux.open(*FIRST)
        await spare_of(world)
        await until(lambda: windows(world, FIRST) == [FIRST[1]])
        monkeypatch.setattr(create, "_CLEAN_UP_AFTER_S", 3600)  # the daemon ends before the clean-up
        await tmux.open(*SECOND)  # in the spare session
        await tmux.open(*THIRD)  # in a new session
    world.tmux("new-window", "-d", "-t", f"={THIRD[1]}:", "-n", "of-a-person", "sleep 60")
    assert [len(windows(world, opened)) for opened in (FIRST, SECOND, THIRD)] == [1, 2, 3]
    async with world.terminals() as tmux:
        assert set(await tmux.snapshot()) == {FIRST[0], SECOND[0], THIRD[0]}
        await until(lambda: windows(world, SECOND) == [SECOND[1]])
        await until(lambda: windows(world, THIRD) == [THIRD[1], "of-a-person"])


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
