"""Job control and terminals of real processes."""

import os
import pty
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from sm.core.models import Process
from sm.linux.jobs import InputLoss, NoInput, input_loss
from sm.linux.processes import command_line, identify, process_tree
from sm.linux.ttys import is_in_line_mode, tty_of
from tests.waits import until

pytestmark = pytest.mark.processes


@dataclass
class Terminal:
    """A pseudo terminal whose controlling process is the leader of a session."""

    keyboard: int
    """The side of the pseudo terminal on which a person types."""
    device: int
    path: str
    leader: subprocess.Popen[bytes]
    process: Process

    def loss(self, process: Process | None = None, *, reads_terminal: bool = True) -> InputLoss | None:
        return input_loss(process or self.process, reads_terminal=reads_terminal)

    def type(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    def wait_for(self, kind: NoInput | None) -> InputLoss | None:
        def found() -> bool:
            loss = self.loss()
            return (None if loss is None else loss.kind) is kind

        until(found, f"the kernel reports {kind}")
        return self.loss()


TAKES_TERMINAL = "import fcntl, os, subprocess, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
STARTS_CHILDREN = """
for line in sys.stdin:
    if line == 'start\\n':
        child = subprocess.Popen(['sh', '-c', 'sleep 1000; :'])
    else:
        child.kill()
        child.wait()
"""
FORKS = "import signal\nos.wait() if os.fork() else signal.pause()"
IS_A_SHELL = "os.execvp('sh', ['sh', '-i'])"


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A terminal in raw mode, as an input box needs it. Runs the parameter, or `STARTS_CHILDREN`."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs, termios.TCSANOW)
    code = TAKES_TERMINAL + getattr(request, "param", STARTS_CHILDREN)
    leader = subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    process = identify(leader.pid)
    assert process is not None
    until(lambda: tty_of(leader.pid), "it has a terminal")
    yield Terminal(ours, theirs, os.ttyname(theirs), leader, process)
    for member in process_tree(process):
        os.kill(member.pid, signal.SIGKILL)
    leader.wait()
    os.close(ours)
    os.close(theirs)


def test_input_loss_is_none_for_a_process_that_reads_its_terminal(terminal: Terminal) -> None:
    assert terminal.loss() is None


def test_input_loss_reports_a_stopped_process_until_it_continues(terminal: Terminal) -> None:
    os.kill(terminal.process.pid, signal.SIGSTOP)
    assert terminal.wait_for(NoInput.STOPPED) == InputLoss(NoInput.STOPPED)
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.wait_for(None)


def test_input_loss_names_the_innermost_child_that_reads_the_terminal(terminal: Terminal) -> None:
    terminal.type("start\n")
    until(lambda: terminal.loss() == InputLoss(NoInput.OTHER_PROGRAM, "sleep"), "the child has the terminal")
    assert terminal.loss(reads_terminal=False) is None, "the child of a wrapper is the agent"
    terminal.type("end\n")
    terminal.wait_for(None)


@pytest.mark.parametrize("terminal", [FORKS], indirect=True)
def test_input_loss_is_none_while_a_forked_child_has_not_executed_its_program(terminal: Terminal) -> None:
    until(lambda: len(process_tree(terminal.process)) == 2, "it has forked")
    assert terminal.loss() is None


@pytest.mark.parametrize("terminal", [IS_A_SHELL], indirect=True)
def test_input_loss_names_a_child_that_runs_the_program_of_its_parent(terminal: Terminal) -> None:
    terminal.type("sh -i\n")
    until(
        lambda: terminal.loss() == InputLoss(NoInput.OTHER_PROGRAM, "sh"), "the inner shell has the terminal"
    )


@pytest.mark.parametrize("terminal", [IS_A_SHELL], indirect=True)
def test_input_loss_reports_a_job_that_a_shell_has_stopped(terminal: Terminal) -> None:
    terminal.type("sleep 1000\n")

    def job() -> Process | None:
        members = [p for p in process_tree(terminal.process) if command_line(p.pid)[:1] == ("sleep",)]
        return members[0] if members else None

    sleep = until(job, "the job runs")
    os.kill(sleep.pid, signal.SIGSTOP)
    background = InputLoss(NoInput.BACKGROUND_JOB)
    until(lambda: terminal.loss(sleep) == background, "the shell has its terminal back")


def test_input_loss_reports_a_terminal_in_line_mode(terminal: Terminal) -> None:
    mode = termios.tcgetattr(terminal.device)
    mode[3] |= termios.ICANON
    termios.tcsetattr(terminal.device, termios.TCSANOW, mode)
    assert is_in_line_mode(terminal.path)
    assert terminal.loss() == InputLoss(NoInput.LINE_MODE)


OWN_TERMINALS = 'mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts && exec "$@"'
TAKES_TERMINAL_WITH_NUMBER = """
import fcntl, os, struct, sys, termios, tty
name, number = sys.argv[1], None
while name != f'/dev/pts/{number}':
    keyboard = os.open('/dev/pts/ptmx', os.O_RDWR | os.O_NOCTTY)
    (number,) = struct.unpack('i', fcntl.ioctl(keyboard, 0x80045430, bytes(4)))  # TIOCGPTN
fcntl.ioctl(keyboard, 0x40045431, bytes(4))  # TIOCSPTLCK: unlock
os.setsid()
device = os.open(name, os.O_RDWR)
tty.setraw(device)
requests = os.dup(0)
os.dup2(device, 0)
print('ready', flush=True)
os.read(requests, 1)
mode = termios.tcgetattr(device)
mode[3] |= termios.ICANON
termios.tcsetattr(device, termios.TCSANOW, mode)
os.read(requests, 1)
"""


def test_input_loss_looks_at_the_terminal_of_a_container_and_not_at_one_of_the_host_with_its_number() -> None:
    own_terminals = ["unshare", "--mount", "sh", "-c", OWN_TERMINALS, "sh"]
    if subprocess.run([*own_terminals, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user cannot mount terminals of a container")
    keyboard, device = pty.openpty()
    name = os.ttyname(device)
    assert is_in_line_mode(name)
    with subprocess.Popen(
        [*own_terminals, sys.executable, "-c", TAKES_TERMINAL_WITH_NUMBER, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as contained:
        assert contained.stdin is not None
        assert contained.stdout is not None
        assert contained.stdout.readline() == b"ready\n"
        process = identify(contained.pid)
        assert process is not None
        assert tty_of(process.pid) == name
        assert input_loss(process, reads_terminal=True) is None

        contained.stdin.write(b"l")
        contained.stdin.flush()
        in_line_mode = InputLoss(NoInput.LINE_MODE)
        until(
            lambda: input_loss(process, reads_terminal=True) == in_line_mode, "its terminal is in line mode"
        )
    os.close(keyboard)
    os.close(device)


def test_input_loss_is_none_for_a_process_that_has_ended(terminal: Terminal) -> None:
    other = Process(terminal.process.pid, "another boot/1")
    assert terminal.loss(other) is None


def test_line_mode_is_false_for_a_terminal_that_is_gone() -> None:
    assert not is_in_line_mode("/dev/pts/no-such-terminal")
