"""Runs a program to its end, for commands. A program that takes too long is ended with all that it has started."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress


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
