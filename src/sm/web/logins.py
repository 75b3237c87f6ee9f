"""Logins of browsers: their scopes, names and codes, and the limit of wrong guesses. Pure."""

import hashlib
import hmac
import re
from collections import deque
from collections.abc import Iterable
from enum import StrEnum

from sm.core.dataclass import dataclass

CODE_S = 120.0
"""A code is valid for this time."""
IDLE_MAX_S = 30 * 86400.0
"""A login that is not used for this time ends."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)
_GUESSES = 5
_GUESSES_WITHIN_S = 60.0


class WebScope(StrEnum):
    """The permissions of a login. Each scope includes those before it."""

    LOOK = "look"
    ANSWER = "answer"
    ALL = "all"

    def includes(self, needed: "WebScope") -> bool:
        order = list(WebScope)
        return order.index(self) >= order.index(needed)


_LOOK = frozenset({"output", "why", "copy-id"})
"""Actions that show something."""
_ANSWER = frozenset(
    {"approve", "deny", "answer", "send", "archive", "unarchive", "interrupt", "read", "seen"}
)


def scope_of(action: str) -> WebScope:
    """The scope that an action of the board needs. An action without an entry here needs the largest one."""
    return WebScope.LOOK if action in _LOOK else WebScope.ANSWER if action in _ANSWER else WebScope.ALL


@dataclass(frozen=True, slots=True)
class WebLogin:
    name: str
    scope: WebScope
    hash: str
    """Of the token: the token itself is stored in the browser only."""
    created_s: float
    used_s: float

    def is_over(self, now_s: float) -> bool:
        return now_s - self.used_s > IDLE_MAX_S


@dataclass(frozen=True, slots=True)
class LoginCode:
    """Printed in a link. A browser trades it for a token, once."""

    name: str
    scope: WebScope
    hash: str
    created_s: float

    def is_over(self, now_s: float) -> bool:
        # A clock that was set back must not lengthen its life.
        return not 0 <= now_s - self.created_s <= CODE_S


def secret_hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def find_login(logins: Iterable[WebLogin], token: str, now_s: float) -> WebLogin | None:
    """The login of a token. Compares with every login, in constant time."""
    wanted, found = secret_hash(token), None
    for login in logins:
        if hmac.compare_digest(login.hash, wanted) and not login.is_over(now_s):
            found = login
    return found


def find_code(codes: Iterable[LoginCode], code: str, now_s: float) -> LoginCode | None:
    """The entry of a code, as `find_login`."""
    wanted, found = secret_hash(code), None
    for entry in codes:
        if hmac.compare_digest(entry.hash, wanted) and not entry.is_over(now_s):
            found = entry
    return found


class GuessLimit:
    """Counts wrong codes or wrong tokens, of all callers together: all come from the same address."""

    def __init__(self) -> None:
        self._wrong: deque[float] = deque()

    def is_reached(self, clock_s: float) -> bool:
        """`clock_s`: a monotonic clock."""
        while self._wrong and clock_s - self._wrong[0] >= _GUESSES_WITHIN_S:
            self._wrong.popleft()
        return len(self._wrong) >= _GUESSES

    def count(self, clock_s: float) -> None:
        if not self.is_reached(clock_s):
            self._wrong.append(clock_s)
