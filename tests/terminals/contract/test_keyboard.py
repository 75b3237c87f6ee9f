"""The contract of Keyboard: typing into terminals."""

import signal
import sys
from pathlib import Path

import pytest

from sm.core.models import Exit
from sm.errors import NoTerminal
from sm.terminals.base import Pane, Terminals
from tests.terminals.contract.samples import FOREVER, ID, NAME, ends_with, gone, line_of
from tests.terminals.world import World, sh, until, until_async


async def test_type_line_sends_each_line_with_one_enter(terminals: Terminals, world: World) -> None:
    out = world.home / "out"
    script = f"stty -echo; echo ready; while IFS= read -r line; do printf '%s\\n' \"$line\" >> {out}; done"
    await terminals.open(ID, NAME, "/", sh(script))
    await line_of(terminals, NAME)
    lines = ["hello", "-n 'quoted' \"$HOME\" #{pid};", "Enter", "", "ünïcode ☃", "x" * 4000]
    for line in lines:
        await terminals.type_line(NAME, line)
    await until(lambda: out.exists() and len(out.read_text().split("\n")) > len(lines))
    assert out.read_text() == "".join(f"{line}\n" for line in lines)


@pytest.mark.tmux_only("copy mode of tmux")
async def test_type_line_leaves_copy_mode(terminals: Terminals, world: World) -> None:
    await terminals.open(ID, NAME, "/", sh("read line; echo got $line; sleep 1000"))
    world.tmux("copy-mode", "-t", f"={NAME}:")
    await terminals.type_line(NAME, "this")
    await until_async(lambda: ends_with(terminals, "got this"))


async def test_type_line_types_into_the_terminal_that_running_found(terminals: Terminals) -> None:
    pane = await terminals.open(ID, NAME, "/", sh("read line; echo got $line; sleep 1000"))
    found = await terminals.running(NAME)
    assert found == pane
    await terminals.type_line(NAME, "this", found)
    await until_async(lambda: ends_with(terminals, "got this"))


RAW = """
import os, sys, termios, tty
tty.setraw(0)
sys.stdout.write("\\033[?2004hready\\r\\n"); sys.stdout.flush()
with open(sys.argv[1], "wb", buffering=0) as out:
    while True:
        out.write(os.read(0, 65536))
"""


@pytest.mark.tmux_only("bytes of a bracketed paste")
@pytest.mark.parametrize("size", [10, 4_097, 150_000])
async def test_type_line_sends_text_of_any_size_as_one_paste_followed_by_enter(
    terminals: Terminals, tmp_path: Path, size: int
) -> None:
    out = tmp_path / "read"
    await terminals.open(ID, NAME, "/", (sys.executable, "-c", RAW, str(out)))
    await until_async(lambda: ends_with(terminals, "ready"))
    text = ("x;é" * size)[:size]
    await terminals.type_line(NAME, text)
    await until(lambda: out.read_bytes().endswith(b"\r"))
    assert out.read_bytes() == b"\x1b[200~" + text.encode() + b"\x1b[201~\r"


@pytest.mark.tmux_only("bytes of a bracketed paste")
@pytest.mark.parametrize("size", [10, 4_097, 150_000])
async def test_paste_sends_all_lines_as_one_paste_without_enter(
    terminals: Terminals, world: World, tmp_path: Path, size: int
) -> None:
    out = tmp_path / "read"
    await terminals.open(ID, NAME, "/", (sys.executable, "-c", RAW, str(out)))
    await until_async(lambda: ends_with(terminals, "ready"))
    world.tmux("copy-mode", "-t", f"={NAME}:")
    text = ("x;\né\t" * size)[:size] + "\n "
    await terminals.paste(NAME, text)
    await until(lambda: out.read_bytes().endswith(b"\x1b[201~"))
    await terminals.press(NAME, "Enter")
    await until(lambda: out.read_bytes().endswith(b"\r"))
    assert out.read_bytes() == b"\x1b[200~" + text.encode() + b"\x1b[201~\r"


@pytest.mark.tmux_only("bytes of a bracketed paste")
async def test_paste_sends_several_texts_as_one_paste_each(
    terminals: Terminals, world: World, tmp_path: Path
) -> None:
    out = tmp_path / "read"
    await terminals.open(ID, NAME, "/", (sys.executable, "-c", RAW, str(out)))
    await until_async(lambda: ends_with(terminals, "ready"))
    texts = ["one\ntwo; 'x'", "\n", "y" * 5_000, "last "]
    await terminals.paste(NAME, *texts)
    await terminals.press(NAME, "Enter")
    await until(lambda: out.read_bytes().endswith(b"\r"))
    assert out.read_bytes() == b"".join(b"\x1b[200~%b\x1b[201~" % text.encode() for text in texts) + b"\r"
    assert world.tmux("list-buffers") == []


async def test_has_unread_input_until_the_program_reads(terminals: Terminals, tmp_path: Path) -> None:
    go, out = tmp_path / "go", tmp_path / "out"
    wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
    script = f"stty raw -echo; echo ready; {wait}; head -c 4 > {out}; exec sleep 1000"
    await terminals.open(ID, NAME, "/", sh(script))
    await until_async(lambda: ends_with(terminals, "ready"))
    assert not await terminals.has_unread_input(NAME)
    await terminals.paste(NAME, "text")
    await until_async(lambda: terminals.has_unread_input(NAME))
    go.touch()
    await until(lambda: out.exists() and out.read_text() == "text")
    assert not await terminals.has_unread_input(NAME)


