"""A `tmux -C` client: sends command lines, and matches each block of a reply to its line.

The protocol is tmux(1), CONTROL MODE: every command is answered by `%begin TIME NUMBER FLAGS`, its output
and `%end` or `%error` with the same three numbers; other lines that begin with `%` are notifications.
"""

import asyncio
import logging
import re
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, cast

from sm.errors import TerminalUnreachable

log = logging.getLogger(__name__)

REPLY_MAX_BYTES = 64 * 1024 * 1024
"""More than this in one reply is not an answer: 50,000 lines of history are about 10 MB."""
_STDERR_MAX_BYTES = 4096
_BEGIN = re.compile(rb"%begin (\d+ \d+ (\d+))")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]+")
# tmux sets this bit for the commands that a control client wrote, and leaves it out for those
# that its own start or a hook of the user runs: those blocks are nobody's answer.
_OURS = 1

Command = Sequence[str]


class Refused(TerminalUnreachable):
    """tmux answered `%error`. `outputs` holds what the commands before it on the line printed."""

    def __init__(self, text: str, outputs: list[list[str]]) -> None:
        super().__init__(f"tmux refused: {text}")
        self.text = text
        self.outputs = outputs


class Garbled(Exception):
    """What arrived is not the control protocol, so no later reply can be trusted either."""


def quote(text: str) -> str:
    """`text` as one word of tmux's command language (tmux(1), PARSING SYNTAX), taken literally.

    Single quotes, because `~` and `$` are expanded inside double ones; a line end would end the
    command, so it stands outside of them as an escape. Raises ValueError for NUL.
    """
    if "\0" in text:
        raise ValueError("a tmux argument cannot hold NUL")
    if _PLAIN.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\\''").replace("\n", "'\\n'") + "'"


@dataclass(slots=True)
class Reply:
    """The reply that one command line waits for: one block per command, fewer when one is refused."""

    commands: int
    future: asyncio.Future[list[list[str]]]
    fence: bytes | None = None
    """Set when the block may hold text of an agent; see `Replies`."""
    outputs: list[list[str]] = field(default_factory=list)


@dataclass(slots=True)
class _Block:
    numbers: bytes
    ours: bool
    lines: list[bytes] = field(default_factory=list)
    size: int = 0


