"""A terminal of a person, of a given size, in which one command runs."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self


class PersonTerminal:
    """The end of the block waits until the command has ended."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], columns: int, lines: int) -> None:
        self._keyboard, device = pty.openpty()
        self.resize(columns, lines)
        # The kernel reports a new size only to processes whose controlling terminal this is.
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *command], env=env, stdin=device, stdout=device, stderr=device
        )
        os.close(device)
        self.printed = b""
        """Everything that the command has printed so far."""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the command."""
        return self._process.pid

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    def _read(self) -> None:
        """Read what the command prints: it waits when the terminal is full."""
        with suppress(OSError):  # EIO: no process has the terminal any more
            while data := os.read(self._keyboard, 65536):
                self.printed += data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        code = self._process.wait()
        self._reader.join()
        os.close(self._keyboard)
        assert error is not None or code == 0, f"exit code {code}"
