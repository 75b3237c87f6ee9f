"""Finds the daemon of a command. Starts it, or waits for it, when it does not answer."""

import os
import sys
import time
from collections.abc import Mapping

from sm.client.http import Client, DaemonAway, owner_hint
from sm.errors import DaemonUnavailable, NotPermitted, RateLimited, SandboxBusy, UsageError
from sm.paths import InstancePaths, instance_paths
from sm.wire import AGENT_SOCKET_NAME, SANDBOX_STATE

PATIENCE_S = 5.0
"""The longest wait of an agent's command for the daemon."""
RATE_WAIT_S = 30.0
"""The longest total wait of a command whose session exceeds a rate limit."""
_JITTER_S = 0.2
_MOST_STARTS = 3
_SOCKET_IN_STATE = "/run/sm.sock"


class Instance:
    """The instance of sm that the environment variables select.

    `session_id` is set in an agent's command, and decides only how to wait for the daemon: the daemon identifies its
    caller through the kernel.
    """

    __slots__ = ("environ", "paths", "session_id", "socket_path")

    def __init__(self, environ: Mapping[str, str]) -> None:
        home = environ.get("SM_HOME", "")
        if home and not home.startswith("/"):
            # instance_paths() ignores a relative path, as the XDG specification demands for its own variables. The user
            # would then change another instance than intended.
            raise UsageError(f"SM_HOME must be an absolute path, not {home!r}")
        self.environ = environ
        self.paths = instance_paths(environ)
        self.session_id = environ.get("SM_SESSION_ID") or None
        self.socket_path = environ.get("SM_SOCKET") or self.paths.socket
        if self.session_id is not None and self.socket_path.endswith(_SOCKET_IN_STATE):
            # An agent has no SM_HOME: the path of its socket leads to its instance.
            state = self.socket_path.removesuffix(_SOCKET_IN_STATE)
            self.paths = InstancePaths(self.paths.config, state)
        elif self.is_contained:
            # The daemon looks for the spool there, whatever XDG_STATE_HOME says.
            self.paths = InstancePaths(self.paths.config, environ.get("HOME", "") + SANDBOX_STATE)

    @property
    def is_contained(self) -> bool:
        """True in an agent's command in a container, which reaches the daemon through an agent socket."""
        return self.session_id is not None and self.socket_path.endswith(AGENT_SOCKET_NAME)

    @property
    def has_default_socket(self) -> bool:
        """True when a daemon started by this command would listen on `socket_path`."""
        return self.socket_path == self.paths.socket

    @property
    def was_stopped(self) -> bool:
        return self.has_default_socket and os.path.lexists(self.paths.stopped)

    def client(self, *, start: bool = True, rate_wait_s: float | None = None) -> Client:
        """Return a client that starts the daemon (for an agent: waits for it) and retries; not with `start=False`.

        `rate_wait_s` of None waits the default time for a rate limit, and does not wait for a busy sandbox, which may
        stay so for hours.
        """
        if not start:
            return Client(self.socket_path)
        on_away = _DaemonStarter(self) if self.session_id is None else _DaemonWaiter(self)
        return Client(self.socket_path, on_away, _RateLimitWaiter(rate_wait_s))


class _DaemonWaiter:
    """Waits for the daemon. An agent never starts it: the operator or systemd does."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.deadline: float | None = None

    def __call__(self, away: DaemonAway) -> None:
        if self.instance.was_stopped:
            raise daemon_stopped_error()
        now = time.monotonic()
        self.deadline = self.deadline or now + PATIENCE_S
        if now > self.deadline:
            raise away
        time.sleep(0.05)


class _RateLimitWaiter:
    """Waits until the rate limit allows a retry, `wait_s` in all. Prints the first refusal, and raises the last.

    `wait_s` of None means the same as in `Instance.client`.
    """

    def __init__(self, wait_s: float | None) -> None:
        self.left_s = RATE_WAIT_S if wait_s is None else wait_s
        self.waits_for_room = wait_s is not None
        self.tries = 0

    def __call__(self, limited: RateLimited) -> None:
        if isinstance(limited, SandboxBusy) and not self.waits_for_room:
            raise limited
        # Of several waiting commands one gets through. Shorter jitter after more tries favours the longest wait.
        self.tries += 1
        pause_s = limited.retry_after_s + _JITTER_S * os.urandom(1)[0] / 256 / self.tries
        if limited.retry_after_s > self.left_s:
            raise limited
        if self.tries == 1:
            from sm.core.text import folded

            sys.stderr.write(f"waiting: {folded(limited.message, 4000)}\n")
            sys.stderr.flush()
        self.left_s -= pause_s
        time.sleep(pause_s)


class _DaemonStarter:
    """Starts the daemon for an operator's command, again when it dies before it answers."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.starts = 0

    def __call__(self, away: DaemonAway) -> None:
        if not self.instance.has_default_socket:
            raise DaemonUnavailable(away.message, "to use your own daemon: unset SM_SOCKET")
        if self.instance.was_stopped:
            raise daemon_stopped_error()
        self.starts += 1
        if self.starts > _MOST_STARTS:
            raise DaemonUnavailable(
                f"the daemon exited {_MOST_STARTS} times before its first answer", "sm daemon logs"
            )
        start(self.instance)


def start(instance: Instance, *options: str) -> None:
    """Return when a daemon of this instance is ready, started here, with `options`, or by another command."""
    _check_owner(instance)
    from sm.cli.start_daemon import launch

    launch(instance.paths, instance.environ, *options)


def daemon_stopped_error() -> DaemonUnavailable:
    return DaemonUnavailable("the daemon is stopped", "sm daemon start")


def _check_owner(instance: Instance) -> None:
    """Refuse another user's instance: root with a user's HOME would leave files that the user cannot write."""
    path = instance.paths.state
    exists = os.path.exists(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    owner = os.stat(path).st_uid
    if owner != os.geteuid() and (exists or "SUDO_UID" in instance.environ):
        raise NotPermitted(f"{path} belongs to user id {owner}", owner_hint(owner))
