"""The JSON objects in the answers of the routes of accounts."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc


class ParkView(TypedDict):
    """A reason for which an account starts no turn."""

    kind: Annotated[str, doc("quota, login, billing or operator.")]
    reason: Annotated[str, doc("A few words, such as `session limit`.")]
    since: str
    until: Annotated[
        str | None, doc("The next attempt; null: a turn that succeeds, or the operator, ends it.")
    ]
    model: Annotated[str | None, doc("A part of the names of the models that it binds; null: all models.")]


class AccountView(TypedDict):
    """An account: one login of one provider. No part of the login is in it."""

    name: str
    provider: str
    directory: Annotated[str, doc("The configuration directory of the agent CLI.")]
    sessions: Annotated[int, doc("The number of live sessions.")]
    waiting: Annotated[
        int, doc("The number of sessions that would start a turn if the account was not parked.")
    ]
    paused: Annotated[int, doc("The number of live sessions that were paused with the account.")]
    spends: Annotated[
        list[str],
        doc("What these still spend, for people: `engineer-login: 3 background agents still spend`."),
    ]
    parks: list[ParkView]
    last_success_at: Annotated[str | None, doc("The last turn that succeeded, to the minute.")]


class ResumedView(TypedDict):
    resumed: Annotated[bool, doc("False: the account was not parked.")]
