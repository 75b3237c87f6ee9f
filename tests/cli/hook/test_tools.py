"""`sm hook claude --await-tools` as a process: the hook that holds a turn ends with its agent."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cli.hook.events import HOOKS
from tests.cli.hook.test_emit import PATIENT_HOOK, Hook
from tests.cli.peer import SILENCE, Peer, answer

TOOLS = "POST /v1/hooks/tools"
RAW = b'{"hook_event_name": "UserPromptSubmit", "prompt": "go on"}'
PATIENT = f"from sm.cli.hook import tools\ntools._ALL_S = 600.0\n{PATIENT_HOOK}"
"""The hook of a busy machine, which also waits longer for the tools."""


@contextmanager
def held(hook: Hook, peer: Peer, stdout: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A hook that holds its turn, because the daemon does not answer."""
    peer.script(HOOKS, answer({}))
    peer.script(TOOLS, SILENCE)
    argv = [sys.executable, "-c", PATIENT, "hook", "claude", "--await-tools"]
    with subprocess.Popen(argv, env=hook.environ, stdin=subprocess.PIPE, stdout=stdout) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(RAW)
            process.stdin.close()
            peer.wait_received(2)
            assert process.poll() is None
            yield process
        finally:
            process.kill()


def pair() -> tuple[int, int]:
    read, write = socket.socketpair()
    return read.detach(), write.detach()


@pytest.mark.parametrize("ends", [os.pipe, pair])
def test_held_hook_ends_when_the_agent_closes_its_end(
    hook: Hook, peer: Peer, ends: Callable[[], tuple[int, int]]
) -> None:
    read, write = ends()
    with held(hook, peer, write) as process:
        os.close(write)
        os.close(read)
        assert process.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_held_hook_ends_when_the_agent_ends_it(hook: Hook, peer: Peer, number: signal.Signals) -> None:
    with held(hook, peer, subprocess.DEVNULL) as process:
        process.send_signal(number)
        assert process.wait() == -number
