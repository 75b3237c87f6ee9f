"""Runs the tmux commands of a spawn and of a message by hand, on a control connection to the instance's server."""

import os
import re
import subprocess
from itertools import count
from typing import Self

from bench.instance import Instance, until

_REPLY_END = re.compile(rb"^%(end|error) \d+ \d+ 1$", re.MULTILINE)  # 1 marks a command of this client
_ROW = (
    "#{@sm_agent} #{pid} #{pane_id} #{pane_pid} #{pane_tty} #{pane_dead} #{window_activity} #{session_name}"
)


class ByHand:
    """tmux without sm. Use it as a context manager. Raises RuntimeError when tmux refuses a command or ends."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._numbers = count()

    def __enter__(self) -> Self:
        # tmux 3.3a crashes when a session is made while a control client connects.
        until(self._instance.has_spare, "a spare session exists")
        attach = ("new-session", "-A", "-s", "by-hand", "-f", "no-output,ignore-size", "sleep", "1000000")
        pipe = subprocess.PIPE
        self._client = subprocess.Popen(
            ("tmux", "-L", "bench", "-C", *attach), env=self._instance.env, stdin=pipe, stdout=pipe, bufsize=0
        )
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        self._input, self._output = self._client.stdin, self._client.stdout.fileno()
        greeting = b""
        while b"%session-changed" not in greeting:
            greeting += self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.kill()
        self._client.communicate()

    def ask(self, *commands: str) -> None:
        """Run the commands as one line, and wait for all replies."""
        self._input.write(" ; ".join(commands).encode() + b"\n")
        reply = b""
        while len(_REPLY_END.findall(reply)) < len(commands):
            reply += self._read()
        if b"error" in _REPLY_END.findall(reply):
            raise RuntimeError(f"tmux refused: {reply.decode()}")

    def _read(self) -> bytes:
        data = os.read(self._output, 65536)
        if not data:
            raise RuntimeError("tmux closed the connection")
        return data

    def prepare(self) -> str:
        """Prepare a session with an empty pane, as `PaneCreator` does. Return its name."""
        name = f"by-hand-{next(self._numbers)}"
        self.ask(f"new-session -d -s {name} -x 200 -y 50 -c / -- sleep 60")
        self.ask(f"split-window -h -t ={name}: ''", f"kill-pane -a -t ={name}:")
        return name

    def start(self, prepared: str) -> None:
        """Start a program in a prepared session: the commands of a spawn."""
        to = f"-t ={prepared}-x:"
        self.ask(
            f"rename-session -t ={prepared}: {prepared}-x",
            f"set-option {to} @mark tag",
            f"respawn-pane {to} -c / -- sleep 1000000",
            f"pipe-pane {to} 'exec sleep 1'",
            f"set-option -p {to} @mark tag",
            f"set-option {to} @mark id",
            f"rename-window {to} title",
            f"display-message -p {to} '{_ROW}'",
        )

    def remove(self, prepared: str) -> None:
        self.ask(f"kill-session -t ={prepared}-x")

    def paste(self, session: str) -> None:
        """The commands of a message until its text is in the terminal."""
        to = f"-t ={session}:"
        self.ask(f"display-message -p {to} '{_ROW}'")
        self.ask(
            f"copy-mode -q {to}", "set-buffer -b by-hand hello", f"paste-buffer -p -r -d -b by-hand {to}"
        )
