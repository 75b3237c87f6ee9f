"""Follows the requests that an app-server makes of its clients, until one of them has answered. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.states import RequestKind
from sm.providers import values
from sm.providers.codex.approvals import decisions_of, read_dialog, refuses
from sm.providers.codex.frames import RpcCall, request_id
from sm.providers.codex.recent import keep
from sm.providers.codex.tool_items import UsedTool
from sm.providers.links import Answerer, RequestId, RequestOpened, RequestResolved


@dataclass(slots=True)
class OpenRequest:
    call: RpcCall
    kind: RequestKind
    line: str
    """The tool or the questions in one line, for people."""
    answer: Mapping[str, Any] | None = None
    """The answer that sm sent."""

    @property
    def thread(self) -> str:
        return values.name(self.call.params.get("threadId"))

    @property
    def item(self) -> str:
        return values.name(self.call.params.get("itemId"))

    @property
    def place(self) -> tuple[object, ...]:
        """Tells requests apart that have the same id, because the program was started again."""
        turn = values.name(self.call.params.get("turnId"))
        return self.call.id, self.call.method, self.thread, turn, self.item


class OpenRequests:
    """The requests of one link, by the program's own ids."""

    def __init__(self) -> None:
        self._requests: dict[RequestId, OpenRequest] = {}
        self._past: dict[tuple[object, ...], None] = {}
        """The requests that are closed: a frame that comes twice does not open one again."""
        self._answered: dict[str, tuple[OpenRequest, bool]] = {}
        """The requests that sm's answer closed, by their item, and whether the answer refused."""

    def call(self, id: RequestId) -> RpcCall | None:
        """The frame of an open request, or None if it is closed."""
        return self._requests[id].call if id in self._requests else None

    def last(self, thread: str, kind: RequestKind | None = None) -> OpenRequest | None:
        """The newest open request of a conversation, of any kind without `kind`."""
        found = [r for r in self._requests.values() if r.thread == thread and kind in (None, r.kind)]
        return found[-1] if found else None

    def ask(
        self, call: RpcCall, tool: UsedTool | None, agent: str
    ) -> Iterator[RequestOpened | RequestResolved]:
        """Open a request. Arguments: as for `read_dialog`."""
        dialog = read_dialog(call, tool, agent)
        if dialog is None:
            return
        line = " / ".join(question.question for question in dialog.questions)
        request = OpenRequest(call, dialog.kind, line or UsedTool(dialog.tool, dialog.arguments).line)
        known = self._requests.get(call.id)
        if request.place in self._past:
            return
        if known is not None and known.place != request.place:
            yield self._close(known, None)
        elif known is not None and known.answer is None:
            return  # sent again, over a new connection
        keep(self._requests, call.id, request)
        yield RequestOpened(call.id, dialog, decisions_of(call), request.item)

    def answer(self, id: RequestId, answer: Mapping[str, Any]) -> None:
        """Sm has sent an answer. The program decides whether it is the first one."""
        if id in self._requests:
            self._requests[id].answer = answer

    def resolve(self, id: object, *, is_interrupted: bool) -> Iterator[RequestResolved]:
        """The program has an answer. `is_interrupted`: sm interrupts the turn, which closes the request too."""
        known = request_id(id)
        request = None if known is None else self._requests.get(known)
        if request is None:
            return
        refused = None if request.answer is None else refuses(request.answer)
        if refused is not None and request.item:
            keep(self._answered, request.item, (request, refused))
        if request.answer is not None:
            yield self._close(request, Answerer.LINK)
        else:
            yield self._close(request, None if is_interrupted else Answerer.TERMINAL)

    def end_tool(self, item: str, allowed: bool | None) -> Iterator[RequestResolved]:
        """Correct who answered: if a tool did the opposite of sm's answer, the other side's answer came first."""
        request, refused = self._answered.pop(item, (None, False))
        if request is not None and allowed is not None and allowed is refused:
            yield RequestResolved(request.call.id, Answerer.TERMINAL)

    def refused_items(self, thread: str) -> Iterator[str]:
        """The items that sm refused and whose end was not told, which the program omits over a new connection."""
        for item, (request, refused) in list(self._answered.items()):
            if refused and request.thread == thread:
                del self._answered[item]
                yield item

    def end_turn(self, thread: str, turn: str | None) -> Iterator[RequestResolved]:
        """Close the requests of a turn, or of all turns (None), that ended without an answer."""
        for request in list(self._requests.values()):
            if request.thread == thread and turn in (None, request.call.params.get("turnId")):
                yield self._close(request, None)

    def _close(self, request: OpenRequest, by: Answerer | None) -> RequestResolved:
        del self._requests[request.call.id]
        keep(self._past, request.place, None)
        return RequestResolved(request.call.id, by)
