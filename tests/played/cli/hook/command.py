"""`sm hook claude` in the process of the test."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.played.cli.command import Sm
from tests.sim.command import StartedCommand
from tests.sim.hook import start_hook

_WITHIN_S = 120.0


@dataclass(frozen=True)
class Running:
    """A started hook. `files`: the descriptors of its stdin and stdout. `write`: the other end of its stdin."""

    process: StartedCommand
    files: Mapping[int, int]
    write: int | None

    def ended(self) -> bytes:
        """Wait for the end without output, and return the unread part of stdin."""
        output, left = self._close()
        assert output == b""
        return left

    def printed(self) -> str:
        """Wait for the end, and return the output."""
        return self._close()[0].decode()

    def _close(self) -> tuple[bytes, bytes]:
        assert self.process.wait(_WITHIN_S) == 0
        os.lseek(self.files[1], 0, os.SEEK_SET)
        output = os.read(self.files[1], 1 << 30)
        os.set_blocking(self.files[0], False)
        try:
            left = os.read(self.files[0], 65536)
        except BlockingIOError:
            left = b""
        for fd in (*self.files.values(), *([] if self.write is None else [self.write])):
            os.close(fd)
        return output, left


class Hook:
    """`sm hook claude` in the environment of a session."""

    def __init__(self, run: Sm, state: Path) -> None:
        self.instance = run.instance
        token = state / "token"
        token.write_text("s3cret\n")
        run.environ |= run.as_session(state) | {"SM_TOKEN_FILE": str(token)}
        del run.environ["SM_HOME"]
        self.environ = run.environ
        self.provider = "claude"
        self.options: tuple[str, ...] = ()
        self._spool = state / "spool"

    def __call__(self, event: object) -> None:
        """Run the hook to its end: exit code 0 and no output."""
        raw = event if isinstance(event, bytes) else json.dumps(event, ensure_ascii=False).encode()
        assert self.begin(raw).ended() == b""

    def begin(self, raw: bytes) -> Running:
        """Start the hook with a file of any size on stdin."""
        event = os.memfd_create("event")
        os.write(event, raw)
        os.lseek(event, 0, os.SEEK_SET)
        return self._begin(event, None)

    def start(self, raw: bytes) -> Running:
        """Start the hook with at most 64 KiB on a stdin that stays open."""
        read, write = os.pipe()
        os.write(write, raw)
        return self._begin(read, write)

    def _begin(self, stdin: int, write: int | None) -> Running:
        files = {0: stdin, 1: os.memfd_create("output")}
        command = self.instance.command
        started = start_hook(command, self.provider, self.environ, Path("/"), files, *self.options)
        return Running(started, files, write)

    def spooled(self) -> list[Any]:
        """Return the files in the spool, sorted by name."""
        return [json.loads(file.read_bytes()) for file in sorted(self._spool.glob("*/[!.]*"))]
