"""Reads the app-server's protocol: the frames of one link, in their order, become the words of a link. Pure.

Measured with codex 0.169.0 and 0.171.0. The protocol is experimental: an unknown method says nothing, an unknown
status is an unknown state, and nothing raises.

- The state is the program's own: `thread/status/changed`, the requests that are open, and the ends of turns.
- A message is submitted when an item of the conversation repeats its id. A turn that ends without that item did not
  get the message, even if the program had accepted it. A message in the queue waits for a turn of its own.
- One process has several conversations. The link follows the one that sm or a person began last, and ignores those that
  the program makes for itself, such as the one that finds a title.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.faults import Fault, fault_reason
from sm.core.observation import Activity, Observation, Source
from sm.core.states import RequestKind
from sm.core.text import folded
from sm.core.turns import cut_message
from sm.core.usage import Todo
from sm.providers import values
from sm.providers.codex.frames import Frame, RpcCall, RpcFailure, RpcNotification, RpcResult, read_frame
from sm.providers.codex.open_requests import OpenRequests
from sm.providers.codex.recent import keep
from sm.providers.codex.sent_messages import SentMessages
from sm.providers.codex.token_totals import TokenTotal
from sm.providers.codex.tool_items import UsedTool, tool_end, tool_of, tool_use
from sm.providers.codex.turn_faults import read_fault
from sm.providers.links import (
    Answerer,
    ConversationEnded,
    ConversationStarted,
    LinkEvent,
    PlanUpdate,
    RequestId,
    StateUnknown,
    StateUpdate,
)
from sm.providers.readers import ToolEnd

_TURNS_KEPT = 64
_REASON_MAX = 300
_ENTRIES_MAX = 200
_LATE_S = 600.0
_AHEAD_S = 1.0
"""How far the program's own time of a frame may lie before and after its arrival. Otherwise the arrival counts."""
_USER = "user"
"""The source of a conversation that a person began. Others are the program's own, such as `thread_title`."""
_OPENING = ("thread/start", "thread/resume", "thread/fork")
_SENDING = ("turn/start", "turn/steer", "thread/queue/add")
_WAITING: Mapping[str, RequestKind] = {
    "waitingOnApproval": RequestKind.PERMISSION,
    "waitingOnUserInput": RequestKind.QUESTION,
}
_WAITS_FOR: Mapping[RequestKind, str] = {
    RequestKind.PERMISSION: "waits for an approval",
    RequestKind.QUESTION: "waits for an answer",
}
_PLAN_STATUSES: Mapping[str, str] = {"inProgress": "in_progress"}


@dataclass(slots=True)
class _Thread:
    """One conversation of the program."""

    id: str
    tokens: TokenTotal
    agent: str = ""
    """Its id if it is that of a sub-agent, else empty."""
    model: str = ""
    turn: str | None = None
    ended: deque[str] = field(default_factory=lambda: deque(maxlen=_TURNS_KEPT))
    answer: str = ""
    fault: Fault | None = None
    is_idle: bool = False
    is_interrupting: bool = False
    """Sm interrupts the turn."""
    plan: tuple[Todo, ...] = ()
    commands: set[str] = field(default_factory=set)
    """The items of the commands that run. One that outlives its turn runs in the background."""


