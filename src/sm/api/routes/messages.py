"""The routes of messages and inboxes."""

from typing import Annotated

from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.fields import NeededText, Present, Seconds, WholeNumber, choice, doc
from sm.api.query import LISTED, Limit, Query, Recursive, SeenQuery, SessionName, WaitQuery, WorkspaceName
from sm.api.route import RouteTable
from sm.api.routes.sessions import WaitS
from sm.api.views import Views, build_view
from sm.core.models import RequestKey
from sm.core.requests import Request
from sm.core.states import SENT_MODES, MessageMode, MessageState, TextUse
from sm.core.wording import outcome
from sm.errors import NotFound
from sm.policy.access import Action
from sm.services import SessionFilter
from sm.wire_types.fields import narrowed
from sm.wire_types.messages import LetterView, LoggedView, MessageView, SentView
from sm.wire_types.sessions import SessionView

routes = RouteTable()


class LogQuery(SeenQuery):
    session: SessionName | None = None
    limit: Limit = LISTED


class MessageQuery(WaitQuery):
    settled: Annotated[Present, doc("Present: `wait_s` also waits until the message is `settled`.")] = False


class InboxQuery(Query):
    limit: Limit = LISTED


class AudienceQuery(Query):
    recursive: Recursive = False
    workspace: WorkspaceName | None = None


class SendBody(Body):
    to: Annotated[NeededText, doc("A session, named as in a path.")] = ""
    text: Annotated[NeededText, doc("", maxLength=50_000)] = ""
    mode: Annotated[Annotated[str, choice("mode", SENT_MODES, blank=True)] | None, doc("Null: auto.")] = None
    ttl_s: Annotated[Seconds | None, doc("How long the message may wait, in seconds; null: a day.")] = None
    wait_s: WaitS = None
    answer: Annotated[
        Annotated[str, choice("answer", tuple(TextUse), blank=True)] | None,
        doc(
            "For a session with one open question. `message`: leave the question open; `answer`: answer it, or be"
            " refused; `ask`: be refused with `answers_question`; null: answer it."
        ),
    ] = None
    request_id: Annotated[str | None, doc("With `answer`: only this question, such as `r57`.")] = None


class TakeBody(Body):
    limit: Annotated[
        Annotated[Seconds, narrowed("integer", minimum=0, maximum=86_400)] | None, doc("At most 50.")
    ] = None
    wait_s: WaitS = None


class ConfirmBody(Body):
    message_ids: Annotated[list[WholeNumber] | None, doc("", maxItems=50)] = None


@routes.route("POST", "/v1/messages", agents=True)
async def send(request: ApiRequest, body: SendBody, key: RequestKey | None) -> SentView:
    """Send a text to a session."""
    services, caller = request.services, request.caller
    mode = MessageMode(body.mode or MessageMode.AUTO)
    use = TextUse(body.answer) if body.answer else None
    sent = await services.messages.send(
        caller, body.to, body.text, mode, body.ttl_s, key, use, body.request_id or None
    )
    if (target := services.store.sessions.get(sent.done.session_id or "")) is not None:
        await services.seen.look(caller, [target])
    if isinstance(sent.done, Request):
        return _sent_view(request.views, sent.done)
    followed = await services.waits.message(caller, sent.done, request.long_poll, body.wait_s or 0)
    view = request.views.message(followed)
    return build_view(SentView, view, request_id="", unarchived=sent.unarchived)


@routes.route("GET", "/v1/messages", agents=True, audit="log")
async def messages(request: ApiRequest, query: LogQuery) -> list[LoggedView]:
    """List the messages from and to a session; without one the caller's, for the operator all."""
    services, caller = request.services, request.caller
    session = None
    if query.session is not None:
        session = services.sessions.find(caller, query.session)
        if session.id != caller.session_id:
            session = services.sessions.find(caller, query.session, Action.READ)
        if query.seen:
            await services.seen.look(caller, [session])
    log = await services.messages.log(caller, session, query.limit)
    return [build_view(LoggedView, request.views.message(message), text=text) for message, text in log]


@routes.route("GET", "/v1/messages/{id}", agents=True)
async def message(request: ApiRequest, query: MessageQuery) -> MessageView:
    """Show a message."""
    services, caller = request.services, request.caller
    message = await services.messages.read(caller, _number(request.name))
    return request.views.message(
        await services.waits.message(caller, message, request.long_poll, query.wait_s, settled=query.settled)
    )


@routes.route("GET", "/v1/audience", agents=True)
async def audience(request: ApiRequest, query: AudienceQuery) -> list[SessionView]:
    """List the recipients of the caller's broadcast."""
    services, caller = request.services, request.caller
    recipients = services.messages.audience(caller, recursive=query.recursive)
    filter = SessionFilter(workspace=query.workspace)
    return request.views.sessions(services.sessions.apply_filter(caller, recipients, filter))


@routes.route("GET", "/v1/inbox", agents=True)
async def inbox(request: ApiRequest, query: InboxQuery) -> list[LetterView]:
    """List the messages that wait for the caller."""
    messages = request.services.messages
    waiting = messages.available(request.caller, idle=True)
    return [request.views.letter(rendered) for rendered in await messages.render(waiting[: query.limit])]


@routes.route("POST", "/v1/inbox/take", agents=True, audit="take")
async def take_inbox(request: ApiRequest, body: TakeBody, key: RequestKey | None) -> list[LetterView]:
    """Take the messages that wait for the caller; with `wait_s` wait for the first one.

    A taken message is `delivering` until its confirmation. Without one it is offered again after 20 s.
    """
    limit = None if body.limit is None else int(body.limit)
    taken = await request.services.waits.inbox(request.caller, limit, key, request.long_poll, body.wait_s)
    return [request.views.letter(rendered) for rendered in taken]


@routes.route("POST", "/v1/inbox/confirm", agents=True, audit="confirm")
async def confirm_inbox(request: ApiRequest, body: ConfirmBody) -> list[MessageView]:
    """Confirm that taken messages arrived."""
    confirmed = await request.services.messages.confirm(request.caller, body.message_ids or ())
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
