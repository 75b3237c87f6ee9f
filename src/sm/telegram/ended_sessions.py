"""Sessions that have ended, and that a chat names again: the chat continues them instead of starting a second one."""

from sm.core.labels import label
from sm.core.lifecycle import is_ended
from sm.core.models import RequestKey, Session
from sm.core.requests import Request
from sm.core.states import MessageMode
from sm.core.wording import outcome
from sm.errors import NotFound, UnknownAgentType, UsageError
from sm.services import Authorizer, Messages, Records, Restorer
from sm.telegram.command_call import CommandCall
from sm.telegram.replies import BotReply, NewButton
from sm.telegram.text_outcomes import outcome_words

_OFFER_S = 3600.0


def offer(session: Session, words: str, text: str) -> BotReply:
    """Offer to continue a session whose process is gone. `words`: why that is needed; `text`: for the session."""
    buttons = [[NewButton("Restore and send", f"restore {session.id} {text}")]]
    if session.archived:
        buttons.append([NewButton("Unarchive only", f"unarchive {session.id}")])
    return BotReply(words, buttons=buttons, buttons_s=_OFFER_S)


def offer_instead(
    authorizer: Authorizer, call: CommandCall, name: str, text: str, unknown: UnknownAgentType
) -> BotReply:
    """The reply to `/new` with a name that is no agent type: that of a session that has ended is offered.

    Raises `unknown` if no session has the name, and UsageError for a session that works.
    """
    try:
        session = authorizer.find(call.caller, name)
    except NotFound:
        raise unknown from None
    if not is_ended(session.status) or session.exit is None:
        raise UsageError(
            f"{label(session)} is a session, which is {session.status}", f"/send {name[:80]} TEXT"
        )
    archived = " and is archived" if session.archived else ""
    words = (
        f"{label(session)} has ended ({session.status}){archived}. Restore it to go on with its conversation."
    )
    return offer(session, words, text)


async def press_unarchive(call: CommandCall, *, records: Records) -> BotReply:
    """`unarchive ID`"""
    done = await records.archive(call.caller, call.rest, call.key, archived=False)
    return BotReply(f"Unarchived {label(done)}")


async def press_restore(call: CommandCall, *, restorer: Restorer, messages: Messages) -> BotReply:
    """`restore ID TEXT`: restore the session, and send it the text."""
    reference, text = call.one_and_text()
    key = call.key.text
    restored = await restorer.restore(
        call.caller, reference, RequestKey(f"{key}:restore", "restore"), tree=False
    )
    (session,) = restored.sessions
    lost = "".join(f" {loss[:1].upper()}{loss[1:]}." for _, loss in restored.losses)
    sending = RequestKey(f"{key}:send", "send")
    sent = await messages.send(call.caller, session.id, text, MessageMode.AUTO, None, sending)
    done = sent.done
    if isinstance(done, Request):
        return BotReply(f"Restored {label(session)}.{lost} {done.name}: {outcome(done)}")
    return BotReply(f"Restored {label(session)}.{lost} {outcome_words(done, session)}", watched=done.id)
