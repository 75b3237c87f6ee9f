"""The file with the logins and codes, which the server and commands change at the same time.

The directory has mode 0700 and the file 0600. Secrets are stored as SHA-256 only. A change is made under a lock, and
replaces the file as a whole, so a process that is killed leaves the old or the new logins.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TypeVar

import orjson

from sm.core.dataclass import dataclass
from sm.errors import ConfigError, LimitReached, NameTaken, NotFound, UsageError
from sm.linux.files import read_file, replace_private
from sm.web.logins import NAME, LoginCode, WebLogin, WebScope, find_code, find_login, secret_hash

_FILE_MAX_BYTES = 1 << 20
_LOGINS_MAX = 100
_CODES_MAX = 20
USED_EVERY_S = 60.0
"""The time of the last use is written this often, because `sm web logins` shows it."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StoredLogins:
    logins: tuple[WebLogin, ...] = ()
    codes: tuple[LoginCode, ...] = ()

    @property
    def names(self) -> set[str]:
        return {login.name for login in self.logins} | {code.name for code in self.codes}

    def without_old(self, now_s: float) -> "StoredLogins":
        return StoredLogins(
            tuple(login for login in self.logins if not login.is_over(now_s)),
            tuple(code for code in self.codes if not code.is_over(now_s)),
        )


class LoginStore:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._path = f"{directory}/logins.json"
        self._known: tuple[tuple[int, int, int], StoredLogins] | None = None

    def read(self) -> StoredLogins:
        """All logins and codes. The file is read again only after a change. Raises OSError and ConfigError."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self._known = None
            return StoredLogins()
        stamp = found.st_ino, found.st_mtime_ns, found.st_size
        if self._known is None or self._known[0] != stamp:
            self._known = stamp, _decoded(read_file(self._path, _FILE_MAX_BYTES).data)
        return self._known[1]

    def find(self, token: str, now_s: float) -> WebLogin | None:
        """The login of a token, and note its use. None also if the file cannot be read: nobody may do anything."""
        try:
            login = find_login(self.read().logins, token, now_s)
            if login is not None and not 0 <= now_s - login.used_s < USED_EVERY_S:
                self.note_use(login, now_s)
        except (OSError, ConfigError):
            return None
        return login

    def has_code(self, code: str, now_s: float) -> bool:
        """Return whether a code is valid, and write nothing. Raises OSError and ConfigError."""
        return find_code(self.read().codes, code, now_s) is not None

    def is_valid(self, login: WebLogin) -> bool:
        """Return whether a login still exists."""
        try:
            return any(known.hash == login.hash for known in self.read().logins)
        except (OSError, ConfigError):
            return False

    def note_use(self, login: WebLogin, now_s: float) -> None:
        """Note that a login is in use. Raises OSError and ConfigError."""
        self._change(lambda stored: (_used(stored, login.hash, now_s), None))

    def add_code(
        self, name: str | None, scope: WebScope, now_s: float, *, default_name: str = "browser"
    ) -> tuple[str, str]:
        """Return a new code and the name of its login. Raises NameTaken, UsageError and LimitReached."""
        if name is not None and not NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot name a login", "use up to 40 letters, digits, dots, hyphens and underscores"
            )
        code = secrets.token_urlsafe(24)

        def add(stored: StoredLogins) -> tuple[StoredLogins, str]:
            stored = stored.without_old(now_s)
            taken = stored.names
            if name in taken:
                raise NameTaken(f"a login named {name} exists", f"to end it: sm web revoke {name}")
            if len(stored.codes) >= _CODES_MAX or len(stored.logins) >= _LOGINS_MAX:
                raise LimitReached("there are too many logins", "to end one: sm web revoke NAME")
            chosen = name or _free_name(default_name, taken)
            entry = LoginCode(chosen, scope, secret_hash(code), now_s)
            return replace(stored, codes=(*stored.codes, entry)), chosen

        return code, self._change(add)

    def redeem(self, code: str, now_s: float) -> tuple[str, WebLogin] | None:
        """Trade a code for a token. Returns None if the code is wrong, late or used. Raises OSError and ConfigError."""
        token = secrets.token_urlsafe(32)

        def trade(stored: StoredLogins) -> tuple[StoredLogins, WebLogin | None]:
            entry = find_code(stored.codes, code, now_s)
            if entry is None:
                return stored, None
            login = WebLogin(entry.name, entry.scope, secret_hash(token), now_s, now_s)
            stored = replace(stored, codes=tuple(other for other in stored.codes if other is not entry))
            return replace(stored, logins=(*stored.logins, login)).without_old(now_s), login

        login = self._change(trade)
        return None if login is None else (token, login)

    def revoke(self, name: str | None) -> list[str]:
        """End a login, or all for None, with the codes of that name. Returns the names. Raises NotFound."""

        def end(stored: StoredLogins) -> tuple[StoredLogins, list[str]]:
            ended = stored.names if name is None else stored.names & {name}
            if name is not None and not ended:
                raise NotFound(f"no such login: {name}", "list logins: sm web logins")
            kept = StoredLogins(
                tuple(login for login in stored.logins if login.name not in ended),
                tuple(code for code in stored.codes if code.name not in ended),
            )
            return kept, sorted(ended)

        return self._change(end)

    def _change(self, change: Callable[[StoredLogins], tuple[StoredLogins, Result]]) -> Result:
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        with self._lock():
            before = self.read()
            after, result = change(before)
            if after != before:
                replace_private(self._path, _encoded(after))
        return result

    @contextmanager
    def _lock(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(f"{self.directory}/logins.lock", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _used(stored: StoredLogins, token_hash: str, now_s: float) -> StoredLogins:
    logins = (replace(login, used_s=now_s) if login.hash == token_hash else login for login in stored.logins)
    return replace(stored, logins=tuple(logins))


def _free_name(stem: str, taken: set[str]) -> str:
    return next(name for number in range(1, len(taken) + 2) if (name := f"{stem}-{number}") not in taken)


def _encoded(stored: StoredLogins) -> bytes:
    return orjson.dumps(asdict(stored), option=orjson.OPT_INDENT_2)


def _decoded(content: bytes) -> StoredLogins:
    """Raises ConfigError for a file that is not whole: a login that cannot be read must not count."""
    if not content:
        return StoredLogins()
    try:
        data = orjson.loads(content)
        logins: Sequence[WebLogin] = [
            WebLogin(**{**entry, "scope": WebScope(entry["scope"])}) for entry in data["logins"]
        ]
        codes = [LoginCode(**{**entry, "scope": WebScope(entry["scope"])}) for entry in data["codes"]]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            "the file with the logins of sm web is broken", "to end all logins, remove it"
        ) from None
    return StoredLogins(tuple(logins), tuple(codes))
