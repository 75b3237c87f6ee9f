"""`sm top` in a pane of tmux that stops, hangs up, is killed, changes its size, or has no colours."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from libtmux import Pane

from tests.instance import SM, Instance
from tests.waits import until

COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
"""A sequence that sets a colour."""
SIZES = ((20, 5), (200, 60), (36, 10), (1, 1), (140, 40), (59, 11), (120, 12))


class TopPane:
    """A pane with an interactive shell in which `sm top` runs."""

    def __init__(self, instance: Instance, **environment: str) -> None:
        self._server = instance.tmux_server
        session = self._server.new_session(
            "person",
            window_command="PS1='ready ' exec bash --norc --noprofile -i",
            x=100,
            y=30,
            environment={"SM_HOME": str(instance.home), **environment},
        )
        assert session.active_pane is not None
        self._pane: Pane = session.active_pane
        self._answers = 0
        until(lambda: "ready" in self.screen(), "the prompt of the shell")

    def screen(self) -> str:
        return "\n".join(self._pane.capture_pane())

    def coloured_screen(self) -> str:
        return "\n".join(self._pane.capture_pane(escape_sequences=True))

    def type(self, text: str) -> None:
        self._pane.send_keys(text, enter=True)

    def press(self, key: str) -> None:
        self._pane.send_keys(key, enter=False)

    def resize(self, columns: int, lines: int) -> None:
        self._server.cmd("resize-window", "-t", "person", "-x", str(columns), "-y", str(lines))

    def modes(self) -> str:
        """The alternate screen, a hidden cursor, and a program that reads the mouse."""
        format = "#{alternate_on} #{?cursor_flag,0,1} #{mouse_any_flag}"
        (found,) = self._pane.display_message(format, get_text=True) or [""]
        return found

    def start(self) -> int:
        """Start `sm top`, and return its process id when the list is in sight."""
        self.type(f"{SM} top")
        until(lambda: "sleeper-login" in self.screen(), "the list")
        return self.pid()

    def quit(self, pid: int) -> None:
        """Press `q`, and return when `sm top` has ended: until then, its terminal is neither one nor the other."""
        self.press("q")
        until(lambda: not Path(f"/proc/{pid}").exists(), "the end of sm top")

    def pid(self) -> int:
        """The process id of `sm top`."""
        shell = self._pane.pane_pid
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="ascii").split()
        (found,) = [int(child) for child in children if b"top" in Path(f"/proc/{child}/cmdline").read_bytes()]
        return found

    def is_restored(self) -> bool:
        """Return whether the terminal is as a shell needs it, including echo and lines.

        tmux reads what a program writes after the program has ended, so its modes count only behind a later answer.
        """
        self._answers += 1
        modes_of_lines = "stty -a | tr ' ' '\\n' | grep -cx -e icanon -e echo -e isig"
        self.type(f"clear; echo answer {self._answers}: $({modes_of_lines})")
        answer = re.compile(rf"^answer {self._answers}: (\d)$", re.MULTILINE)
        until(lambda: answer.search(self.screen()), "the answer of stty")
        found = answer.search(self.screen())
        return found is not None and found[1] == "3" and self.modes() == "0 0 0"


@pytest.fixture
def agent(instance: Instance) -> str:
    return str(instance.spawn("Sleeper", "x", "--name", "login")["session_id"])


def state_of(pid: int) -> str:
    """The state of a process as in proc(5): `T` is stopped."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


def test_top_gives_the_terminal_back_while_it_is_stopped_and_takes_it_again(
    instance: Instance, agent: str
) -> None:
    pane = TopPane(instance)
    pid = pane.start()
    os.kill(pid, signal.SIGTSTP)
    until(lambda: state_of(pid) == "T", "a stopped process")
    until(lambda: "Stopped" in pane.screen(), "the shell")
    assert pane.is_restored()
    instance.sm("note", "while you were away", env=instance.as_session(agent))
    pane.type("fg")
    until(lambda: "while you were away" in pane.screen(), "the list, up to date")
    assert pane.modes() == "1 1 1"
    pane.quit(pid)
    assert pane.is_restored()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_top_restores_the_terminal_when_a_signal_ends_it(
    instance: Instance, agent: str, number: signal.Signals
) -> None:
    pane = TopPane(instance)
    os.kill(pane.start(), number)
    until(lambda: pane.modes() == "0 0 0", "the normal screen")
    pane.type("echo code $?")
    until(lambda: f"code {128 + number}" in pane.screen(), "the exit code")
    assert pane.is_restored()
    assert instance.session(agent)["status"] == "running"


