"""Runs a long command of git, tells how far it is, and ends it with everything that it has started."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

from sm.capabilities.worktrees.git.calls import killed, prepared, reason_of
from sm.errors import ExternalError
from sm.linux.parent_death import die_with_parent

Report = Callable[[str, int | None], None]
"""Gets what is done, such as `checking out`, and the part that is done, in per cent, if that is known."""

_STEPS = {
    b"Updating files": "checking out",
    b"Receiving objects": "fetching",
    b"Resolving deltas": "fetching",
    b"Filtering content": "downloading files",
}
_LINE = re.compile(rb"(?:remote: )?([A-Z][a-z]+ [a-z]+): +(\d{1,3})% \(\d+/(\d+)\)")
_FILES = b"Updating files"
_FILES_PER_S = 1_000
_KEPT_MAX = 16_000
_EVERY_S = 0.2


class Cancelled(Exception):
    """Nobody wants the result any more."""


def git_with_progress(
    directory: str,
    *arguments: str,
    report: Report,
    cancelled: threading.Event,
    within_s: float,
    variables: Mapping[str, str] = MappingProxyType({}),
    network: str = "",
) -> None:
    """Run git in a process group of its own. `within_s`: the time limit. `network`: as for `prepared`.

    The limit grows by a second for each 1,000 files that git writes. Raises Cancelled, and ExternalError with git's own
    message, and as `prepared`.
    """
    with prepared(directory, arguments, network=network) as (argv, environment):
        process = subprocess.Popen(
            argv,
            env={**environment, **variables, "GIT_PROGRESS_DELAY": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # git goes on for nobody when this process is killed
        )
        limit = _TimeLimit(within_s)
        done = threading.Event()
        watch = threading.Thread(target=_end_when, args=(process, cancelled, done, limit), daemon=True)
        watch.start()
        try:
            said = _follow(process, report, limit)
            code = process.wait()
        finally:
            done.set()
            _kill(process)
            watch.join()
    if cancelled.is_set():
        raise Cancelled
    if code < 0 and limit.has_ended_git:
        raise ExternalError(f"git {arguments[0]} did not finish within {limit.within_s:.0f} s")
    if code < 0:
        raise killed(arguments, code)
    if code:
        raise ExternalError(reason_of(said, code))


class _TimeLimit:
    """The time that one command of git has."""

    has_ended_git = False

    def __init__(self, within_s: float) -> None:
        self._least_s = self.within_s = within_s
        self._begun = time.monotonic()

    def grow(self, files: int) -> None:
        """Let the limit be that for so many files."""
        self.within_s = self._least_s + files / _FILES_PER_S

    def is_over(self) -> bool:
        return time.monotonic() - self._begun > self.within_s


def _follow(process: "subprocess.Popen[bytes]", report: Report, limit: _TimeLimit) -> bytes:
    """Report the progress until the end of the output. Return the end of what git said."""
    assert process.stderr is not None
    said, shown, next_s = b"", ("", -1), 0.0
    with process.stderr as stream:
        while piece := os.read(stream.fileno(), 65_536):
            said = (said + piece)[-_KEPT_MAX:]
            found = _LINE.findall(piece)
            for name, _, total in found:
                if name == _FILES:
                    limit.grow(int(total))
            if found and (step := _STEPS.get(found[-1][0])) is not None:
                now = step, int(found[-1][1])
                if now != shown and (now[1] == 100 or time.monotonic() > next_s):
                    report(*now)
                    shown, next_s = now, time.monotonic() + _EVERY_S
    return said


def _end_when(
    process: "subprocess.Popen[bytes]", cancelled: threading.Event, done: threading.Event, limit: _TimeLimit
) -> None:
    while not done.wait(0.05):
        if cancelled.is_set() or limit.is_over():
            limit.has_ended_git = True
            _kill(process)
            return


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