class Replies:
    """The reading half, without I/O: bytes in, answers resolved in the order in which they were expected.

    An agent can print `%end 1700000000 41 1` on its screen, and tmux copies a captured screen into the
    block as it is; guessing the numbers would let it forge the replies after it. So the answer to a
    capture carries a fence: a random line that the next command prints. All up to the *last* end mark before
    the fence is text (test_screen_that_prints_reply_marks_cannot_forge_a_reply).
    """

    def __init__(self, limit: int = REPLY_MAX_BYTES) -> None:
        self.waiting: deque[Reply] = deque()
        self.blocks = 0
        """How many of our commands were answered so far."""
        self._limit = limit
        self._rest = b""
        self._block: _Block | None = None

    def feed(self, data: bytes) -> list[str]:
        """Take what was read and return the notifications in it. Raises Garbled; the object is useless then."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        notifications = []
        for line in lines:
            if self._block is not None:
                self._inside(self._block, line)
            elif begin := _BEGIN.fullmatch(line):
                self._block = _Block(begin[1], bool(int(begin[2]) & _OURS))
            elif line.startswith((b"%end ", b"%error ")):
                raise Garbled("an end outside of a reply")
            elif line.startswith(b"%"):
                notifications.append(line.decode(errors="replace"))
            else:  # what a hook of the user complains of: tmux writes it without any mark (cmd-queue.c, 3.3a)
                log.debug("passed over a line outside of any reply")
        if len(self._rest) > self._limit:
            raise Garbled("a line without an end")
        return notifications

    def _inside(self, block: _Block, line: bytes) -> None:
        answer = self.waiting[0] if block.ours and self.waiting else None
        if answer is not None and answer.fence is not None:
            if line == answer.fence:
                self._close_fenced(block, answer.fence)
                return
        elif line == b"%end " + block.numbers:
            self._close(block, refused=False)
            return
        elif line == b"%error " + block.numbers:
            self._close(block, refused=True)
            return
        block.size += len(line) + 1
        if block.size > self._limit:
            raise Garbled("a reply without an end")
        block.lines.append(line)

    def _close_fenced(self, block: _Block, fence: bytes) -> None:
        begin = _BEGIN.fullmatch(block.lines[-1])
        marks = (b"%end " + block.numbers, b"%error " + block.numbers)
        last = next((i for i in reversed(range(len(block.lines))) if block.lines[i] in marks), None)
        if begin is None or last is None:
            raise Garbled("a fence without a reply before it")
        refused = block.lines[last] == marks[1]
        del block.lines[last:]
        self._close(block, refused=refused)
        # We are inside the block of the command that prints the fence, which ends in the ordinary way.
        self._block = _Block(begin[1], True, [fence])

    def _close(self, block: _Block, *, refused: bool) -> None:
        self._block = None
        if not block.ours:
            return
        if not self.waiting:
            raise Garbled("a reply that nobody asked for")
        self.blocks += 1
        answer = self.waiting[0]
        output = [line.decode(errors="replace") for line in block.lines]
        if refused:
            # tmux drops the rest of the line with the command that failed: no more blocks follow.
            self.waiting.popleft()
            if not answer.future.done():
                answer.future.set_exception(Refused("\n".join(output), answer.outputs))
            return
        answer.outputs.append(output)
        if len(answer.outputs) == answer.commands:
            self.waiting.popleft()
            if not answer.future.done():
                answer.future.set_result(answer.outputs)


class Control(asyncio.SubprocessProtocol):
    """A running control client. Lines may be sent while earlier ones are unanswered; tmux keeps their order.

    Once `alive` is false it stays so, and every call raises TerminalUnreachable.
    """

    def __init__(self, notify: Callable[[str], None], timeout_s: float) -> None:
        self.alive = True
        self._notify = notify
        self._timeout_s = timeout_s
        self._replies = Replies()
        self._stderr = b""
        self._why = "tmux closed the connection"
        self._attached = asyncio.Event()
        self._session = ""
        self._ended = asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        environment: Mapping[str, str],
        notify: Callable[[str], None],
        timeout_s: float,
        umask: int,
        before_exec: Callable[[], None] | None = None,
    ) -> Self:
        """Run `argv`, a tmux control client, with this umask (-1: ours). Raises FileNotFoundError or PermissionError.

        The child may become the tmux server: it gets none of our descriptors and a session of its own,
        so that it outlives us, and cwd / so that it pins no directory.
        """
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: cls(notify, timeout_s),
            *argv,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
            umask=umask,
            preexec_fn=before_exec,
        )
        protocol._transport = transport
        protocol._stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
        return protocol

    async def attached(self, timeout_s: float) -> str:
        """The id of the session that the client's own command attached it to. Raises TerminalUnreachable.

        Ask nothing before: tmux may run the first lines ahead of that command, and then a line without a
        target is about any session there is (test_first_question_waits_until_the_client_is_attached).
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._attached.wait()
        except TimeoutError:
            self.drop(f"tmux did not attach within {timeout_s:g} s")
        if not self.alive:
            raise TerminalUnreachable(self._why)
        return self._session

    async def ask(self, *commands: Command) -> list[list[str]]:
        """Run the commands as one line and return the lines that each of them printed.

        Raises Refused when tmux refuses one of them (those after it were not run), TerminalUnreachable when no
        answer came.
        """
        return await self._wait(self._send(commands))

    async def ask_for_text(self, command: Command) -> list[str]:
        """As `ask` for one command that prints text of an agent: nothing in that text is read as protocol."""
        fence = secrets.token_hex(16)
        answer = self._send((command,), fence.encode())
        self.tell(("display-message", "-p", fence))
        return (await self._wait(answer))[0]

    def tell(self, *commands: Command) -> None:
        """Send without waiting; whether tmux did it or refused it is not heard. Raises TerminalUnreachable."""
        self._send(commands)

    def _send(self, commands: Sequence[Command], fence: bytes | None = None) -> Reply:
        if not self.alive or self._stdin is None:
            raise TerminalUnreachable(self._why)
        line = " ; ".join(" ".join(quote(word) for word in command) for command in commands)
        future: asyncio.Future[list[list[str]]] = asyncio.get_running_loop().create_future()
        # Look at the outcome, or asyncio complains about an error that nobody fetched (`tell`, or a caller
        # that was cancelled: its answer stays in the queue, because the reply still comes).
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        answer = Reply(len(commands), future, fence)
        self._replies.waiting.append(answer)
        self._stdin.write(line.encode(errors="surrogateescape") + b"\n")
        return answer

    async def _wait(self, answer: Reply) -> list[list[str]]:
        # The limit is for tmux to get on with its queue, not for the queue to be short: it starts again
        # with every answer. Notifications do not count, they come from a client that is stuck too.
        seen = self._replies.blocks
        while not (await asyncio.wait((answer.future,), timeout=self._timeout_s))[0]:
            if self._replies.blocks == seen:
                # The reply may come later and would be taken for another's: this connection is over.
                self.drop(f"tmux did not answer within {self._timeout_s:g} s")
            seen = self._replies.blocks
        return answer.future.result()

    def drop(self, why: str) -> None:
        """End the client at once; everybody who waits gets TerminalUnreachable with this reason."""
        if self.alive:
            self._why = why
            self._fail()
        if self._transport is not None:
            # Closes the pipes and kills: a client of a stopped server would not end by itself.
            self._transport.close()

    async def ended(self) -> None:
        """Wait until the client process is gone and reaped. Raises TerminalUnreachable when it stays."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._ended.wait()
        except TimeoutError:
            raise TerminalUnreachable("the tmux client does not end") from None

    def _fail(self) -> None:
        self.alive = False
        self._attached.set()
        complaint = self._stderr.decode(errors="replace").strip()
        if complaint:
            self._why += f": {complaint}"
        log.debug("lost the tmux control connection: %s", self._why)
        while self._replies.waiting:
            answer = self._replies.waiting.popleft()
            if not answer.future.done():
                answer.future.set_exception(TerminalUnreachable(self._why))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._stderr = (self._stderr + data)[:_STDERR_MAX_BYTES]
            return
        if not self.alive:
            return
        try:
            notifications = self._replies.feed(data)
        except Garbled as garbled:
            self.drop(f"tmux sent something else than replies: {garbled}")
            return
        for notification in notifications:
            if notification.startswith("%exit"):
                # The last line of all. What is written from here on would never be read.
                self._why += notification.removeprefix("%exit").rstrip().replace(" ", ": ", 1)
                self._fail()
                return
            if notification.startswith("%session-changed ") and not self._attached.is_set():
                self._session = notification.split(" ")[1]
                self._attached.set()
            self._notify(notification)

    def connection_lost(self, exc: BaseException | None) -> None:
        # Called when the process was reaped and both pipes were read to their end: the complaint is whole.
        if self.alive:
            self._fail()
        if self._transport is not None:
            self._transport.close()  # nothing is open any more, but asyncio wants to be told
        self._ended.set()


class _Output(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: BaseException | None) -> None:
        self.ended.set()


async def output_of(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> str:
    """What a tmux client that is no control client prints.

    Raises FileNotFoundError, PermissionError, TerminalUnreachable.
    """
    loop = asyncio.get_running_loop()
    transport, output = await loop.subprocess_exec(
        _Output,
        *argv,
        env=dict(environment),
        cwd="/",
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(timeout_s):
            await output.ended.wait()
    except TimeoutError:
        raise TerminalUnreachable(f"tmux did not answer within {timeout_s:g} s") from None
    finally:
        # Not `asyncio.subprocess.Process`: the client hands its end of the pipe to the server, and where that
        # is stopped its `wait` would wait for the server as well.
        transport.close()
        await output.ended.wait()
    return output.data.decode(errors="replace").strip()
