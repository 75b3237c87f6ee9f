"""A person at a terminal: types commands into a bash on a pseudo-terminal, and reads what they print."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path

from tests.waits import waiting

_PROMPT = re.compile(r"\[\[typed (\d+)\]\] ")
_CONTROL = re.compile(
    r"\x1b\[[0-9;?>=]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78M]|\x0f"
)
INTERRUPT = "\x03"
DETACH = "\x02d"


class Typist:
    """`width` and `height` are those of the terminal. Its bash has no history and no start-up files."""

    starts_processes = True

    def __init__(
        self, environment: Mapping[str, str], directory: Path, *, width: int = 120, height: int = 40
    ) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        settings = termios.tcgetattr(slave)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "--noediting", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=directory,
            env={**environment, "PS1": "[[typed $?]] ", "PS2": ""},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._unread = ""
        self._until(_PROMPT)

    def type(self, command: str, answers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Type a command with its here-documents; return its exit code and its output with the control sequences.

        `answers` has for the end of each question the answer to type. Any other question fails the test in time.
        """
        self.press(command + "\n")
        output = ""
        for question, answer in (answers or {}).items():
            output += self._until(re.compile(re.escape(question)))[0] + question
            self.press(answer + "\n")
            output += answer + "\n"
        rest, code = self._until(_PROMPT)
        return int(code), output + rest

    def leave(self, command: str, shown: str, keys: str = INTERRUPT) -> str:
        """Type a command that runs until `keys` are pressed, and press them once its output matches `shown`."""
        self.press(command + "\n")
        before, _ = self._until(re.compile(shown))
        self.press(keys)
        return before + self._until(_PROMPT)[0]

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> None:
        """Hang up, as the window of a terminal does, and wait for the shell."""
        os.close(self._master)
        self._shell.send_signal(signal.SIGHUP)
        self._shell.wait()

    def _until(self, pattern: re.Pattern[str]) -> tuple[str, str]:
        """The output before a match of `pattern`, and the first group of the match."""
        with waiting(lambda: f"the terminal shows no {pattern.pattern!r}: {plain(self._unread)[-4000:]}"):
            while (match := pattern.search(self._unread)) is None:
                self._unread += self._read()
        before, self._unread = self._unread[: match.start()], self._unread[match.end() :]
        return before, match[1] if match.groups() else ""

    def _read(self) -> str:
        try:
            return os.read(self._master, 65536).decode(errors="replace").replace("\r\n", "\n")
        except OSError:  # EIO: no process has the terminal open
            raise AssertionError(f"the shell has ended: {plain(self._unread)[-4000:]}") from None


def plain(output: str) -> str:
    """The text of an output without colours and cursor movements."""
    return _CONTROL.sub("", output).replace("\r", "")
