"""Closing the dialog about a usage limit, in a real terminal with a program that draws captured screens."""

import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.effects import Effect, EffectKind
from sm.core.statuses import Status
from sm.messaging import ComposerDriver, LimitDialogs
from sm.messaging.composer_state import DialogMonitor
from sm.store import Store
from tests import samples
from tests.samples import AT, commit
from tests.session_manager import open_manager
from tests.terminals.world import World
from tests.waits import until_async

pytestmark = pytest.mark.processes

ID = "1a2b3c4d"
SCREENS = Path(__file__).parents[1] / "data/screens/claude"
PROGRAM = """
import os, sys, termios, tty
log, ignored, first, then = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
tty.setraw(0)
def draw(path):
    with open(path, encoding="utf-8") as file:
        sys.stdout.write("\\x1b[2J\\x1b[H" + file.read().rstrip().replace("\\n", "\\r\\n"))
    sys.stdout.flush()
draw(first)
keys = 0
while key := os.read(0, 100):
    keys += 1
    with open(log, "ab") as file:
        file.write(key)
    if keys > ignored:
        draw(then)
"""


class NoDialogs:
    async def blocked_reason(self, session_id: str) -> str | None:
        return None

    async def is_working(self, session_id: str) -> bool:
        return False

    def awaits_first_turn(self, session_id: str) -> bool:
        return False

    async def hold_message(self, session_id: str) -> None:
        pass


class Bench:
    def __init__(self, world: World, store: Store, dialogs: LimitDialogs, log: Path) -> None:
        self.world, self.store, self.dialogs, self.log = world, store, dialogs, log
        self.terminals = world.terminals()

    async def draw(self, screen: str, then: str = "usage-limit-closed-01", ignored: int = 0) -> None:
        program = self.log.parent / "program.py"
        program.write_text(PROGRAM)
        first, after = SCREENS / f"{screen}.txt", SCREENS / f"{then}.txt"
        argv = (sys.executable, str(program), str(self.log), str(ignored), str(first), str(after))
        await self.terminals.open(ID, f"claude-{ID}", "/", argv)
        last = first.read_text(encoding="utf-8").rstrip().rpartition("\n")[2].strip()[-20:]

        async def is_drawn() -> bool:
            return any(last in line for line in await self.terminals.capture_visible(f"claude-{ID}"))

        await until_async(is_drawn)

    async def close(self) -> str | None:
        return await self.dialogs.close(Effect(1, EffectKind.CLOSE_DIALOG, ID, {"at": AT}))

    @property
    def keys(self) -> bytes:
        return self.log.read_bytes() if self.log.exists() else b""


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr("sm.messaging.limit_dialogs._DRAWN_WITHIN_S", 3.0)
    world = World()
    async with open_manager(tmp_path, lambda: AT) as (store, manager):
        session = replace(samples.session(ID, status=Status.IDLE), provider="claude", terminal=f"claude-{ID}")
        await commit(store, lambda tx: tx.insert(session, samples.LAUNCH, None))
        terminals = world.terminals()
        monitor: DialogMonitor = NoDialogs()
        dialogs = LimitDialogs(store, manager, terminals, ComposerDriver(terminals, monitor))
        bench = Bench(world, store, dialogs, tmp_path / "keys")
        async with terminals, bench.terminals:  # asyncio warns later about a connection that nobody closed
            yield bench
    await world.end()


@pytest.mark.parametrize("screen", ["usage-limit-01", "usage-limit-credits-01"])
@pytest.mark.parametrize("ignored", [0, 1])
async def test_dialog_is_closed_with_escape_and_no_other_key(bench: Bench, screen: str, ignored: int) -> None:
    await bench.draw(screen, ignored=ignored)
    assert await bench.close() is None
    assert bench.keys == b"\x1b" * (1 + ignored)


@pytest.mark.parametrize("screen", ["dialog-model-01", "perm-bash-01", "ask-one-01", "idle-draft-01"])
async def test_no_key_is_pressed_in_another_dialog(
    bench: Bench, screen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.messaging.limit_dialogs._OPENS_WITHIN_S", 0.3)
    await bench.draw(screen)
    assert await bench.close() is None
    assert bench.keys == b""


async def test_repeated_effect_presses_no_second_key(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.draw("usage-limit-01")
    await bench.close()
    monkeypatch.setattr("sm.messaging.limit_dialogs._OPENS_WITHIN_S", 0.3)
    await bench.close()
    assert bench.keys == b"\x1b"


async def test_dialog_that_does_not_close_is_given_up_with_a_reason(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.messaging.limit_dialogs._DRAWN_WITHIN_S", 0.1)
    await bench.draw("usage-limit-01", ignored=9)
    assert "did not close after 5 keys" in str(await bench.close())

    async def are_read() -> bool:
        return bench.keys == b"\x1b" * 5

    await until_async(are_read)


async def test_nothing_happens_when_the_terminal_is_gone(bench: Bench) -> None:
    assert await bench.close() is None
