"""Runs a program to its end, for commands. A program that takes too long is ended with all that it has started."""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sm.core.dataclass import dataclass
from sm.linux.parent_death import die_with_parent


def run_in_group(argv: Sequence[str], *, within_s: float) -> "subprocess.CompletedProcess[str]":
    """Run a program without input, in a process group of its own, and return its output.

    Raises OSError if it cannot be run, and subprocess.TimeoutExpired. After any exception its group has been killed.
    """
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=within_s)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, output, errors)


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The exit code of a program, negative for a signal, and the ends of its output and of its errors."""

    code: int
    output: bytes
    errors: bytes
    is_cut: bool
    """The output had more than what is kept."""


def run_limited(
    argv: Sequence[str],
    *,
    within_s: float,
    kept_max: int,
    env: Mapping[str, str],
    cwd: str = "/",
    text: bytes = b"",
) -> ProgramOutput:
    """Run a program with `text` as its input, in a process group and a session of its own, so without a terminal.

    Keeps the last `kept_max` bytes of its output and of its errors. Raises OSError if it cannot be run, and
    subprocess.TimeoutExpired. After any exception its group has been killed.
    """
    with tempfile.TemporaryFile() as given:
        given.write(text)
        given.seek(0)
        with subprocess.Popen(
            argv,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        ) as process:
            try:
                ends, is_cut = _read(process, within_s, kept_max)
                code = process.wait()
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
    return ProgramOutput(code, *ends, is_cut)


def _read(
    process: "subprocess.Popen[bytes]", within_s: float, kept_max: int
) -> tuple[tuple[bytes, bytes], bool]:
    """Read both streams to their ends. Returns the last bytes of each, and whether the output had more."""
    assert process.stdout is not None
    assert process.stderr is not None
    kept: dict[int, bytes] = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
    is_cut, until = False, time.monotonic() + within_s
    with selectors.DefaultSelector() as streams:
        for descriptor in kept:
            streams.register(descriptor, selectors.EVENT_READ)
        while streams.get_map():
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired(process.args, within_s)
            for key, _ in streams.select(left_s):
                if not (piece := os.read(key.fd, 65_536)):
                    streams.unregister(key.fd)
                    continue
                grown = kept[key.fd] + piece
                is_cut = is_cut or (key.fd == process.stdout.fileno() and len(grown) > kept_max)
                kept[key.fd] = grown[-kept_max:]
    return (kept[process.stdout.fileno()], kept[process.stderr.fileno()]), is_cut