def test_next_top_restores_the_terminal_that_a_killed_one_left(instance: Instance, agent: str) -> None:
    pane = TopPane(instance)
    pid = pane.start()
    os.kill(pid, signal.SIGKILL)
    until(lambda: "Killed" in pane.screen(), "the shell")
    pane.type("clear")
    until(lambda: "sleeper-login" not in pane.screen(), "a clear screen")
    pane.quit(pane.start())
    assert pane.is_restored()
    assert instance.session(agent)["status"] == "running"


def test_top_has_no_colours_with_no_color(instance: Instance, agent: str) -> None:
    instance.sm("kill", instance.spawn("Sleeper", "x", "--name", "gone")["session_id"], "--force")
    pane = TopPane(instance, NO_COLOR="1")
    pane.start()
    until(lambda: "killed" in pane.screen(), "the killed session")
    assert COLOUR.search(pane.coloured_screen()) is None
    pane.press("C")
    until(lambda: "NO_COLOR is set" in pane.screen(), "the refusal")
    assert COLOUR.search(pane.coloured_screen()) is None
    pane.press("q")


def test_top_has_colours_without_no_color(instance: Instance, agent: str) -> None:
    instance.sm("kill", instance.spawn("Sleeper", "x", "--name", "gone")["session_id"], "--force")
    pane = TopPane(instance)
    pane.start()
    until(lambda: COLOUR.search(pane.coloured_screen()), "a red line of the killed session")
    pane.press("q")


def test_top_survives_a_window_that_changes_its_size_all_the_time(instance: Instance, agent: str) -> None:
    pane = TopPane(instance)
    pid = pane.start()
    for _ in range(5):  # each change takes some 10 ms
        for columns, lines in SIZES:
            pane.resize(columns, lines)
    pane.resize(100, 30)
    until(lambda: "sleeper-login" in pane.screen() and "Nothing needs you" in pane.screen(), "the list")
    pane.resize(20, 5)
    until(lambda: "sleeper" in pane.screen(), "the list in a small window")
    assert pane.pid() == pid
    pane.press("q")
    until(lambda: pane.modes() == "0 0 0", "the normal screen")


def test_top_ends_although_nobody_reads_its_terminal(instance: Instance, agent: str) -> None:
    with top_on_unread_terminal(instance) as (top, _):
        top.send_signal(signal.SIGTERM)
        assert top.wait() == 128 + signal.SIGTERM


def test_top_ends_when_its_terminal_goes_without_a_signal(instance: Instance, agent: str) -> None:
    with top_on_unread_terminal(instance) as (top, close):
        close()
        # 128 + SIGHUP, or 120: Python could not write what it had kept for the terminal.
        assert top.wait() in (128 + signal.SIGHUP, 120)


@contextlib.contextmanager
def top_on_unread_terminal(
    instance: Instance,
) -> Iterator[tuple["subprocess.Popen[bytes]", Callable[[], None]]]:
    """`sm top` whose terminal is full, because nobody reads it; and a function that closes the terminal."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 500, 0, 0))
    top = subprocess.Popen([SM, "top"], env=instance.env, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    with contextlib.ExitStack() as stack, open(screen, "rb", buffering=0) as reader:
        stack.callback(top.wait)
        stack.callback(top.kill)
        # Its 100,000 characters are more than the kernel keeps of what nobody reads.
        until(lambda: waiting_bytes(screen) >= 4095, "a full terminal")
        yield top, reader.close


def waiting_bytes(screen: int) -> int:
    """The number of bytes that can be read from this end of a terminal."""
    (number,) = struct.unpack("i", fcntl.ioctl(screen, termios.FIONREAD, bytes(4)))
    return int(number)
