"""The server, in a thread with its own event loop, so that synchronous code can use it."""

import asyncio
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from types import TracebackType
from typing import Literal, TypeVar

from aiohttp import web

from sm.core.dataclass import dataclass
from sm.providers.claude.check.scripted_api import conversation
from sm.providers.claude.check.scripted_api.conversation import Body, Kind
from sm.providers.claude.check.scripted_api.message_stream import SentAnswer, blocks_of, events_of, head_of
from sm.providers.claude.check.scripted_api.script import (
    DONE,
    Cut,
    Failure,
    Hold,
    Response,
    ScriptError,
    Silence,
    Step,
    Text,
    TokenUsage,
    parse,
)

T = TypeVar("T")
Model = Callable[["ModelRequest"], str | None]
"""A function that answers a request with one response in the language of `script`, or None for requests of others."""


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass(slots=True)
class ModelRequest:
    """A request, recorded on arrival. Fields that are not known yet are None."""

    number: int
    path: str
    headers: dict[str, str]
    body: Body
    kind: Kind
    answer: SentAnswer | None = None
    status: int | None = None
    over: bool = False  # answered, refused, cut, or abandoned by the client
    held: str | None = None  # the name of the current hold

    @property
    def session_id(self) -> str:
        return self.headers.get("X-Claude-Code-Session-Id", "")

    @property
    def agent_id(self) -> str:
        """The id of the sub-agent that sent the request; empty for the main agent."""
        return self.headers.get("x-claude-code-agent-id", "")

    @property
    def prompt(self) -> str:
        return conversation.last_user_text(self.body)

    @property
    def user_texts(self) -> list[str]:
        """All prompts and messages of the user so far, oldest first."""
        return conversation.user_texts(self.body)

    @property
    def tool_calls(self) -> list[tuple[str, Body]]:
        """The tool calls so far, oldest first, each with its input."""
        return conversation.tool_calls(self.body)

    @property
    def results(self) -> list[tuple[bool, str]]:
        """For each finished tool call: True if it failed, and its output."""
        return conversation.results(self.body)

    @property
    def system(self) -> str:
        return conversation.system_text(self.body)

    @property
    def tools(self) -> list[str]:
        return conversation.tool_names(self.body)


@dataclass(slots=True)
class _Holds:
    """Names of released holds, and an event for each hold."""

    released: set[str] = field(default_factory=set)
    events: dict[str, asyncio.Event] = field(default_factory=dict)


