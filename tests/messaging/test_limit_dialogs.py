"""Closing the dialog about a usage limit, in a real terminal with a program that draws captured screens."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.effects import Effect, EffectKind
from sm.core.models import Signal
from sm.core.observation import Source
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.messaging import ComposerDriver, LimitDialogs
from sm.messaging.composer.driver import DialogMonitor
from tests import samples
from tests.samples import AT, commit
from tests.state_parts import StateParts, open_parts
from tests.terminals.world import World
from tests.waits import until_async

pytestmark = pytest.mark.processes

ID = "1a2b3c4d"
SCREENS = Path(__file__).parents[1] / "data/screens/claude"
PROGRAM = """
import os, sys, termios, tty
log, ignored, screens = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
tty.setraw(0)
def draw(path):
    with open(path, encoding="utf-8") as file:
        sys.stdout.write("\\x1b[2J\\x1b[H" + file.read().rstrip().replace("\\n", "\\r\\n"))
    sys.stdout.flush()
draw(screens.pop(0))
keys = 0
while key := os.read(0, 100):
    keys += 1
    with open(log, "ab") as file:
        file.write(key)
    if keys > ignored and screens:
        draw(screens.pop(0))
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
    def __init__(self, world: World, parts: StateParts, dialogs: LimitDialogs, log: Path) -> None:
        self.world, self.parts, self.dialogs, self.log = world, parts, dialogs, log
        self.terminals = world.terminals()

    async def draw(self, *screens: str, ignored: int = 0) -> None:
        """Draw the first screen now, and the next one at each key after those that are ignored."""
        program = self.log.parent / "program.py"
        program.write_text(PROGRAM)
        paths = [SCREENS / f"{screen}.txt" for screen in (*screens, "usage-limit-closed-01")]
        argv = (sys.executable, str(program), str(self.log), str(ignored), *map(str, paths))
        await self.terminals.open(ID, f"claude-{ID}", "/", argv)
        last = paths[0].read_text(encoding="utf-8").rstrip().rpartition("\n")[2].strip()[-20:]

        async def is_drawn() -> bool:
            return any(last in line for line in await self.terminals.capture_visible(f"claude-{ID}"))

        await until_async(is_drawn)

    async def see(self, kind: SignalKind) -> None:
        await self.parts.observe(
            ID, Signal(kind, Source.STATE_FILE, "of its state file", "2099-01-01T00:00:00.000Z")
        )

    async def close(self) -> str | None:
        return await self.dialogs.close(Effect(1, EffectKind.CLOSE_DIALOG, ID, {}))

    @property
    def keys(self) -> bytes:
        return self.log.read_bytes() if self.log.exists() else b""


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr("sm.messaging.limit_dialogs._DRAWN_WITHIN_S", 3.0)
    world = World()
    async with open_parts(tmp_path, lambda: AT) as (store, parts):
        session = replace(samples.session(ID, status=Status.IDLE), provider="claude", terminal=f"claude-{ID}")
        await commit(store, lambda tx: tx.insert(session, samples.LAUNCH, None))
        terminals = world.terminals()
        monitor: DialogMonitor = NoDialogs()
        dialogs = LimitDialogs(store, parts.providers, terminals, ComposerDriver(terminals, monitor))
        bench = Bench(world, parts, dialogs, tmp_path / "keys")
        async with terminals, bench.terminals:  # asyncio warns later about a connection that nobody closed
            yield bench
    await world.end()


@pytest.mark.parametrize("screen", ["usage-limit-01", "usage-limit-credits-01"])
@pytest.mark.parametrize("ignored", [0, 1])
async def test_dialog_is_closed_with_escape_and_no_other_key(bench: Bench, screen: str, ignored: int) -> None:
    await bench.draw(screen, ignored=ignored)
    assert await bench.close() is None
    assert bench.keys == b"\x1b" * (1 + ignored)


async def test_dialog_is_closed_that_opens_after_claude_has_said_again_that_it_works(bench: Bench) -> None:
    """claude 2.1.332 runs a command after its turn has failed, and the command opens the dialog."""
    await bench.see(SignalKind.BUSY)
    await bench.draw("idle-draft-01", "usage-limit-01")
    closing = asyncio.create_task(bench.close())
    for _ in range(50):
        await bench.terminals.capture_visible(f"claude-{ID}")  # the task looks too
    await bench.terminals.press(f"claude-{ID}", "x")  # the next screen
    assert await closing is None
    assert bench.keys == b"x\x1b"


async def test_dialog_is_closed_that_a_busy_machine_draws_late(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.messaging.limit_dialogs._OPENS_WITHIN_S", 0.0)
    await bench.see(SignalKind.ASKED)
    await bench.draw("usage-limit-01")
    assert await bench.close() is None
    assert bench.keys == b"\x1b"


async def test_wait_ends_while_another_dialog_stays_open(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.messaging.limit_dialogs._OPENS_WITHIN_S", 0.0)
    monkeypatch.setattr("sm.messaging.limit_dialogs._GIVES_UP_S", 0.1)
    await bench.see(SignalKind.ASKED)
    await bench.draw("perm-bash-01")
    assert await bench.close() is None
    assert bench.keys == b""


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
