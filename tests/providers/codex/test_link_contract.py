"""The contract of a link, on a played app-server and on the real codex that `SM_TEST_CODEX` names."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

import pytest

from sm.core.observation import Activity
from sm.core.usage import ToolUse
from sm.errors import ExternalError, IllegalState
from sm.providers.codex.app_server import AppServerLink
from sm.providers.links import (
    Answerer,
    ConversationStarted,
    HeldLink,
    LinkEvent,
    MessageUpdate,
    OfferedDecision,
    Receipt,
    RequestOpened,
    RequestResolved,
    StateUnknown,
    StateUpdate,
)
from sm.providers.readers import ToolEnd
from tests.codex_recordings import only
from tests.played_app_server import CuttableSocket, PlayedAppServer, listening
from tests.scripted_responses import ScriptedResponses, scripted_responses

CODEX = os.environ.get("SM_TEST_CODEX", "")
PLAYED, REAL = "played", "real"
OPTIONS = {"approvalPolicy": "on-request", "sandbox": "read-only"}
T = TypeVar("T")

pytestmark = pytest.mark.processes


@dataclass
class Side:
    """A link to a program, and all that it has said."""

    link: HeldLink
    other: HeldLink
    """The link of another client of the program, such as its terminal."""
    stack: contextlib.AsyncExitStack
    socket: CuttableSocket
    directory: Path
    is_played: bool
    said: list[LinkEvent] = field(default_factory=list)

    async def until(self, found: Callable[[list[LinkEvent]], T | None], since: int = 0) -> T:
        """Take words until `found` returns a value about those since a position."""
        while (value := found(self.said[since:])) is None:
            self.said += await self.link.take()
        return value

    async def open(self) -> None:
        await self.link.open({**OPTIONS, "cwd": str(self.directory)})

    async def accept_elsewhere(self, request: RequestOpened) -> None:
        """Accept with another client, as a person does in the recording."""
        if not self.is_played:
            await _start(self.stack, self.other, self.link.conversation)
            while not only(await self.other.take(), RequestOpened):
                pass
            await self.other.answer(request.id, decision=request.decisions[0])

    async def receipt(self, message: str, receipt: Receipt) -> MessageUpdate:
        return await self.until(
            lambda said: next(
                (u for u in only(said, MessageUpdate) if (u.id, u.receipt) == (message, receipt)), None
            )
        )

    async def state(self, activity: Activity, *, final: bool = False, since: int = 0) -> StateUpdate:
        return await self.until(
            lambda said: next(
                (
                    s
                    for s in only(said, StateUpdate)
                    if s.observation.activity is activity and s.observation.final >= final
                ),
                None,
            ),
            since,
        )

    async def first(self, kind: type[T], since: int = 0) -> T:
        return await self.until(lambda said: next(iter(only(said, kind)), None), since)


MakeSide: TypeAlias = Callable[[str], Awaitable[Side]]


@contextlib.asynccontextmanager
async def codex(directory: Path, api: ScriptedResponses) -> AsyncIterator[Path]:
    """The real app-server with a home of its own and the scripted model."""
    home = directory / "home"
    api.configure(home)
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "CODEX_HOME": str(home)}
    socket = directory / "codex"
    arguments = (CODEX, "app-server", "--listen", f"unix://{socket}")
    with (directory / "err").open("w") as errors:
        process = await asyncio.create_subprocess_exec(
            *arguments, env=environment, cwd=directory, stdout=asyncio.subprocess.DEVNULL, stderr=errors
        )
    try:
        yield socket
    finally:
        process.kill()
        await process.wait()


@pytest.fixture(params=[PLAYED, REAL])
async def make_side(request: pytest.FixtureRequest) -> AsyncIterator[MakeSide]:
    """Make a link to a program that plays a recording, or to the real one."""
    if request.param == REAL and not CODEX:
        pytest.skip("SM_TEST_CODEX names no codex")
    # A path of a socket has at most 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="sm-link-", dir="/tmp"))
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, directory)

        async def make(recording: str) -> Side:
            if request.param == REAL:
                api = stack.enter_context(scripted_responses())
                target = await stack.enter_async_context(codex(directory, api))
            else:
                target = directory / "played"
                await stack.enter_async_context(listening(target, PlayedAppServer(recording).serve))
            front = CuttableSocket(target)
            await stack.enter_async_context(front.listening(directory / "s"))
            link, other = AppServerLink(str(directory / "s")), AppServerLink(str(target))
            await _start(stack, link, None)
            return Side(link, other, stack, front, directory, request.param == PLAYED)

        yield make


async def _start(
    stack: contextlib.AsyncExitStack, link: HeldLink, conversation: str | None, unproved: Sequence[str] = ()
) -> None:
    stack.push_async_callback(_stop, asyncio.create_task(link.run(conversation, unproved)))


async def _stop(running: asyncio.Task[None]) -> None:
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_link_starts_a_conversation_and_delivers_a_message(make_side: MakeSide) -> None:
    side = await make_side("text_turn")
    await side.open()
    started = await side.first(ConversationStarted)
    assert (started.id, started.by) == (side.link.conversation, Answerer.LINK)
    await side.link.send("m-1", "All 26 tests pass.")
    await side.receipt("m-1", Receipt.SUBMITTED)
    idle = await side.state(Activity.IDLE, final=True)
    assert (idle.observation.finished, idle.observation.answer) == (True, "All 26 tests pass.")
    receipts = [update.receipt for update in only(side.said, MessageUpdate)]
    assert receipts == [Receipt.ACCEPTED, Receipt.SUBMITTED]


@pytest.mark.parametrize(
    ("recording", "name"), [("approval_accepted", "accept"), ("approval_declined", "decline")]
)
async def test_answer_of_the_link_decides_an_approval(make_side: MakeSide, recording: str, name: str) -> None:
    side = await make_side(recording)
    await side.open()
    await side.link.send("m-1", "[[ask touch r1]]")
    request = await side.first(RequestOpened)
    await side.state(Activity.BLOCKED)
    accept = request.decisions[0]
    assert accept.name == "accept"
    decision = accept if name == "accept" else OfferedDecision("decline", "decline")
    await side.link.answer(request.id, decision=decision)
    resolved = await side.first(RequestResolved)
    await side.state(Activity.IDLE, final=True)
    assert (resolved.id, resolved.by) == (request.id, Answerer.LINK)
    assert [end.allowed for end in only(side.said, ToolEnd)] == [name == "accept"]
    with pytest.raises(IllegalState, match="is closed"):
        await side.link.answer(request.id, decision=accept)


async def test_message_that_waits_for_a_tool_is_not_delivered_when_the_turn_is_interrupted(
    make_side: MakeSide,
) -> None:
    side = await make_side("interrupted_with_steer_pending")
    await side.open()
    await side.link.send("m-1", "[[run sleep 60]]")
    await side.first(ToolUse)
    await side.link.send("m-2", "never read")
    assert await side.link.interrupt()
    await side.receipt("m-2", Receipt.NOT_DELIVERED)
    idle = await side.state(Activity.IDLE, final=True)
    assert not idle.observation.finished


async def test_message_in_the_queue_is_not_lost_by_an_interrupt(make_side: MakeSide) -> None:
    side = await make_side("interrupted_with_queue")
    await side.open()
    await side.link.send("m-1", "[[hang]]")
    await side.receipt("m-1", Receipt.SUBMITTED)
    await side.link.send("m-2", "queued", queued=True)
    assert await side.link.interrupt()
    await side.state(Activity.IDLE, final=True)
    receipts = [update.receipt for update in only(side.said, MessageUpdate) if update.id == "m-2"]
    assert receipts == [Receipt.ACCEPTED]


async def test_interrupt_without_a_turn_says_so(make_side: MakeSide) -> None:
    side = await make_side("text_turn")
    await side.open()
    assert not await side.link.interrupt()


async def test_open_approval_is_answered_over_a_new_connection(make_side: MakeSide) -> None:
    side = await make_side("approval_accepted")
    await side.open()
    await side.link.send("m-1", "[[ask touch r1]]")
    request = await side.first(RequestOpened)
    cut_at = len(side.said)
    side.socket.cut()
    unknown = await side.first(StateUnknown, cut_at)
    assert "the link was lost" in unknown.reason
    await side.state(Activity.BLOCKED, since=side.said.index(unknown))
    await side.link.answer(request.id, decision=request.decisions[0])
    resolved = await side.first(RequestResolved)
    await side.state(Activity.IDLE, final=True)
    assert resolved.by is Answerer.LINK
    assert len(only(side.said, RequestOpened)) == 1
    assert len(only(side.said, ConversationStarted)) == 1


async def test_message_whose_receipt_was_lost_is_proved_by_the_conversation(make_side: MakeSide) -> None:
    side = await make_side("text_turn")
    await side.open()
    await side.link.send("m-1", "All 26 tests pass.")
    side.socket.cut()
    await side.receipt("m-1", Receipt.SUBMITTED)


async def test_answer_of_another_client_closes_the_request(make_side: MakeSide) -> None:
    side = await make_side("approval_by_person")
    await side.open()
    await side.link.send("m-0", "hello")
    await side.state(Activity.IDLE, final=True)
    await side.link.send("m-1", "[[ask touch r4]]")
    request = await side.first(RequestOpened)
    await side.accept_elsewhere(request)
    resolved = await side.first(RequestResolved)
    await side.state(Activity.IDLE, final=True, since=side.said.index(resolved))
    assert (resolved.id, resolved.by) == (request.id, Answerer.TERMINAL)
    assert [end.allowed for end in only(side.said, ToolEnd)] == [True]
    with pytest.raises(IllegalState, match="is closed"):
        await side.link.answer(request.id, decision=OfferedDecision("decline", "decline"))


async def test_link_of_another_process_knows_the_messages_and_the_turn(make_side: MakeSide) -> None:
    side = await make_side("interrupted_streaming")
    await side.open()
    await side.link.send("m-1", "[[hang]]")
    await side.receipt("m-1", Receipt.SUBMITTED)
    await _start(side.stack, side.other, side.link.conversation, ["m-1"])
    assert await side.other.interrupt()
    said: list[LinkEvent] = []
    while not any(state.observation.final for state in only(said, StateUpdate)):
        said += await side.other.take()
    assert [update.receipt for update in only(said, MessageUpdate)] == [Receipt.SUBMITTED]


async def test_failed_turn_has_a_fault(make_side: MakeSide) -> None:
    side = await make_side("error_429")
    await side.open()
    await side.link.send("m-1", "[[fail]]")
    idle = await side.state(Activity.IDLE, final=True)
    assert idle.observation.fault is not None
    assert not idle.observation.finished


async def test_call_that_the_program_refuses_raises_with_its_words(make_side: MakeSide) -> None:
    side = await make_side("text_turn")
    if side.is_played:
        pytest.skip("the recording has no refused call")
    with pytest.raises(ExternalError, match="codex refused thread/start"):
        await side.link.open({"sandbox": "no such sandbox"})
