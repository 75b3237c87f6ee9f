"""Runs the commands of a worktree before it is removed, as the user who types `sm rm` or `sm worktree prune`."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from sm.capabilities.worktrees.own_trees import OwnTree
from sm.core.text import folded

_LINES_SHOWN = 5
_LINE_MAX = 1_000
_READ_MAX = 16_384
_SHOWN_MAX = 200
_DRAINS_WITHIN_S = 1.0
_OF_ANOTHER_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
)


def tear_down(tree: OwnTree, lock: int | None = None) -> str | None:
    """Run the commands one after the other, with their output on a terminal. Return why one has failed, or None.

    The caller knows that no sandboxed session could write there, and that nobody works there. `lock`: a descriptor that
    the commands keep open: see `removal_lock`.
    """
    until = time.monotonic() + tree.teardown_within_s
    environment = {n: v for n, v in os.environ.items() if n not in _OF_ANOTHER_REPOSITORY}
    for command in tree.teardown:
        with _Death() as death:
            try:
                run = _Run(command, tree.path, environment, lock)
            except OSError as error:
                return f"its tear-down {folded(command, _SHOWN_MAX)!r} cannot start: {error.strerror}"
            death.ends(run)
            code = run.end(until)
        if code != 0:
            how = f"did not end within {tree.teardown_within_s:g} s" if code is None else _ended(code)
            lines = " | ".join(run.lines) or "it printed nothing"
            return f"its tear-down {folded(command, _SHOWN_MAX)!r} {how}: {lines}"
    return None


class _Death:
    """Ends the command when a signal ends this process, as when its terminal closes. Only in the main thread.

    The command has a session of its own, so the terminal signals it not at all. A signal that comes while the command
    starts waits until it can be ended.
    """

    def __init__(self) -> None:
        self._run: _Run | None = None
        self._number: int | None = None
        self._handled: list[signal.Signals] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            ending = (signal.SIGTERM, signal.SIGHUP)
            self._handled = [one for one in ending if signal.getsignal(one) is signal.SIG_DFL]
        for one in self._handled:
            signal.signal(one, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._handled:
            signal.signal(one, signal.SIG_DFL)
        if self._number is not None:  # the command could not be started
            os.kill(os.getpid(), self._number)

    def ends(self, run: "_Run") -> None:
        self._run = run
        if self._number is not None:
            self._die(run, self._number)

    def _note(self, number: int, _: object) -> None:
        self._number = number
        if self._run is not None:
            self._die(self._run, number)

    def _die(self, run: "_Run", number: int) -> None:
        run.kill()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _ended(code: int) -> str:
    return f"ended with signal {-code}" if code < 0 else f"ended with exit code {code}"


class _Run:
    """One command that runs. `lines`: its last lines of output."""

    def __init__(
        self, command: str, directory: str, environment: Mapping[str, str], lock: int | None
    ) -> None:
        self.lines = deque[str](maxlen=_LINES_SHOWN)
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=environment,
            start_new_session=True,
            pass_fds=() if lock is None else (lock,),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            is_new = True
            while data := output.readline(_READ_MAX):
                is_rest, is_new = not is_new, data.endswith(b"\n")
                if is_rest:  # of a line that is too long
                    continue
                text = folded(data.decode("utf-8", "replace").rstrip("\r\n"), _LINE_MAX)
                if text.strip():
                    self.lines.append(folded(text, _SHOWN_MAX))
                if sys.stderr.isatty():
                    sys.stderr.write(f"{text}\n")

    def end(self, until: float) -> int | None:
        """Wait for the end of the command. Return its exit code as of `subprocess`, or None after the time.

        Ends it with everything that it has started after the time, and when a person presses Ctrl-C.
        """
        code: int | None = None
        try:
            code = self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        finally:
            if code is None:
                self.kill()
                self._process.wait()
        # A program in the background may have the output open for ever.
        self._reader.join(_DRAINS_WITHIN_S)
        return code

    def kill(self) -> None:
        """Kill the command with everything that it has started in its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
