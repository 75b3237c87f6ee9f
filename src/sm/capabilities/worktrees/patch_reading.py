"""Reads the work of a session as a patch while git writes it, and the sizes of its binary files."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Timer
from typing import IO, BinaryIO

from sm.capabilities.worktrees.git.calls import prepared, reason_of
from sm.capabilities.worktrees.git.present_files import DIFF
from sm.capabilities.worktrees.work import Work
from sm.core.dataclass import dataclass
from sm.errors import ExternalError

_SAID_MAX = 65_536
_AS_WRITTEN = ("--no-color", "--src-prefix=a/", "--dst-prefix=b/")
"""Whatever the user's own configuration says."""

Begun = Callable[[Callable[[], None]], object]
"""Gets a function that ends git early, from any thread."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of a reader that keeps what it has read."""

    seconds: float
    line_bytes: int
    """The rest of a longer line is left out."""
    all_bytes: int
    """Lines behind these are left out."""


@contextmanager
def difference_lines(
    work: Work, *options: str, limits: ReadLimits | None = None, begun: Begun = lambda end: None
) -> Iterator[Iterator[bytes]]:
    """Yield the lines of `git diff` with these options as git writes them. Leaving the block ends git.

    `begun` is called when git runs. Raises ExternalError with git's own message when git fails, and when it was ended
    early or takes longer than its limit.
    """
    arguments = (*DIFF, *_AS_WRITTEN, *options, work.base, "--")
    with ExitStack() as stack:
        variables = stack.enter_context(work.index())
        argv, environment = stack.enter_context(prepared(work.top, arguments))
        said = stack.enter_context(tempfile.TemporaryFile())
        process = stack.enter_context(
            subprocess.Popen(
                argv,
                env=environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
            )
        )
        stack.callback(process.kill)
        begun(process.kill)
        if limits is not None:
            timer = Timer(limits.seconds, process.kill)
            timer.daemon = True
            timer.start()
            stack.callback(timer.cancel)
        yield _until_end(process, said, limits)


def _until_end(
    process: "subprocess.Popen[bytes]", said: BinaryIO, limits: ReadLimits | None
) -> Iterator[bytes]:
    assert process.stdout is not None
    if limits is None:
        yield from process.stdout
    elif (yield from _limited(process.stdout, limits)):
        return
    code = process.wait()
    if code < 0:
        limit = "" if limits is None else f", or did not finish within {limits.seconds:g} s"
        raise ExternalError(f"git diff was ended by signal {-code}{limit}")
    if code:
        said.seek(0)
        raise ExternalError(f"git diff failed: {reason_of(said.read(_SAID_MAX), code)}")


def _limited(stream: IO[bytes], limits: ReadLimits) -> Generator[bytes, None, bool]:
    """Yield lines within the limits. Returns True if there are more."""
    left = limits.all_bytes
    while line := stream.readline(limits.line_bytes):
        end = line
        while end and not end.endswith(b"\n"):
            end = stream.readline(limits.line_bytes)
            left -= len(end)
        left -= len(line)
        if left < 0:
            return True
        yield line
    return False


class ObjectSizes:
    """Asks one git for the sizes of objects, which it is started for at the first question."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._stack = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        self._stack.close()

    def of_object(self, name: str) -> int | None:
        """The bytes of an object. None for the name of no object, and for one that the repository has not."""
        if not name.strip("0"):
            return None
        if self._process is None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError, ValueError):
            process.stdin.write(f"{name}\n".encode())
            process.stdin.flush()
            return int(process.stdout.readline())
        return None

    def of_file(self, path: str) -> int | None:
        """The bytes of a file of the work. Follows no link."""
        try:
            return os.lstat(f"{self._top}/{path}").st_size
        except (OSError, ValueError):
            return None

    def _start(self) -> "subprocess.Popen[bytes]":
        arguments = ("cat-file", "--batch-check=%(objectsize)")
        argv, environment = self._stack.enter_context(prepared(self._top, arguments))
        process = self._stack.enter_context(
            subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        )
        self._stack.callback(process.kill)
        return process
