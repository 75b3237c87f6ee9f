"""The JSON objects in the answer of the route of the digest."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.answers.sessions import SessionLabel
from sm.api.fields import doc
from sm.wire_types.fields import Time


class DigestEntryView(TypedDict):
    session_id: str
    label: SessionLabel
    status: Annotated[str, doc("The status of a session, the kind of a request or of a warning.")]
    at: Time
    text: str
    command: Annotated[str, doc("The command that shows more.")]
    times: Annotated[int, doc("How often it happened: more than one only for a warning.")]


class TreeSpendingView(TypedDict):
    """The spending of a session and its descendants since the beginning of the digest."""

    session_id: Annotated[str, doc("The root of the tree.")]
    label: SessionLabel
    sessions: Annotated[int, doc("The sessions of the tree that have spent anything.")]
    tokens_used: Annotated[int, doc("Input and output, without the cache.")]
    cost_usd: Annotated[float | None, doc("Null: the price of a model, or some tokens, are unknown.")]
    budget: Annotated[str | None, doc("The budget of the root, and how much of it is spent; null: none.")]
    known_cost_usd: Annotated[
        float | None, doc("The part of the cost whose prices are known; null: there is none.")
    ]
    tokens_partial: Annotated[bool, doc("True: some tokens cannot be read, so there are more.")]
    is_part: Annotated[bool, doc("Another entry, that of the root of its tree, contains this one.")]


class DigestView(TypedDict):
    """The events since a time, worst first, as far as the caller may see it."""

    since: Time
    until: Time
    ended: Annotated[list[DigestEntryView], doc("Failures first.")]
    requests: Annotated[list[DigestEntryView], doc("Open requests; the text ends with the command to type.")]
    warnings: Annotated[list[DigestEntryView], doc("The newest of each session and kind.")]
    live: Annotated[list[DigestEntryView], doc("Sessions that may wait for somebody first.")]
    spending: Annotated[list[TreeSpendingView], doc("The most expensive tree first.")]
    removed: Annotated[int, doc("Sessions that ended in this time and were removed.")]
