"""The address of the running server: its file, and the lock that shows that the server runs."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict

import orjson

from sm.core.dataclass import dataclass
from sm.errors import AlreadyRunning
from sm.linux.files import read_or_empty, replace_private
from sm.web.hosts import HostRules

_FILE_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The address of a running server."""

    pid: int
    port: int
    hosts: tuple[str, ...]
    """Of the configuration that the server read."""
    bind: str = "127.0.0.1"
    is_secure: bool = False
    """The server itself speaks https."""

    @property
    def rules(self) -> HostRules:
        return HostRules(self.port, self.hosts, bind=self.bind, is_secure=self.is_secure)

    @property
    def origin(self) -> str:
        """The origin for a browser: with a certificate its first name, else the address."""
        return self.rules.named[self.hosts[0]] if self.is_secure and self.hosts else self.rules.bound

    def link(self, code: str, *, host: str | None = None) -> str:
        """The link that logs in a browser. The code is in the fragment, which a browser does not send.

        `host`: one of `hosts`.
        """
        return f"{self.origin if host is None else self.rules.named[host]}/#{code}"

    def link_for_others(self, code: str) -> str | None:
        """The link that another device can open, on the first of `hosts`. None if only this machine can open it."""
        if self.hosts:
            return self.link(code, host=self.hosts[0])
        return None if self.rules.bound in self.rules.on_loopback else self.link(code)


def running_server(directory: str) -> WebAddress | None:
    """The address of the server of an instance, or None if no server runs."""
    with suppress(FileNotFoundError):
        descriptor = os.open(_lock_path(directory), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _address(directory)
        finally:
            os.close(descriptor)
    return None


def write_address(directory: str, address: WebAddress) -> None:
    replace_private(f"{directory}/server.json", orjson.dumps(asdict(address)))


@contextmanager
def server_lock(directory: str) -> Iterator[None]:
    """Hold the lock of the instance. Raises AlreadyRunning."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(_lock_path(directory), flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        address = _address(directory)
        where = "" if address is None else f" on port {address.port} (pid {address.pid})"
        raise AlreadyRunning(f"sm web already runs{where}", "for another link: sm web link") from None
    finally:
        os.close(descriptor)


def _address(directory: str) -> WebAddress | None:
    try:
        data = orjson.loads(read_or_empty(f"{directory}/server.json", _FILE_MAX_BYTES))
        return WebAddress(**{**data, "hosts": tuple(data["hosts"])})
    except (ValueError, KeyError, TypeError):
        return None


def _lock_path(directory: str) -> str:
    return f"{directory}/server.lock"
