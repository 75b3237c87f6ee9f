"""The routes of an agent's own hooks: events, and dialogs whose hook waits for the answer."""

from typing import Annotated

from sm.api.body import Body, EmptyBody, check_time
from sm.api.context import ApiRequest
from sm.api.fields import NeededText, doc
from sm.api.route import RouteTable
from sm.api.routes.sessions import WaitS
from sm.core.models import RequestKey
from sm.core.requests import Request
from sm.core.timestamps import epoch_s
from sm.errors import NotPermitted, UsageError
from sm.services import Dialogs, FirstTurns, Monitor
from sm.wire import KEY_HEADER
from sm.wire_types.common import EmptyView
from sm.wire_types.fields import Anything
from sm.wire_types.hooks import DialogOutcome, DialogTakenView, DialogView

_LATE_S = 3.0
"""A dialog whose hook arrives later than this may be over already."""
routes = RouteTable()


class HookBody(Body):
    emitted_at: Annotated[NeededText, doc("With its zone.", format="date-time")] = ""
    provider: str | None = None
    payload: Annotated[Anything | None, doc("The JSON that the agent CLI sent.")] = None
    cut: Annotated[bool | None, doc("A large part of the payload is missing.")] = None
    awaits_tools: Annotated[bool | None, doc("The hook then sends `POST /v1/hooks/tools`.")] = None


class ToolsBody(Body):
    emitted_at: Annotated[NeededText, doc("With its zone.", format="date-time")] = ""


class DialogBody(HookBody):
    wait_s: WaitS = None


@routes.route("POST", "/v1/hooks", agents=True)
async def hook(request: ApiRequest, body: HookBody, *, monitor: Monitor) -> EmptyView:
    """Report an event of the calling session's own agent (`sm hook`)."""
    session_id = _session(request, "only a hook of an agent may report events")
    emitted_at = check_time(body.emitted_at, "emitted_at")
    await monitor.hook(session_id, body.payload or {}, emitted_at)
    return EmptyView()


@routes.route("POST", "/v1/hooks/tools", agents=True)
async def tools(request: ApiRequest, body: ToolsBody, *, first_turns: FirstTurns) -> EmptyView:
    """Wait until the calling session's own agent may begin its first turn, with the tools of sm in its requests."""
    session_id = _session(request, "only a hook of an agent may wait for its tools")
    emitted_at = check_time(body.emitted_at, "emitted_at")
    await first_turns.hold(session_id, emitted_at, request.wait_until)
    return EmptyView()


@routes.route("POST", "/v1/hooks/dialog", agents=True)
async def dialog(
    request: ApiRequest, body: DialogBody, key: RequestKey | None, *, dialogs: Dialogs, monitor: Monitor
) -> DialogView:
    """Wait for the answer to a dialog of the calling session's own agent.

    The required Idempotency-Key names the hook. A repetition with the same key, also after a restart of the daemon, is
    about the same request and gets the same answer.
    """
    wait_s = body.wait_s or 0
    asked = await _open_request(request, body, key, dialogs, monitor)
    del body  # a held request must not keep a whole event in memory
    if asked is None:
        return DialogView(request=None, state=DialogOutcome.OVER, output=None)
    number = asked.id
    with dialogs.attached(number):
        await request.long_poll(lambda: dialogs.is_decided(number), wait_s)
    reply = await dialogs.reply(number)
    return DialogView(request=asked.name, state=reply.outcome, output=reply.output)


async def _open_request(
    request: ApiRequest, body: DialogBody, key: RequestKey | None, dialogs: Dialogs, monitor: Monitor
) -> Request | None:
    """The request of the hook, opened at its first call; None without a dialog."""
    session_id, hook = _session(request, _ONLY_HOOKS), _hook(key)
    emitted_at, payload = check_time(body.emitted_at, "emitted_at"), body.payload or {}
    known = await dialogs.find(session_id, hook)
    if known is not None:
        return known
    # Before the request opens, so that the session has the status waiting_input when others see the request.
    await monitor.hook(session_id, payload, emitted_at)
    dialog = dialogs.dialog(session_id, payload, cut=bool(body.cut))
    if dialog is None or await _is_over(session_id, emitted_at, monitor):
        return None
    tool_use = monitor.tool_use(session_id, dialog.agent, dialog.tool_digest)
    return await dialogs.attach(session_id, dialog, hook, tool_use)


async def _is_over(session_id: str, emitted_at: str, monitor: Monitor) -> bool:
    """True when the dialog was answered before its hook arrived, because the daemon was away or busy."""
    if monitor.now() - epoch_s(emitted_at) < _LATE_S:
        return False
    return await monitor.blocked_reason(session_id) is None


@routes.route("POST", "/v1/hooks/dialog/taken", agents=True, audit="taken")
async def dialog_taken(
    request: ApiRequest, body: EmptyBody, key: RequestKey | None, *, dialogs: Dialogs
) -> DialogTakenView:
    """Confirm that the hook printed the answer.

    The Idempotency-Key names the hook. Idempotent.
    """
    session_id = _session(request, _ONLY_HOOKS)
    done = await dialogs.confirm_answer(session_id, _hook(key))
    return DialogTakenView(request=done.name, state=done.state)


_ONLY_HOOKS = "only a hook of an agent may wait for the answer to a dialog"


def _session(request: ApiRequest, refusal: str) -> str:
    session_id = request.caller.session_id
    if session_id is None:
        raise NotPermitted(refusal)
    return session_id


def _hook(key: RequestKey | None) -> str:
    if key is None:
        raise UsageError(f"the header {KEY_HEADER} is missing")
    return key.text