class ProtocolReader:
    """The state of one link. It lives on while the connection is lost and made again.

    `at` is the time of a frame's arrival, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self._calls: dict[RequestId, RpcCall] = {}
        self._threads: dict[str, _Thread] = {}
        self._current: _Thread | None = None
        self._messages = SentMessages()
        self._requests = OpenRequests()
        self._tools: dict[str, UsedTool | None] = {}
        """The uses of tools by their item, or None for one that has ended."""
        self._shown: tuple[object, ...] = ()
        """The last state that was said, or why it is unknown."""

    @property
    def conversation(self) -> str | None:
        """The id of the conversation that the link follows, or None without one."""
        return None if self._current is None else self._current.id

    @property
    def turn(self) -> str | None:
        """The turn under way in that conversation, or None."""
        return None if self._current is None else self._current.turn

    def request(self, id: RequestId) -> RpcCall | None:
        """The frame of an open request, or None if it is closed."""
        return self._requests.call(id)

    def expect(self, message: str, conversation: str) -> None:
        """Await the proof of a message that an earlier process sent."""
        self._messages.expect(message, conversation)

    def sent(self, frame: object, at: float) -> list[LinkEvent]:
        """Read a frame of sm."""
        match read_frame(frame):
            case RpcCall(id=id, method=method, params=params) as call:
                keep(self._calls, id, call)
                message = values.name(params.get("clientUserMessageId"))
                if message and method in _SENDING:
                    self._messages.send(message, values.string(params.get("threadId")))
                known = self._thread(params)
                if method == "turn/interrupt" and known is not None:
                    known.is_interrupting = True
            case RpcResult(id=id, value=value):
                self._requests.answer(id, value)
            case RpcFailure(id=id):
                self._requests.answer(id, {})
            case RpcNotification() | None:
                pass
        return []

    def received(self, frame: object, at: float) -> list[LinkEvent]:
        """Read a frame of the program."""
        known = read_frame(frame)
        return list(self._received(known, _emission(known, at)))

    def lost(self, at: float, reason: str) -> list[LinkEvent]:
        """The connection is gone: what the program does and gets meanwhile is unknown."""
        why = folded(f"the link was lost: {reason}", _REASON_MAX)
        self._calls.clear()
        for thread in self._threads.values():
            thread.commands.clear()  # their ends may be missed
        said: list[LinkEvent] = list(self._messages.lose(why, at))
        if self._shown != (why,):
            said.append(StateUnknown(at, why))
        self._shown = (why,)
        return said

    def _received(self, frame: Frame | None, at: float) -> Iterator[LinkEvent]:
        match frame:
            case RpcResult(id=id, value=value) if id in self._calls:
                yield from self._result(self._calls.pop(id), value, at)
            case RpcFailure(id=id, message=message) if id in self._calls:
                yield from self._failure(self._calls.pop(id), message, at)
            case RpcCall():
                yield from self._asked(frame, at)
            case RpcNotification(method="thread/started", params=params):
                yield from self._started(values.mapping(params.get("thread")), at)
            case RpcNotification(method=method, params=params):
                thread = self._thread(params)
                if thread is not None:
                    yield from self._notified(thread, method, params, at)
            case _:
                pass

    def _thread(self, params: Mapping[str, Any]) -> _Thread | None:
        return self._threads.get(values.string(params.get("threadId")))

    # Answers to calls of sm

    def _result(self, call: RpcCall, value: Mapping[str, Any], at: float) -> Iterator[LinkEvent]:
        thread, method = self._thread(call.params), call.method
        if method in _OPENING:
            opened, model = values.mapping(value.get("thread")), values.name(value.get("model"))
            yield from self._follow(opened, Answerer.LINK, model, at, is_new=method == "thread/start")
        elif method in _SENDING:
            if thread is None:  # sm knows the conversation from before this link
                given = {"id": call.params.get("threadId")}
                yield from self._follow(given, Answerer.LINK, "", at, is_new=False)
                thread = self._thread(call.params)
            begun = values.mapping(value.get("turn"))
            turn = values.name(begun.get("id")) or values.name(value.get("turnId"))
            yield from self._messages.accept(values.name(call.params.get("clientUserMessageId")), turn, at)
            if thread is not None and turn in thread.ended:
                yield from self._messages.end_turn(thread.id, turn, at)
            elif thread is not None and method == "turn/start":
                yield from self._begin(thread, begun, method, at)
        elif method == "thread/items/list" and thread is not None:
            for entry in values.blocks(value.get("data")):
                yield from self._proof(values.mapping(entry.get("item")) or entry, at)
            is_whole = not call.params.get("cursor") and value.get("nextCursor", "") is None
            yield from self._messages.miss(thread.id, _read_turns(thread, value, is_whole=is_whole), at)
        elif method == "thread/turns/list" and thread is not None:
            yield from self._newest_turn(thread, next(iter(values.blocks(value.get("data"))), {}))

    def _failure(self, call: RpcCall, message: str, at: float) -> Iterator[LinkEvent]:
        thread = self._thread(call.params)
        if call.method in _SENDING:
            yield from self._messages.refuse(values.name(call.params.get("clientUserMessageId")), message, at)
        elif call.method == "turn/interrupt" and thread is not None:
            thread.is_interrupting = False

    # Conversations

    def _started(self, given: Mapping[str, Any], at: float) -> Iterator[LinkEvent]:
        id, parent = values.name(given.get("id")), values.name(given.get("parentThreadId"))
        source = given.get("threadSource")
        if not id or id in self._threads or given.get("ephemeral") is not False:
            return
        if parent:
            if parent in self._threads:
                keep(self._threads, id, _Thread(id, TokenTotal(is_new=True), agent=id))
                if self._current is not None:
                    keep(self._threads, self._current.id, self._current)  # is never forgotten
        elif source is None or source == _USER:
            # The answer to a call of sm may come behind the notification.
            own = any(call.method in _OPENING for call in self._calls.values())
            by = Answerer.LINK if own else Answerer.TERMINAL
            yield from self._follow(given, by, "", at, is_new=not given.get("forkedFromId"))

    def _follow(
        self, given: Mapping[str, Any], by: Answerer, model: str, at: float, *, is_new: bool
    ) -> Iterator[LinkEvent]:
        id = values.name(given.get("id"))
        if not id:
            return
        thread = self._threads.get(id)
        if thread is None:
            thread = _Thread(id, TokenTotal(is_new=is_new))
            keep(self._threads, id, thread)
        thread.model = model or values.name(given.get("model")) or thread.model
        if self._current is not thread:
            self._current, self._shown = thread, ()
            path, forked_from = values.absolute(given.get("path")), values.name(given.get("forkedFromId"))
            yield ConversationStarted(id, by, path, thread.model, forked_from)
        if values.mapping(given.get("status")).get("type") == "idle" and thread.turn is not None:
            thread.ended.append(thread.turn)  # while the connection was lost
            thread.turn = None
            yield from self._requests.end_turn(thread.id, None)
        for turn in values.blocks(given.get("turns")):
            for item in values.blocks(turn.get("items")):
                yield from self._proof(item, at)
        yield from self._status(thread, given.get("status"), "the conversation was opened", at)

    def _proof(self, item: Mapping[str, Any], at: float) -> Iterator[LinkEvent]:
        """An item of the past proves a message, and says nothing else that is new."""
        if item.get("type") == "userMessage":
            yield from self._messages.echo(values.name(item.get("clientId")), at)

    def _newest_turn(self, thread: _Thread, turn: Mapping[str, Any]) -> Iterator[LinkEvent]:
        """Learn which turn is under way. The one before may have ended while the connection was lost."""
        under_way = values.name(turn.get("id")) if turn.get("status") == "inProgress" else ""
        if thread.turn is not None and thread.turn != under_way:
            thread.ended.append(thread.turn)
            yield from self._requests.end_turn(thread.id, thread.turn)
        thread.turn = under_way or None

    # Notifications

    def _notified(
        self, thread: _Thread, method: str, params: Mapping[str, Any], at: float
    ) -> Iterator[LinkEvent]:
        match method:
            case "thread/status/changed":
                yield from self._status(thread, params.get("status"), method, at)
            case "turn/started":
                yield from self._begin(thread, values.mapping(params.get("turn")), method, at)
            case "turn/completed":
                yield from self._end(thread, values.mapping(params.get("turn")), at)
            case "item/started" | "item/completed":
                item = values.mapping(params.get("item"))
                yield from self._item(thread, item, at, is_end=method == "item/completed")
            case "serverRequest/resolved":
                yield from self._resolved(thread, params.get("requestId"), at)
            case "error":
                yield from self._error(thread, params, at)
            case "thread/tokenUsage/updated":
                usage, in_turn = values.mapping(params.get("tokenUsage")), thread.turn is not None
                yield from thread.tokens.grow(
                    thread.id, thread.model, usage, at, in_turn=in_turn, sidechain=bool(thread.agent)
                )
            case "turn/plan/updated":
                plan = _plan(params.get("plan"))
                if plan != thread.plan:
                    thread.plan = plan
                    yield PlanUpdate(plan)
            case "thread/settings/updated":
                settings = values.mapping(params.get("threadSettings"))
                thread.model = values.name(settings.get("model")) or thread.model
            case "model/rerouted":
                thread.model = values.name(params.get("toModel")) or thread.model
            case "thread/closed":
                yield from self._closed(thread, at)
            case _:
                pass

    def _status(self, thread: _Thread, status: object, why: str, at: float) -> Iterator[LinkEvent]:
        given = values.mapping(status)
        kind, flags = given.get("type"), given.get("activeFlags")
        thread.is_idle = kind in ("idle", "systemError")
        match kind:
            case "active":
                waiting = [_WAITING[f] for f in _WAITING if isinstance(flags, list) and f in flags]
                if waiting:
                    yield from self._blocked(thread, waiting[0], at)
                elif Activity.BUSY not in self._shown:
                    yield from self._say(thread, Activity.BUSY, f"works ({why})", at)
            case "idle":
                yield from self._say(thread, Activity.IDLE, f"idle ({why})", at)
            case "systemError":
                reason = "the turn failed" if thread.fault is None else fault_reason(thread.fault, at)
                yield from self._say(thread, Activity.IDLE, f"{reason} ({why})", at)
            case "notLoaded":
                yield from self._closed(thread, at)
            case _ if thread is self._current:
                self._shown = ()
                word = values.word(kind) or "none"
                yield StateUnknown(at, folded(f"the program reports an unknown status: {word}", _REASON_MAX))

    def _begin(self, thread: _Thread, turn: Mapping[str, Any], why: str, at: float) -> Iterator[LinkEvent]:
        id = values.name(turn.get("id"))
        if not id or id in thread.ended or id == thread.turn:
            return
        if thread.turn is not None:
            thread.ended.append(thread.turn)  # its end was not told
        thread.turn, thread.answer, thread.fault = id, "", None
        thread.is_interrupting = thread.is_idle = False
        yield from self._say(thread, Activity.BUSY, f"a turn began ({why})", at, opens=True)

    def _end(self, thread: _Thread, turn: Mapping[str, Any], at: float) -> Iterator[LinkEvent]:
        id, status = values.name(turn.get("id")), values.string(turn.get("status"))
        if not id or id in thread.ended or status == "inProgress":
            return
        thread.ended.append(id)
        yield from self._messages.end_turn(thread.id, id, at)
        yield from self._requests.end_turn(thread.id, id)
        for refused in self._requests.refused_items(thread.id):
            keep(self._tools, refused, None)
            thread.commands.discard(refused)
            yield ToolEnd(refused, False, at)
        if thread.turn not in (None, id):
            return  # the late end of an earlier turn
        for item in values.blocks(turn.get("items")):
            if item.get("type") == "agentMessage":
                thread.answer = cut_message(values.string(item.get("text"))) or thread.answer
        thread.turn, thread.is_interrupting, thread.is_idle = None, False, True
        fault, answer = None, ""
        match status:
            case "completed":
                reason, answer = "the turn ended", thread.answer
            case "interrupted":
                reason = "the turn was interrupted"
            case "failed":
                fault = read_fault(turn["error"]) if turn.get("error") else thread.fault or read_fault(None)
                reason = fault_reason(fault, at)
            case _:
                reason = f"the turn ended: {values.word(status) or 'unknown'}"
        yield from self._say(
            thread,
            Activity.IDLE,
            f"{reason} (turn/completed)",
            at,
            turn=id,
            final=True,
            finished=status == "completed",
            answer=answer,
            fault=fault,
        )

    def _item(
        self, thread: _Thread, item: Mapping[str, Any], at: float, *, is_end: bool
    ) -> Iterator[LinkEvent]:
        match item.get("type"):
            case "userMessage" if is_end:
                yield from self._proof(item, at)
            case "userMessage":
                self._messages.begin(values.name(item.get("clientId")))
            case "agentMessage" if is_end:
                thread.answer = cut_message(values.string(item.get("text")))
            case _:
                yield from self._tool(thread, item, at, is_end=is_end)

    def _tool(
        self, thread: _Thread, item: Mapping[str, Any], at: float, *, is_end: bool
    ) -> Iterator[LinkEvent]:
        begun, id = tool_use(item, at), values.name(item.get("id"))
        if begun is None or (id in self._tools and (not is_end or self._tools[id] is None)):
            return
        if id not in self._tools:
            yield begun
        is_command = item.get("type") == "commandExecution"
        if is_command and not is_end:
            thread.commands.add(id)
        keep(self._tools, id, None if is_end else tool_of(item))
        ended = tool_end(item, at) if is_end else None
        if ended is not None:
            yield from self._requests.end_tool(id, ended.allowed)
            yield ended
        if id in thread.commands and is_end:
            thread.commands.remove(id)
            if thread.is_idle:
                yield from self._say(thread, Activity.IDLE, "a command in the background ended", at)

    def _error(self, thread: _Thread, params: Mapping[str, Any], at: float) -> Iterator[LinkEvent]:
        error = values.mapping(params.get("error"))
        if params.get("willRetry") is not True:
            thread.fault = read_fault(error)
        elif thread.turn is not None:
            words = values.word(error.get("message")) or "an error"
            yield from self._say(thread, Activity.BUSY, f"{words} (error)", at)

    def _closed(self, thread: _Thread, at: float) -> Iterator[LinkEvent]:
        self._threads.pop(thread.id, None)
        if thread is self._current:
            self._current, self._shown = None, ()
            yield ConversationEnded(thread.id, at)

    # Requests

    def _asked(self, call: RpcCall, at: float) -> Iterator[LinkEvent]:
        thread = self._thread(call.params)
        if thread is None:
            return
        tool = self._tools.get(values.name(call.params.get("itemId")))
        said = list(self._requests.ask(call, tool, thread.agent))
        yield from said
        request = self._requests.last(thread.id)
        if said and request is not None and call.params.get("isBlocking") is not False:
            yield from self._blocked(thread, request.kind, at)

    def _resolved(self, thread: _Thread, id: object, at: float) -> Iterator[LinkEvent]:
        said = list(self._requests.resolve(id, is_interrupted=thread.is_interrupting))
        yield from said
        other = self._requests.last(thread.id)
        if said and other is not None:
            yield from self._blocked(thread, other.kind, at)
        elif said and thread.turn is not None:
            yield from self._say(thread, Activity.BUSY, "got an answer (serverRequest/resolved)", at)

    # The state

    def _blocked(self, thread: _Thread, kind: RequestKind, at: float) -> Iterator[LinkEvent]:
        request, reason = self._requests.last(thread.id, kind), _WAITS_FOR[kind]
        use = None if request is None else request.item or None
        reason = reason if request is None else f"{reason}: {request.line}"
        yield from self._say(thread, Activity.BLOCKED, reason, at, use=use, requires=kind)

    def _say(
        self,
        thread: _Thread,
        activity: Activity,
        reason: str,
        at: float,
        *,
        turn: str | None = None,
        use: str | None = None,
        requires: RequestKind | None = None,
        opens: bool = False,
        final: bool = False,
        finished: bool = False,
        answer: str | None = None,
        fault: Fault | None = None,
    ) -> Iterator[LinkEvent]:
        """Say the state of the conversation that the link follows, unless it was said already."""
        turn = turn or thread.turn
        background = len(thread.commands) if activity is Activity.IDLE else 0
        why = reason if activity is Activity.BUSY else ""
        shown = (activity, requires, use, turn, opens, final, background, why)
        if thread is not self._current or shown == self._shown:
            return
        self._shown = shown
        observation = Observation(
            Source.PROTOCOL,
            activity,
            at,
            folded(reason, _REASON_MAX),
            turn,
            opens=opens,
            final=final,
            use=use,
            finished=finished,
            answer=answer,
            background=background,
            fault=fault,
        )
        yield StateUpdate(observation, requires)


def _emission(frame: Frame | None, at: float) -> float:
    emitted = frame.emitted_at if isinstance(frame, RpcNotification) else None
    return emitted if emitted is not None and at - _LATE_S <= emitted <= at + _AHEAD_S else at


def _read_turns(thread: _Thread, listed: Mapping[str, Any], *, is_whole: bool) -> Callable[[str], bool]:
    """Tell whether a turn has ended and its items are all in a list that begins with the newest one."""
    turns = [values.name(entry.get("turnId")) for entry in values.blocks(listed.get("data"))]
    oldest = turns[-1] if turns else ""  # perhaps not all of its items
    return lambda turn: turn != thread.turn and (is_whole or (turn in turns and turn != oldest))


def _plan(given: object) -> tuple[Todo, ...]:
    entries = values.blocks(given)[:_ENTRIES_MAX]
    return tuple(
        Todo(values.cut(values.string(entry.get("step"))), _PLAN_STATUSES.get(status, status))
        for entry in entries
        if (status := values.name(entry.get("status")))
    )
