"""The routes of messages and inboxes."""

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.api.views import Views, build_view
from sm.core.models import RequestKey
from sm.core.requests import Request
from sm.core.states import MessageMode, MessageState, TextUse
from sm.core.wording import outcome
from sm.errors import NotFound
from sm.operations import list_operations
from sm.operations import message_operations as operations
from sm.operations.access_rules import READ
from sm.operations.list_operations import AudienceScope
from sm.operations.message_operations import (
    Arrivals,
    InboxLimit,
    MessageFilter,
    MessageWait,
    Taking,
    TextToSend,
)
from sm.services import Authorizer, Inbox, Messages, Reads, SeenSessions, SessionFilter, Sessions, Waits
from sm.wire_types.message_answers import LetterView, LoggedView, MessageView, SentView
from sm.wire_types.session_answers import SessionView

routes = OperationTable()


@routes.carries_out(operations.SEND)
async def send(
    request: ApiRequest,
    given: TextToSend,
    key: RequestKey | None,
    *,
    seen: SeenSessions,
    messages: Messages,
    waits: Waits,
    store: Reads,
) -> SentView:
    caller = request.caller
    mode = MessageMode(given.mode or MessageMode.AUTO)
    use = TextUse(given.answer) if given.answer else None
    sent = await messages.send(
        caller,
        given.to,
        given.text,
        mode,
        given.ttl_s,
        key,
        use,
        given.request_id or None,
        given.files or (),
    )
    if (target := store.sessions.get(sent.done.session_id or "")) is not None:
        await seen.look(caller, [target])
    if isinstance(sent.done, Request):
        return _sent_view(request.views, sent.done)
    followed = await waits.message(caller, sent.done, request.long_poll, given.wait_s or 0)
    view = request.views.message(followed)
    return build_view(SentView, view, request_id="", unarchived=sent.unarchived)


@routes.carries_out(operations.LOG)
async def messages(
    request: ApiRequest,
    given: MessageFilter,
    *,
    seen: SeenSessions,
    messages: Messages,
    authorizer: Authorizer,
) -> list[LoggedView]:
    caller = request.caller
    session = None
    if given.session is not None:
        session = authorizer.find(caller, given.session)
        if session.id != caller.session_id:
            session = authorizer.find(caller, given.session, READ)
        if given.seen:
            await seen.look(caller, [session])
    log = await messages.log(caller, session, given.limit)
    return [build_view(LoggedView, request.views.message(message), text=text) for message, text in log]


@routes.carries_out(operations.SHOW_MESSAGE)
async def message(request: ApiRequest, wait: MessageWait, *, messages: Messages, waits: Waits) -> MessageView:
    caller = request.caller
    message = await messages.read(caller, _number(request.name))
    return request.views.message(
        await waits.message(caller, message, request.long_poll, wait.wait_s, settled=wait.settled)
    )


@routes.carries_out(list_operations.LIST_AUDIENCE)
async def audience(
    request: ApiRequest, query: AudienceScope, *, sessions: Sessions, messages: Messages
) -> list[SessionView]:
    caller = request.caller
    recipients = messages.audience(caller, recursive=query.recursive)
    filter = SessionFilter(workspace=query.workspace)
    return request.views.sessions(sessions.apply_filter(caller, recipients, filter))


@routes.carries_out(operations.INBOX)
async def inbox(request: ApiRequest, given: InboxLimit, *, letters: Inbox) -> list[LetterView]:
    waiting = letters.available(request.caller, idle=True)
    return [request.views.letter(rendered) for rendered in await letters.render(waiting[: given.limit])]


@routes.carries_out(operations.TAKE_INBOX)
async def take_inbox(
    request: ApiRequest, given: Taking, key: RequestKey | None, *, waits: Waits
) -> list[LetterView]:
    limit = None if given.limit is None else int(given.limit)
    taken = await waits.inbox(request.caller, limit, key, request.long_poll, given.wait_s)
    return [request.views.letter(rendered) for rendered in taken]


@routes.carries_out(operations.CONFIRM_INBOX)
async def confirm_inbox(request: ApiRequest, given: Arrivals, *, letters: Inbox) -> list[MessageView]:
    confirmed = await letters.confirm(request.caller, given.message_ids or ())
    return [request.views.message(message) for message in confirmed]


def _sent_view(views: Views, request: Request) -> SentView:
    return SentView(
        message_id=None,
        session_id=request.session_id,
        label=views.recipient(request.session_id),
        from_=request.answered_by or "",
        from_label=views.request(request).answered_by_label or "",
        status=MessageState.SUBMITTED,
        mode=MessageMode.AUTO,
        evidence=f"answered {request.name}",
        reason=outcome(request),
        created_at=request.state_at,
        submitted_at=request.state_at,
        acknowledged_at=None,
        expires_at=None,
        held_until=None,
        settled=True,
        request_id=request.name,
    )


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise NotFound(f"no such message: {text[:40]}", "list your messages: sm log")
    return int(text)
