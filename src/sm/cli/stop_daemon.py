"""Stops the daemon from a command, and marks it as stopped."""

import os
import select
import signal
from contextlib import suppress

from sm.cli.instance import Instance, start
from sm.client.http import Client, DaemonAway
from sm.core.lines import plural
from sm.errors import DaemonUnavailable, NotPermitted, ProtocolMismatch, WaitTimeout

# With --all, each agent may use its grace time.
_STOP_S = 300.0
_GONE_S = 30.0


def stop(instance: Instance, *, everything: bool) -> str:
    """Stop the daemon, wait until its process is gone, and say what happened."""
    if instance.is_contained and instance.session_id is not None:  # there the daemon has no pid
        raise NotPermitted("a session may not stop the daemon", "only the operator may")
    client = instance.client(start=False)
    try:
        pid = client.daemon_pid()
    except DaemonAway:
        if not everything:
            return "the daemon is not running"
        start(instance)  # agents may still run, and only a daemon can end them
        mark_stopped(instance)
        pid = client.daemon_pid()
    process = os.pidfd_open(pid)
    try:
        effect = _request_stop(client, process, everything=everything)
        poll = select.poll()
        poll.register(process, select.POLLIN)  # readable when the process is gone (pidfd_open(2))
        if not poll.poll(_GONE_S * 1000):
            raise WaitTimeout(f"the daemon (pid {pid}) did not exit within {_GONE_S:.0f} s", "sm daemon logs")
    finally:
        os.close(process)
    return f"daemon stopped, pid {pid}; {effect}"


def _request_stop(client: Client, process: int, *, everything: bool) -> str:
    """Ask the daemon to stop, and describe the effect on its agents."""
    try:
        live = client.get("/v1/health")["sessions"]
        killed = client.post("/v1/daemon/stop", {"all": everything}, timeout_s=_STOP_S)["killed"]
    except ProtocolMismatch:
        # A daemon of another version refuses requests, and a stop is the way to replace it.
        if everything:
            raise
        signal.pidfd_send_signal(process, signal.SIGTERM)
        return "all agents keep running"
    except DaemonAway:
        return "the daemon exited before it answered"
    if everything:
        return f"{plural(len(killed), 'agent')} ended"
    return f"{live} {'agent keeps' if live == 1 else 'agents keep'} running"


def mark_stopped(instance: Instance) -> None:
    """Keep commands from starting a daemon."""
    try:
        os.makedirs(instance.paths.state, 0o700, exist_ok=True)
        os.close(os.open(instance.paths.stopped, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise DaemonUnavailable(f"cannot write {instance.paths.stopped}: {error.strerror}") from None


def unmark_stopped(instance: Instance) -> None:
    """Let commands start a daemon again."""
    with suppress(FileNotFoundError):
        os.unlink(instance.paths.stopped)
