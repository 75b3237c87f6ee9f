"""Accounts: what a provider charges for the turns of agents, and why an account is parked. Pure."""

import hashlib
import hmac
import json
from enum import StrEnum

from sm.core.dataclass import dataclass

_DIGEST_LENGTH = 32


class ParkKind(StrEnum):
    """Reasons for which an account is parked. Stored in rows."""

    QUOTA = "quota"
    LOGIN = "login"
    BILLING = "billing"
    OPERATOR = "operator"
    """`sm pause --account`."""


class AccountTimer(StrEnum):
    """Stored in rows."""

    PARK = "park"
    """A limit of an account (the subject) may be over: one session tries."""
    FOLLOW = "follow"
    """A session goes on after the limit of its account."""


@dataclass(frozen=True, slots=True)
class Account:
    """One login of one provider, in one configuration directory."""

    name: str
    """`claude-1a2b3c4d`, for commands and lists."""
    provider: str
    directory: str
    """The agent CLI's configuration directory, absolute."""
    digest: str
    """A keyed digest of the login. The login itself is stored nowhere."""
    last_success_at: str | None = None
    """The end of a turn that succeeded (ISO 8601, UTC), at most a minute before the last one."""


@dataclass(frozen=True, slots=True)
class Park:
    """An account that starts no turn. Times are seconds since the epoch."""

    kind: ParkKind
    reason: str
    """A few words: `session limit`."""
    since: float
    until: float | None = None
    """The next attempt, or None if only a turn that succeeds, or the operator, ends the park."""
    model: str = ""
    """A part of the names of the models that it binds, or empty for all models."""
    tries: int = 0
    """Attempts that failed since the account was parked, for a reset time that is unknown or was wrong."""
    account: str = ""
    """The name of the account."""
    first: str | None = None
    """The session that goes on alone, to try whether the limit is over, or None if no session does."""

    def binds(self, model: str | None) -> bool:
        """True if an agent with this model must wait. An unknown model is bound only if all are."""
        return not self.model or self.model in (model or "").lower()


def account_of(provider: str, directory: str, login: str, key: bytes) -> Account:
    """The account of an agent. `login`: what it logs in with, which may be a secret.

    `key`: random bytes of this instance. Without them nobody can try out logins against the digest.
    """
    identity = json.dumps([provider, directory, login]).encode("utf-8", "surrogatepass")
    digest = hmac.new(key, identity, hashlib.sha256).hexdigest()[:_DIGEST_LENGTH]
    return Account(f"{provider}-{digest[:8]}", provider, directory, digest)
