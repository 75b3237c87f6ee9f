"""Finds the daemon of a command, and starts it or waits for it when it does not answer."""

import os
import sys
import time
from collections.abc import Mapping

from sm.client.http import Away, Client, owner_hint
from sm.errors import DaemonUnavailable, NotPermitted, RateLimited, UsageError
from sm.paths import Places, places

PATIENCE_S = 5.0
"""How long a session's command waits for a daemon that is away."""
RATE_WAIT_S = 30.0
"""How long a command waits, in all, when its session is too fast."""
_JITTER_S = 0.2
_MOST_STARTS = 3
_SOCKET_IN_STATE = "/run/sm.sock"


class Instance:
    """What the environment of this process names.

    `session_id` is set in an agent's command. It says only how patient to be: the daemon asks the kernel who
    calls.
    """

    __slots__ = ("environ", "places", "session_id", "socket_path")

    def __init__(self, environ: Mapping[str, str]) -> None:
        home = environ.get("SM_HOME", "")
        if home and not home.startswith("/"):
            # places() ignores it, as the XDG specification demands of its own variables; a person who typed it
            # would then change another instance than the one that was meant.
            raise UsageError(f"SM_HOME must be an absolute path, and {home!r} is not")
        self.environ = environ
        self.places = places(environ)
        self.session_id = environ.get("SM_SESSION_ID") or None
        self.socket_path = environ.get("SM_SOCKET") or self.places.socket
        if self.session_id is not None and self.socket_path.endswith(_SOCKET_IN_STATE):
            # An agent has no SM_HOME: its socket says where its instance lies.
            state = self.socket_path.removesuffix(_SOCKET_IN_STATE)
            self.places = Places(self.places.config, state)

    @property
    def own_socket(self) -> bool:
        """Whether a daemon started from here would listen where this command asks."""
        return self.socket_path == self.places.socket

    @property
    def was_stopped(self) -> bool:
        return self.own_socket and os.path.lexists(self.places.stopped)

    def client(self, *, start: bool = True, rate_wait_s: float = RATE_WAIT_S) -> Client:
        """The way to the daemon. `start=False`: a command that never starts it, nor waits for it."""
        if not start:
            return Client(self.socket_path)
        on_away = _Starter(self) if self.session_id is None else _Patience(self)
        return Client(self.socket_path, on_away, _Pace(rate_wait_s))


class _Patience:
    """A session never starts the daemon: the operator, or systemd, is about to."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.deadline: float | None = None

    def __call__(self, away: Away) -> None:
        if self.instance.was_stopped:
            raise stopped()
        now = time.monotonic()
        self.deadline = self.deadline or now + PATIENCE_S
        if now > self.deadline:
            raise away
        time.sleep(0.05)


class _Pace:
    """Waits until the next may come, and says why, once. Raises what it was told when that takes too long."""

    def __init__(self, wait_s: float) -> None:
        self.left_s = wait_s
        self.tries = 0

    def __call__(self, limited: RateLimited) -> None:
        # Of those who wait for one moment one gets it: whoever has waited longest comes first.
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


class _Starter:
    """The operator's commands start the daemon, and repeat what they asked when it died over it."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.starts = 0

    def __call__(self, away: Away) -> None:
        if not self.instance.own_socket:
            raise DaemonUnavailable(away.message, "SM_SOCKET names another daemon's socket: unset SM_SOCKET")
        if self.instance.was_stopped:
            raise stopped()
        self.starts += 1
        if self.starts > _MOST_STARTS:
            raise DaemonUnavailable(
                f"the daemon went away {_MOST_STARTS} times before it had answered", "sm daemon logs"
            )
        start(self.instance)


def start(instance: Instance) -> None:
    """Start the daemon of this instance and return when one is ready, whoever started it."""
    _check_owner(instance)
    from sm.cli.start_daemon import launch

    launch(instance.places, instance.environ)


def stopped() -> DaemonUnavailable:
    return DaemonUnavailable("the daemon was stopped", "sm daemon start")


def _check_owner(instance: Instance) -> None:
    """Root with a user's HOME would leave files there that their owner cannot write."""
    path = instance.places.state
    found = os.path.exists(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    owner = os.stat(path).st_uid
    if owner != os.geteuid() and (found or "SUDO_UID" in instance.environ):
        raise NotPermitted(f"{path} belongs to user {owner}", owner_hint(owner))
