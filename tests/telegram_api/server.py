"""The server, in a thread with its own event loop, so that synchronous tests can use it."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from aiohttp import web

from tests.telegram_api.faults import Fault, Faults
from tests.telegram_api.methods import METHODS, Parameters
from tests.telegram_api.people import Person
from tests.telegram_api.world import Chat, Refusal, SentMessage, Topic, User, World
from tests.waits import waiting

T = TypeVar("T")

TOKEN = "4242:AAtest-token_of-the-tests-0123456789abc"
_RIVAL = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
_HTML = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


@dataclass(frozen=True, slots=True)
class Call:
    """A call, recorded when it is answered. `status` is 0 if the client got no answer."""

    method: str
    parameters: Parameters
    at: float
    status: int
    description: str = ""

    @property
    def chat_id(self) -> int | None:
        value = self.parameters.get("chat_id")
        return None if value is None else int(value)


class TelegramApi:
    """`with TelegramApi() as api` serves on `api.url`; `api.token` is the only token that it accepts.

    Any thread may call every method. `now` is the clock of messages, rates and callbacks.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.url = ""
        self.token = TOKEN
        self.calls: list[Call] = []
        """Every call but getUpdates and getMe, in the order of their answers."""
        self.polls: list[Call] = []
        self.retry_after_s = 5
        """The wait that Fault.FLOOD asks for."""
        self.world = World(now)
        self._faults = Faults()
        self._changed = threading.Condition(threading.RLock())
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        self._started = threading.Event()
        self._over = asyncio.Event()
        self._news = asyncio.Event()
        self._poll = 0
        """The number of the newest getUpdates, which ends the one before."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="telegram-api", daemon=True)
        self._thread.start()
        assert self._started.wait() and self.url, "the Bot API server did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        assert not self._thread.is_alive(), "the Bot API server did not stop"

    # People and chats

    def person(self, id: int, name: str, username: str | None = None, *, has_started: bool = False) -> Person:
        """A user with a private chat. `has_started`: the user wrote to the bot before the test."""
        user = User(id, name, username, has_started=has_started)

        def add(world: World) -> None:
            world.users[id] = user
            world.chats[id] = Chat(id, "private", name)

        self.change(add)
        return Person(user, self.change)

    def group(self, id: int, title: str, *, is_forum: bool = False, is_admin: bool = False) -> Chat:
        """A supergroup (`id` below -1,000,000,000,000) or a basic group with the bot in it."""
        kind = "supergroup" if id < -1_000_000_000_000 else "group"
        chat = Chat(id, kind, title, is_forum, bot_is_admin=is_admin, can_manage_topics=is_admin and is_forum)
        self.change(lambda world: world.chats.__setitem__(id, chat))
        return chat

    def migrate(self, chat: Chat, to: int) -> Chat:
        """Turn a basic group into a supergroup; the old id answers with `migrate_to_chat_id`."""
        new = self.group(to, chat.title, is_forum=chat.is_forum, is_admin=chat.bot_is_admin)
        chat.migrated_to = to
        return new

    def delete_topic(self, chat: Chat, thread: int) -> None:
        """Delete a topic with its messages, as an administrator does."""

        def delete(world: World) -> None:
            chat.topics[thread].deleted = True
            for message in world.messages.values():
                if (message.chat_id, message.thread_id) == (chat.id, thread):
                    message.deleted = True

        self.change(delete)

    def allow_topics(self, chat: Chat, allowed: bool) -> None:
        """Give the bot the right to manage topics, or take it away. The bot hears of it by `my_chat_member`."""

        def allow(world: World) -> None:
            before = world.bot_member(chat)
            chat.bot_is_admin = chat.can_manage_topics = allowed
            content = {
                "chat": chat.json(),
                "from": User(777, "Admin").json(),
                "date": int(world.now()),
                "old_chat_member": before,
                "new_chat_member": world.bot_member(chat),
            }
            world.add_update("my_chat_member", content)

        self.change(allow)

    # Faults

    def fault(self, method: str, fault: Fault, times: int = 1) -> None:
        """Let the next `times` calls of the method (`*`: any) fail in this way."""
        with self._changed:
            self._faults.add(method, fault, times)

    def heal(self) -> None:
        """End all faults that are still due, and the answers of 409."""
        with self._changed:
            self._faults.clear()
            self.world.has_rival = False

    def repeat_updates(self) -> None:
        """Deliver every update again, also the confirmed ones, with its old id."""

        def repeat(world: World) -> None:
            for update in world.confirmed:
                world.updates[update["update_id"]] = update
            world.confirmed.clear()

        self.change(repeat)

    # Reading

    def messages(self, chat_id: int, containing: str = "") -> list[SentMessage]:
        """The messages of the bot in a chat that are not deleted, oldest first."""
        with self._changed:
            return [
                message
                for (chat, _), message in self.world.messages.items()
                if chat == chat_id and message.sender.is_bot and not message.deleted
                if containing in message.text
            ]

    def topics(self, chat: Chat) -> list[Topic]:
        with self._changed:
            return list(chat.topics.values())

    def sent(self, method: str) -> list[Call]:
        """The calls of a method, also the refused ones."""
        with self._changed:
            return [call for call in self.calls if call.method.lower() == method.lower()]

    def wait_for(self, found: Callable[[], T | Literal[False] | None], what: str) -> T:
        """Call `found` after each change until its result is true; return the result."""
        with waiting(lambda: f"{what}; calls: {self.story()}"), self._changed:
            while True:
                if answer := found():
                    return answer
                self._changed.wait(1)

    def story(self) -> list[str]:
        """The last calls in words."""
        return [f"{call.method} {call.status} {call.description}" for call in self.calls[-20:]]

    def wait_for_message(self, chat_id: int, containing: str) -> SentMessage:
        return self.wait_for(
            lambda: next(iter(self.messages(chat_id, containing)), None), f"{containing!r} in chat {chat_id}"
        )

    def change(self, function: Callable[[World], T]) -> T:
        """Run `function` on the world, then wake the pollers and the waiting tests."""
        with self._changed:
            result = function(self.world)
            self._changed.notify_all()
        self.wake()
        return result

    def wake(self) -> None:
        """Let the poll that waits look for updates."""
        if self.url:
            self._loop.call_soon_threadsafe(self._news.set)

    def app(self) -> web.Application:
        """The server, which needs `handler_cancellation`."""
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/bot{token}/{method}", self._answer)
        return app

    # The thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        runner = web.AppRunner(self.app(), handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._started.set()
            await self._over.wait()
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        parameters = await _parameters(request)
        fault = self._take_fault(method, request.match_info["token"])
        if fault in (Fault.CUT_BEFORE, Fault.SILENCE):
            if fault is Fault.SILENCE:
                self._record(method, parameters, 0, "silence")
                await self._over.wait()  # or until the client disconnects, which cancels this handler
            else:
                self._record(method, parameters, 0, "cut before the call was carried out")
            return _cut(request)
        if fault is Fault.BAD_GATEWAY:
            self._record(method, parameters, 502, "Bad Gateway")
            return web.Response(status=502, text=_HTML, content_type="text/html")
        try:
            result = await self._carry_out(method, request.match_info["token"], parameters, fault)
        except Refusal as refusal:
            self._record(method, parameters, refusal.code, refusal.description)
            answer = {"ok": False, "error_code": refusal.code, "description": refusal.description}
            if refusal.parameters:
                answer["parameters"] = refusal.parameters
            return web.json_response(answer, status=refusal.code)
        if fault is Fault.CUT_AFTER:
            self._record(method, parameters, 0, "cut after the call was carried out")
            return _cut(request)
        self._record(method, parameters, 200)
        return web.json_response({"ok": True, "result": _without(result, self.world.omitted)})

    def _take_fault(self, method: str, token: str) -> Fault | None:
        with self._changed:
            return self._faults.take(method) if token == self.token else None

    async def _carry_out(self, method: str, token: str, parameters: Parameters, fault: Fault | None) -> Any:
        if ":" not in token:
            raise Refusal(404, "Not Found")
        if token != self.token:
            raise Refusal(401, "Unauthorized")
        if method.lower() == "getupdates":
            return await self._get_updates(parameters)
        function = METHODS.get(method.lower())
        if function is None:
            raise Refusal(404, "Not Found: method not found")
        with self._changed:
            if fault is Fault.FLOOD:
                raise self.world.close(int(parameters.get("chat_id", 0)), self.retry_after_s)
            return function(self.world, parameters)

    async def _get_updates(self, parameters: Parameters) -> list[dict[str, Any]]:
        self._poll += 1
        number = self._poll
        self._news.set()  # ends the poll before
        offset = int(parameters.get("offset") or 0)
        limit = min(max(int(parameters.get("limit") or 100), 1), 100)
        deadline = self._loop.time() + min(int(parameters.get("timeout") or 0), 50)
        while True:
            with self._changed:
                if self._poll != number or self.world.has_rival:
                    raise Refusal(409, _RIVAL)
                self.world.confirm(offset)
                self._changed.notify_all()
                found = [update for _, update in sorted(self.world.updates.items())][:limit]
                if self.world.reversed_order:
                    found.reverse()
            left = deadline - self._loop.time()
            if found or left <= 0:
                return found
            self._news.clear()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _record(self, method: str, parameters: Parameters, status: int, description: str = "") -> None:
        with self._changed:
            call = Call(method, parameters, self.world.now(), status, description)
            (self.polls if method.lower() in ("getupdates", "getme") else self.calls).append(call)
            self._changed.notify_all()


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(item, names) for name, item in value.items() if name not in names}
    return [_without(item, names) for item in value] if isinstance(value, list) else value


def _cut(request: web.Request) -> web.Response:
    if request.transport:
        request.transport.abort()
    return web.Response()


async def _parameters(request: web.Request) -> Parameters:
    """The parameters of the query, of a form, of multipart data or of JSON. A file is (name, content)."""
    parameters: Parameters = dict(request.query)
    if request.content_type == "application/json":
        parameters |= await request.json()
        return parameters
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            parameters[name] = (value.filename, value.file.read())
        else:
            parameters[name] = value.decode() if isinstance(value, bytes | bytearray) else value
    return parameters