class ScriptedApi:
    """`with ScriptedApi() as api` serves on `api.url`. The end of the block raises ScriptError for wrong scripts.

    Any thread may read the log `requests` at any time; it only grows. Requests of Claude Code for its own needs are
    answered from `background`, which a caller may change.
    """

    named: Callable[[Callable[[], str]], AbstractContextManager[None]] = staticmethod(
        lambda what: nullcontext()
    )
    """Surrounds each wait; the tests give it a name, which they print when their time is over."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[ModelRequest] = []
        self.mistakes: list[str] = []
        self.unknown_paths: list[str] = []
        self.background = {
            Kind.TITLE: Response((Text('{"title": "Scripted title"}'),), TokenUsage(input=3, output=2)),
            Kind.COMPACTION: Response(
                (Text("<summary>Scripted summary</summary>"),), TokenUsage(input=7, output=4)
            ),
        }
        self._models: list[Model] = []
        self._changed = threading.Condition()
        self._tries: Counter[tuple[str, str, int]] = Counter()
        self._holds = _Holds()
        self._numbers = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="scripted-api", daemon=True)
        self._started = threading.Event()
        self._over = asyncio.Event()

    # For callers

    def __enter__(self) -> "ScriptedApi":
        self._thread.start()
        self._started.wait()
        if not self.url:
            raise RuntimeError("the scripted API did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        if error is None and self.mistakes:
            raise ScriptError("; ".join(self.mistakes))

    def wait_for(
        self, found: Callable[[], T | Literal[False] | None], what: str, timeout_s: float | None = None
    ) -> T:
        """Call `found` after each change of the log until its result is true; return the result.

        Raises TimeoutError with `what` and the requests so far after `timeout_s`; without one it waits for ever.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self.named(lambda: f"{what}; requests so far: {self._story()}"), self._changed:
            while True:
                if answer := found():
                    return answer
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"{what}; requests so far: {self._story()}")
                self._changed.wait(1)

    def when(self, model: Model) -> None:
        """Register a model function, which answers turns before the markers of their prompts do.

        The function is called for each request, also for repeated ones, in the thread of the server. The request has
        everything it needs: the user's texts, the tool calls and their results. The first function with an answer
        wins. If a function raises, the end of the block fails.
        """
        self._models.append(model)

    def turns(self, containing: str = "") -> list[ModelRequest]:
        """The requests of turns whose newest prompt contains this text."""
        return [
            request
            for request in list(self.requests)
            if request.kind is Kind.TURN and containing in request.prompt
        ]

    def wait_for_hold(self, name: str) -> ModelRequest:
        """Wait for a request that is held at `[[hold:NAME]]`, and return it."""
        return self.wait_for(
            lambda: next((request for request in self.requests if request.held == name), None),
            f"hold {name}",
        )

    def release(self, name: str) -> None:
        """Release all requests at this hold, now and later."""
        self._loop.call_soon_threadsafe(self._let_go, name)

    def usage(self, kind: Kind | None = None, session_id: str = "") -> TokenUsage:
        """The true usage of complete answers, of one kind or session or of all. Each message id counts once."""
        whole = {
            request.answer.message_id: request.answer.usage
            for request in list(self.requests)
            if request.answer and request.answer.whole
            if kind in (None, request.kind) and session_id in ("", request.session_id)
        }
        return sum(whole.values(), TokenUsage())

    # The thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/messages/count_tokens", self._count_tokens)
        app.router.add_route("*", "/{path:.*}", self._unknown)
        # A client that disconnects cancels its handler, so an interrupted turn is never marked complete.
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._started.set()
            await self._over.wait()
        finally:
            await runner.cleanup()  # ends held requests

    def _let_go(self, name: str) -> None:
        self._holds.released.add(name)
        if name in self._holds.events:
            self._holds.events[name].set()

    def _story(self) -> list[str]:
        return [
            f"{request.number} {request.kind} {request.status} {request.prompt[:80]!r}"
            for request in self.requests
        ]

    def _note(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    # Handlers

    async def _unknown(self, request: web.Request) -> web.Response:
        self._note(lambda: self.unknown_paths.append(f"{request.method} {request.path}"))
        return _error(Failure(404))

    async def _count_tokens(self, request: web.Request) -> web.Response:
        return web.json_response({"input_tokens": len(await request.read()) // 4})

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body: Body = await request.json()
        kind = conversation.kind(body)
        received = ModelRequest(next(self._numbers), request.path_qs, dict(request.headers), body, kind)
        self._note(lambda: self.requests.append(received))
        try:
            try:
                response = self._choose(received)
            except Exception as error:  # noqa: BLE001 - an error of the caller's model function, which the caller must see
                mistake = f"{error}" if isinstance(error, ScriptError) else repr(error)
                self._note(lambda: self.mistakes.append(mistake))
                return self._refuse(received, Failure(400, message=mistake))
            failure = self._due(received, response)
            if failure:
                return self._refuse(received, failure)
            return await self._answer(request, received, response)
        finally:
            self._note(lambda: setattr(received, "over", True))

    def _choose(self, received: ModelRequest) -> Response:
        if received.kind is not Kind.TURN:
            return self.background[received.kind]
        for model in list(self._models):
            script = model(received)
            if script is not None:
                return _only(script)
        prompt, step = conversation.newest_prompt(received.body)
        responses = parse(prompt)
        return responses[step] if step < len(responses) else DONE

    def _due(self, received: ModelRequest, response: Response) -> Failure | None:
        """The scripted error, until the same request has been refused often enough."""
        if response.failure is None:
            return None
        return response.failure if self._again(received) <= response.failure.times else None

    def _again(self, received: ModelRequest) -> int:
        """The number of times that this request was sent, including now. A retry has the same conversation."""
        key = (str(received.body.get("metadata")), received.prompt, len(received.body["messages"]))
        self._tries[key] += 1
        return self._tries[key]

    def _refuse(self, received: ModelRequest, failure: Failure) -> web.Response:
        self._note(lambda: setattr(received, "status", failure.status))
        return _error(failure)

    async def _answer(
        self, request: web.Request, received: ModelRequest, response: Response
    ) -> web.StreamResponse:
        # Ids are unique, also between servers, because transcripts outlive them.
        stamp = f"{time.time_ns():x}{received.number:04x}"
        answer = SentAnswer(f"msg_{stamp}", received.body["model"], response.usage)
        blocks = list(blocks_of(response.steps, stamp))
        events = events_of(response, answer, blocks) if received.body.get("stream") else None
        self._note(lambda: setattr(received, "answer", answer))
        headers = {"request-id": f"req_{stamp}"}
        if events is None:
            for step in response.steps:
                if await self._pass_time(request, received, step):
                    return web.Response()
            content = [block.whole for block in blocks if block.start]
            usage = response.usage.wire()
            message = {
                **head_of(answer),
                "content": content,
                "stop_reason": response.stopped_by,
                "usage": usage,
            }
            self._note(lambda: _mark_whole(received, answer))
            return web.json_response(message, headers=headers)
        stream = web.StreamResponse(headers={**headers, "content-type": "text/event-stream"})
        # The agent records the usage that it knows at the end of the last block. The end of a block is sent together
        # with the event after it, so that an interruption of this process cannot come between it and the final usage.
        ended = b""
        for event in events:
            if isinstance(event, dict):
                if not stream.prepared:
                    await stream.prepare(request)
                encoded = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
                if event["type"] == "content_block_stop":
                    ended += encoded
                    continue
                await stream.write(ended + encoded)
                ended = b""
            else:
                if ended:
                    await stream.write(ended)
                    ended = b""
                if await self._pass_time(request, received, event):
                    return stream
        self._note(lambda: _mark_whole(received, answer))
        await stream.write_eof()
        return stream

    async def _pass_time(self, request: web.Request, received: ModelRequest, step: Step) -> bool:
        """Wait as the step requires; return True if it cut the connection."""
        match step:
            case Silence(seconds):
                await asyncio.sleep(seconds)
            case Hold(name):
                if name not in self._holds.released:
                    self._note(lambda: setattr(received, "held", name))
                    try:
                        await self._holds.events.setdefault(name, asyncio.Event()).wait()
                    finally:
                        self._note(lambda: setattr(received, "held", None))
            case Cut(times):
                if self._again(received) <= times:
                    if request.transport:
                        request.transport.abort()
                    return True
            case _:
                pass
        return False


def _only(script: str) -> Response:
    responses = parse(script)
    if len(responses) != 1:
        raise ScriptError(f"a model answers with one response, not {len(responses)}: {script[:80]!r}")
    return responses[0]


def _mark_whole(received: ModelRequest, answer: SentAnswer) -> None:
    received.status, answer.whole = 200, True


def _error(failure: Failure) -> web.Response:
    type = ERROR_TYPES.get(failure.status, "api_error")
    headers = {**failure.headers, **({"retry-after": failure.retry_after_s} if failure.retry_after_s else {})}
    body = {"type": "error", "error": {"type": type, "message": failure.message}}
    return web.json_response(body, status=failure.status, headers=headers)
