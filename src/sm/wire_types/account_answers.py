"""The JSON objects in the answers of the routes of accounts."""

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ParkView:
    """A reason for which an account starts no turn."""

    kind: str
    """quota, login, billing or operator."""
    reason: str
    """A few words, such as `session limit`."""
    since: str
    until: str | None
    """The next attempt, or null if a turn that succeeds, or the operator, ends the park."""
    model: str | None
    """A part of the names of the models that it binds, or null for all models."""


@dataclass(frozen=True, slots=True)
class AccountView:
    """An account: one login of one provider. No part of the login is in it."""

    name: str
    provider: str
    directory: str
    """The configuration directory of the agent CLI."""
    sessions: int
    """The number of live sessions."""
    waiting: int
    """The number of sessions that would start a turn if the account was not parked."""
    paused: int
    """The number of live sessions that were paused with the account."""
    spends: list[str]
    """The spending of these sessions that goes on, for people: `engineer-login: 3 background agents still spend`."""
    parks: list[ParkView]
    last_success_at: str | None
    """The last turn that succeeded, to the minute."""


@dataclass(frozen=True, slots=True)
class ResumedView:
    resumed: bool
    """False if the account was not parked."""
