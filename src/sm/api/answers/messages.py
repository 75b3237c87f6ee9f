"""The JSON objects in the answers of the routes of messages."""

from typing import Annotated, NotRequired

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.core.states import MessageMode, MessageState
from sm.wire_types.fields import Time

_Sender = TypedDict(
    "_Sender",
    {
        "from": Annotated[
            str, doc("`operator`, `sm`, the id of a session, or a user such as `telegram:4711`.")
        ]
    },
)


class MessageView(_Sender):
    """A message to a session, without its text."""

    message_id: Annotated[int | None, doc("Null: the text answered a question.")]
    from_label: Annotated[str, doc("The sender for people: the label of a session, or `from`.")]
    session_id: Annotated[str | None, doc("The recipient; null: the operator's inbox.")]
    label: Annotated[
        str,
        doc("The recipient for people: as in SessionView, but the id of a session without a friendly name."),
    ]
    status: MessageState
    mode: MessageMode
    evidence: Annotated[str | None, doc("The proof of delivery.")]
    reason: Annotated[str | None, doc("Why the message is not delivered, or not yet.")]
    created_at: Time
    submitted_at: Annotated[Time | None, doc("When the recipient confirmed the message.")]
    acknowledged_at: Time | None
    expires_at: Time | None
    held_until: Annotated[
        str | None,
        doc(
            "The time at which a held message goes on; empty: when somebody allows it; null: it is not held."
        ),
    ]
    settled: Annotated[
        bool,
        doc(
            "False: not final, or only the agent's prompt hook has reported the message, and a hook may refuse it."
        ),
    ]


class SentView(MessageView):
    """A sent message."""

    request_id: NotRequired[Annotated[str, doc("The question that the text answered.")]]
    unarchived: NotRequired[
        Annotated[bool, doc("True: the session was archived, and the message has unarchived it.")]
    ]


class LoggedView(MessageView):
    """A message of the log."""

    text: Annotated[str, doc("The first 2,000 characters.")]


class LetterView(MessageView):
    """A message with its text."""

    text: str
    shown: Annotated[str, doc("The text under the header that only the daemon writes.")]