@pytest.mark.parametrize("call", ["capture_styled", "paste", "type_line", "running", "has_unread_input"])
async def test_call_raises_no_terminal_when_the_process_has_ended(terminals: Terminals, call: str) -> None:
    pane = await terminals.open(ID, NAME, "/", sh("exit 0"))
    await gone(pane.pid)
    await terminals.exit_status(pane)
    with pytest.raises(NoTerminal):
        await getattr(terminals, call)(NAME, *["anybody?"] * (call in ("paste", "type_line")))


@pytest.mark.parametrize("text", ["too late", "x" * 5_000, ""])
async def test_type_line_types_nothing_when_the_process_ends_after_the_look_up(
    terminals: Terminals, world: World, text: str
) -> None:
    """`paste-buffer` into a pane whose process has ended crashes tmux 3.3a, with all terminals."""
    pane = await terminals.open(ID, NAME, "/", sh("read line; exit 3"))
    other = await terminals.open("99999999", "command-99999999", "/", FOREVER)
    found = await terminals.running(NAME)
    assert isinstance(found, Pane)
    await terminals.type_line(NAME, "end")
    await gone(pane.pid)
    assert await terminals.exit_status(pane) == Exit(3)
    with pytest.raises(NoTerminal):
        await terminals.type_line(NAME, text, found)
    assert world.server_pid() == pane.server_pid
    assert await terminals.running("command-99999999") == other
    assert world.tmux("list-buffers") == []


@pytest.mark.tmux_only("respawn of tmux")
async def test_type_line_types_nothing_when_another_process_has_replaced_the_one_that_was_found(
    terminals: Terminals, world: World
) -> None:
    pane = await terminals.open(ID, NAME, "/", FOREVER)
    found = await terminals.running(NAME)
    assert isinstance(found, Pane)
    world.tmux("respawn-pane", "-k", "-t", pane.pane_id, "sh -c 'echo ready; exec cat'")
    await until_async(lambda: ends_with(terminals, "ready"))
    with pytest.raises(NoTerminal):
        await terminals.type_line(NAME, "for the other process", found)
    assert (await terminals.capture(NAME, 5)) == ["ready"]


@pytest.mark.tmux_only("commands of tmux")
async def test_person_cannot_paste_into_a_terminal_whose_process_has_ended(
    terminals: Terminals, world: World
) -> None:
    pane = await terminals.open(ID, NAME, "/", sh("echo last words; exit 3"))
    await gone(pane.pid)
    await until(
        lambda: (
            world.tmux("display-message", "-p", "-t", pane.pane_id, "#{pane_dead} #{pane_dead_status}")
            == ["1 3"]
        )
    )
    world.tmux("set-buffer", "pasted by a person")
    world.tmux("paste-buffer", "-p", "-t", pane.pane_id)
    assert world.server_pid() == pane.server_pid
    assert await terminals.exit_status(pane) == Exit(3)
    assert await terminals.capture(NAME, 5) == ["last words"]


async def test_enter_if_unsent_presses_enter_once_when_the_screen_shows_the_text(
    terminals: Terminals, tmp_path: Path
) -> None:
    out = tmp_path / "read"
    await terminals.open(ID, NAME, "/", sh(f"cat > {out}"))
    await until(out.exists)
    await terminals.paste(NAME, "half")
    await until_async(lambda: ends_with(terminals, "half"))
    assert not await terminals.enter_if_unsent(NAME, "another text")
    assert await terminals.enter_if_unsent(NAME, "half")
    await until(lambda: out.read_text() == "half\n")
    assert not await terminals.enter_if_unsent(NAME, "half")


async def test_enter_if_unsent_recognizes_text_that_wraps_over_several_lines(
    terminals: Terminals, tmp_path: Path
) -> None:
    out = tmp_path / "read"
    await terminals.open(ID, NAME, "/", sh(f"cat > {out}"))
    await until(out.exists)
    text = "0123456789" * 90
    await terminals.paste(NAME, text)
    await until_async(lambda: ends_with(terminals, text))
    assert await terminals.enter_if_unsent(NAME, text)
    await until(lambda: out.read_text() == text + "\n")


async def test_press_interrupts_a_program_that_handles_it_as_often_as_it_is_pressed(
    terminals: Terminals, world: World
) -> None:
    out, end = world.home / "out", world.home / "end"
    script = f"trap 'echo interrupted >> {out}' INT; echo ready; while [ ! -e {end} ]; do sleep 0.1; done"
    await terminals.open(ID, NAME, "/", sh(script))
    await until_async(lambda: ends_with(terminals, "ready"))
    for times in (1, 2):
        await terminals.press(NAME, "C-c")
        await until(lambda n=times: out.exists() and out.read_text() == n * "interrupted\n")  # type: ignore[misc]  # bound


@pytest.mark.tmux_only("copy mode of tmux")
async def test_press_sends_the_key_to_the_process_when_the_pane_is_in_copy_mode(
    terminals: Terminals, world: World
) -> None:
    await terminals.open(
        ID, NAME, "/", sh("trap 'echo interrupted; exit' INT; echo ready; while :; do sleep 0.1; done")
    )
    await until_async(lambda: ends_with(terminals, "ready"))
    world.tmux("copy-mode", "-t", f"={NAME}:")
    await terminals.press(NAME, "C-c")
    await until_async(lambda: ends_with(terminals, "^Cinterrupted"))


async def test_press_of_ctrl_c_ends_a_program_in_line_mode(terminals: Terminals) -> None:
    pane = await terminals.open(ID, NAME, "/", sh("echo ready; exec sleep 1000"))
    await until_async(lambda: ends_with(terminals, "ready"))
    await terminals.press(NAME, "C-c")
    await gone(pane.pid)
    assert await terminals.exit_status(pane) == Exit(signal=signal.SIGINT)
    assert await ends_with(terminals, "^C")
