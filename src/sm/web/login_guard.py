"""Lets logins in, limits wrong guesses, and tells when a login has ended."""

import asyncio
import time

from sm.web.login_store import LoginStore
from sm.web.logins import GuessLimit, Login

_LOOK_EVERY_S = 1.0


class LoginGuard:
    """The logins of a running server.

    A right token always passes, because it cannot be guessed: else anybody on this machine could lock the operator
    out. Codes do not pass while the limit is reached.
    """

    def __init__(self, store: LoginStore) -> None:
        self._store = store
        self._codes = GuessLimit()
        self._tokens = GuessLimit()
        self._ended = asyncio.Condition()

    def find(self, token: str) -> Login | None:
        """The login of a token. A wrong one counts."""
        login = self._store.find(token, time.time())
        if login is None:
            self._tokens.count(time.monotonic())
        return login

    def is_token_limit_reached(self) -> bool:
        return self._tokens.is_reached(time.monotonic())

    def is_code_limit_reached(self) -> bool:
        return self._codes.is_reached(time.monotonic())

    def redeem(self, code: str) -> tuple[str, Login] | None:
        """Trade a code for a token. Raises OSError and ValueError if the logins cannot be read or written."""
        traded = self._store.redeem(code, time.time())
        if traded is None:
            self._codes.count(time.monotonic())
        return traded

    def is_valid(self, login: Login) -> bool:
        """Return whether the login still exists."""
        return self._store.is_valid(login)

    async def wait_ended(self, login: Login) -> None:
        """Return when the login was withdrawn."""
        while self.is_valid(login):  # noqa: ASYNC110 - one stat; every frame of the browser looks too
            await asyncio.sleep(_LOOK_EVERY_S)
