"""The routes of an agent's own hooks: events, and dialogs whose hook waits for the answer."""

from sm.api.body import check_time
from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.core.models import RequestKey
from sm.core.requests import Request
from sm.core.timestamps import epoch_s
from sm.errors import NotPermitted, UsageError
from sm.operations import Operation
from sm.operations import event_operations as operations
from sm.operations.event_operations import DialogReport, HookReport, PromptTime
from sm.policy.relations import may_for_itself
from sm.services import Dialogs, FirstTurns, Monitor
from sm.wire import KEY_HEADER
from sm.wire_types.event_answers import DialogOutcome, DialogTakenView, DialogView
from sm.wire_types.fields import EmptyView

_LATE_S = 3.0
"""A dialog whose hook arrives later than this may be over already."""

routes = OperationTable()


@routes.carries_out(operations.REPORT_EVENT)
async def hook(request: ApiRequest, body: HookReport, *, monitor: Monitor) -> EmptyView:
    session_id = _session(request, operations.REPORT_EVENT, "only a hook of an agent may report events")
    emitted_at = check_time(body.emitted_at, "emitted_at")
    await monitor.hook(session_id, body.payload or {}, emitted_at)
    return EmptyView()


@routes.carries_out(operations.AWAIT_TOOLS)
async def tools(request: ApiRequest, body: PromptTime, *, first_turns: FirstTurns) -> EmptyView:
    session_id = _session(request, operations.AWAIT_TOOLS, "only a hook of an agent may wait for its tools")
    emitted_at = check_time(body.emitted_at, "emitted_at")
    await first_turns.hold(session_id, emitted_at, request.wait_until)
    return EmptyView()


@routes.carries_out(operations.AWAIT_DIALOG)
async def dialog(
    request: ApiRequest, body: DialogReport, key: RequestKey | None, *, dialogs: Dialogs, monitor: Monitor
) -> DialogView:
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
    request: ApiRequest, body: DialogReport, key: RequestKey | None, dialogs: Dialogs, monitor: Monitor
) -> Request | None:
    """The request of the hook, opened at its first call; None without a dialog."""
    session_id, hook = _session(request, operations.AWAIT_DIALOG, _ONLY_HOOKS), _hook(key)
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


@routes.carries_out(operations.CONFIRM_DIALOG)
async def dialog_taken(request: ApiRequest, key: RequestKey | None, *, dialogs: Dialogs) -> DialogTakenView:
    session_id = _session(request, operations.CONFIRM_DIALOG, _ONLY_HOOKS)
    done = await dialogs.confirm_answer(session_id, _hook(key))
    return DialogTakenView(request=done.name, state=done.state)


_ONLY_HOOKS = "only a hook of an agent may wait for the answer to a dialog"


def _session(request: ApiRequest, operation: Operation, refusal: str) -> str:
    """The calling session. Raises NotPermitted for another caller."""
    session_id = request.caller.session_id
    if session_id is None or not may_for_itself(request.caller, operation.audience):
        raise NotPermitted(refusal)
    return session_id


def _hook(key: RequestKey | None) -> str:
    if key is None:
        raise UsageError(f"the header {KEY_HEADER} is missing")
    return key.text
