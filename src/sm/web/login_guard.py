"""Lets logins in, limits wrong guesses, and tells when a login has ended."""

import asyncio
import os
import time
from contextlib import suppress

from sm.errors import ConfigError, LimitReached, Unauthenticated
from sm.linux.inotify import IN_CHANGES, FileWatch
from sm.web.login_store import USED_EVERY_S, LoginStore
from sm.web.logins import GuessLimit, WebLogin

_LOOK_EVERY_S = 2.0


class LoginGuard:
    """The logins of a running server.

    A right token and a right code always pass, because nobody can guess them: otherwise anybody on this machine could
    lock the operator out.
    """

    def __init__(self, store: LoginStore) -> None:
        self._store = store
        self._codes = GuessLimit()
        self._tokens = GuessLimit()
        self._ended: dict[asyncio.Event, WebLogin] = {}

    async def run(self) -> None:
        """Look for ended logins after each change of the file, until cancelled."""
        watch = None
        with suppress(OSError):  # without a watch it looks from time to time
            os.makedirs(self._store.directory, mode=0o700, exist_ok=True)
            watch = FileWatch()
            watch.add(self._store.directory, IN_CHANGES, lambda mask, name: self._look())
        try:
            while True:
                self._look()
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            if watch is not None:
                watch.close()

    def authenticate(self, token: str) -> WebLogin:
        """The login of a token. Raises Unauthenticated for a wrong one, and LimitReached after several wrong ones."""
        login = self._store.find(token, time.time())
        if login is not None:
            return login
        if self._tokens.is_reached(time.monotonic()):
            raise LimitReached("too many wrong logins", "wait a minute")
        self._tokens.count(time.monotonic())
        raise Unauthenticated("missing or invalid login", "for a new link: sm web link")

    async def redeem(self, code: str) -> tuple[str, WebLogin] | None:
        """Trade a code for a token. Returns None if the code is wrong, late or used.

        Raises LimitReached, and OSError and ConfigError if the logins cannot be read or written.
        """
        if not self._store.has_code(code, time.time()):
            if self._codes.is_reached(time.monotonic()):
                raise LimitReached("too many wrong codes", "wait a minute")
            self._codes.count(time.monotonic())
            return None
        return await asyncio.to_thread(self._store.redeem, code, time.time())

    def is_valid(self, login: WebLogin) -> bool:
        """Return whether the login still exists."""
        return self._store.is_valid(login)

    async def wait_ended(self, login: WebLogin) -> None:
        """Return when the login was withdrawn. Until then it is in use."""
        ended = asyncio.Event()
        self._ended[ended] = login
        try:
            while self.is_valid(login):
                try:
                    async with asyncio.timeout(USED_EVERY_S):
                        await ended.wait()
                        return
                except TimeoutError:
                    with suppress(OSError, ConfigError):
                        await asyncio.to_thread(self._store.note_use, login, time.time())
        finally:
            del self._ended[ended]

    def _look(self) -> None:
        for ended, login in self._ended.items():
            if not self.is_valid(login):
                ended.set()
