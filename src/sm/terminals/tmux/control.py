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
from dataclasses import field
from typing import Self, cast

from sm.core.dataclass import dataclass
from sm.errors import TerminalUnreachable

log = logging.getLogger(__name__)

REPLY_MAX_BYTES = 64 * 1024 * 1024
"""A larger reply is treated as garbled: 50,000 lines of history are about 10 MB."""
_STDERR_MAX_BYTES = 4096
_BEGIN = re.compile(rb"%begin (\d+ \d+ (\d+))")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]+")
# tmux sets this bit for commands that a control client wrote. Blocks without it come from commands that tmux's start
# or a user's hook runs, and answer nothing.
_FROM_CLIENT = 1

Command = Sequence[str]

_IF = "if-shell"


class Refused(TerminalUnreachable):
    """tmux answered `%error`. `outputs` holds what the commands before it on the line printed."""

    def __init__(self, text: str, outputs: list[list[str]]) -> None:
        super().__init__(f"tmux refused: {text}")
        self.text = text
        self.outputs = outputs


class GarbledReply(Exception):
    """The input is not the control protocol, so no later reply can be trusted either."""


def quote(text: str) -> str:
    """Quote `text` as one literal word of tmux's command language (tmux(1), PARSING SYNTAX).

    Uses single quotes, because tmux expands `~` and `$` inside double quotes. A line end would end the command, so it
    is written as an escape outside of the quotes. Raises ValueError for NUL.
    """
    if "\0" in text:
        raise ValueError("a tmux argument must not contain a NUL character")
    if _PLAIN.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\\''").replace("\n", "'\\n'") + "'"


class Conditional(tuple[str, ...]):
    """A command that `unless` made."""

    blocks = 1
    """The number of blocks of the commands that it runs."""


def unless(condition: str, target: str, commands: Sequence[Command], otherwise: Command) -> Conditional:
    """The command that runs `commands` unless the format `condition` is true for the pane `target`.

    If it is true, runs `otherwise` as many times instead. tmux runs a command line without interruption, so nothing
    changes between the check and `commands`. The outputs have one more entry for each command that ran. Only the last
    command of a line may be conditional: when tmux refuses one of `commands`, it still runs the rest of the line.
    """
    run, instead = (" ; ".join(map(_join, each)) for each in (commands, [otherwise] * len(commands)))
    command = Conditional((_IF, "-F", "-t", target, condition, instead, run))
    command.blocks = len(commands)
    return command


def _join(command: Command) -> str:
    return " ".join(quote(word) for word in command)


def _count_blocks(commands: Sequence[Command]) -> int:
    """The number of blocks that answer a line: the command that `if-shell` chooses has a block of its own."""
    assert all(command[0] != _IF for command in commands[:-1])
    last = commands[-1]
    return len(commands) + (last.blocks if isinstance(last, Conditional) else 0)


@dataclass(slots=True)
class Reply:
    """A pending reply to one command line. tmux sends fewer blocks when it refuses a command."""

    blocks: int
    future: asyncio.Future[list[list[str]]]
    fence: bytes | None = None
    """Set when the block may hold text of an agent; see `Replies`."""
    outputs: list[list[str]] = field(default_factory=list)


@dataclass(slots=True)
class _Block:
    numbers: bytes
    from_client: bool
    lines: list[bytes] = field(default_factory=list)
    size: int = 0


class Replies:
    """Parses replies without I/O, and resolves the pending replies in order.

    An agent can print `%end 1700000000 41 1` on its screen, and tmux copies a captured screen into the block
    unchanged. An agent that guesses the numbers could forge the following replies. So a capture is followed by a
    fence, a random line that the next command prints. Everything before the *last* end mark before the fence is text
    (test_screen_text_with_reply_marks_cannot_forge_a_reply).
    """

    def __init__(self, limit: int = REPLY_MAX_BYTES) -> None:
        self.waiting: deque[Reply] = deque()
        self.blocks = 0
        """The number of answered commands."""
        self._limit = limit
        self._rest = b""
        self._block: _Block | None = None

    def feed(self, data: bytes) -> list[str]:
        """Parse input and return its notifications. Raises GarbledReply; the object is then unusable."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        notifications = []
        for line in lines:
            if self._block is not None:
                self._inside(self._block, line)
            elif begin := _BEGIN.fullmatch(line):
                self._block = _Block(begin[1], bool(int(begin[2]) & _FROM_CLIENT))
            elif line.startswith((b"%end ", b"%error ")):
                raise GarbledReply("an end outside of a reply")
            elif line.startswith(b"%"):
                notifications.append(line.decode(errors="replace"))
            else:  # tmux writes errors of a user's hook without any mark (cmd-queue.c, 3.3a)
                log.debug("ignored a line outside of any reply")
        if len(self._rest) > self._limit:
            raise GarbledReply("a line without an end")
        return notifications

    def _inside(self, block: _Block, line: bytes) -> None:
        answer = self.waiting[0] if block.from_client and self.waiting else None
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
            raise GarbledReply("a reply without an end")
        block.lines.append(line)

    def _close_fenced(self, block: _Block, fence: bytes) -> None:
        begin = _BEGIN.fullmatch(block.lines[-1])
        marks = (b"%end " + block.numbers, b"%error " + block.numbers)
        last = next((i for i in reversed(range(len(block.lines))) if block.lines[i] in marks), None)
        if begin is None or last is None:
            raise GarbledReply("a fence without a reply before it")
        refused = block.lines[last] == marks[1]
        del block.lines[last:]
        self._close(block, refused=refused)
        # The block of the command that prints the fence is still open, and ends in the ordinary way.
        self._block = _Block(begin[1], True, [fence])

    def _close(self, block: _Block, *, refused: bool) -> None:
        self._block = None
        if not block.from_client:
            return
        if not self.waiting:
            raise GarbledReply("a reply without a command before it")
        self.blocks += 1
        answer = self.waiting[0]
        output = [line.decode(errors="replace") for line in block.lines]
        if refused:
            # tmux drops the rest of the line after a failed command: no more blocks follow.
            self.waiting.popleft()
            if not answer.future.done():
                answer.future.set_exception(Refused("\n".join(output), answer.outputs))
            return
        answer.outputs.append(output)
        if len(answer.outputs) == answer.blocks:
            self.waiting.popleft()
            if not answer.future.done():
                answer.future.set_result(answer.outputs)


class Control(asyncio.SubprocessProtocol):
    """A running control client. Lines may be sent while earlier lines are unanswered; tmux keeps their order.

    Once `alive` is false, it stays false and every call raises TerminalUnreachable.
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
        """Run `argv`, a tmux control client; umask -1 is inherited. Raises FileNotFoundError or PermissionError.

        The child may become the tmux server. It inherits no descriptors and gets its own kernel session, so that it
        outlives the daemon, and cwd / so that it pins no directory.
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
        protocol._stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
        return protocol

    async def wait_attached(self, timeout_s: float) -> str:
        """Wait until the client is attached, and return its session's id. Raises TerminalUnreachable.

        Send no command before: tmux may run the first lines ahead of the attach, and a line without a target then
        applies to any session (test_first_command_waits_until_the_client_is_attached).
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
        """Run the commands as one line and return the output lines of each command.

        Raises Refused when tmux refuses a command (the commands after it did not run), TerminalUnreachable when no
        answer came.
        """
        return await self._wait(self._send(commands))

    async def ask_for_text(self, command: Command) -> list[str]:
        """As `ask` for one command that prints text of an agent: no part of the text is parsed as protocol."""
        fence = secrets.token_hex(16)
        answer = self._send((command,), fence.encode())
        self.send_nowait(("display-message", "-p", fence))
        return (await self._wait(answer))[0]

    def send_nowait(self, *commands: Command) -> None:
        """Send without waiting, and ignore the result. Raises TerminalUnreachable."""
        self._send(commands)

    def _send(self, commands: Sequence[Command], fence: bytes | None = None) -> Reply:
        if not self.alive or self._stdin is None:
            raise TerminalUnreachable(self._why)
        line = " ; ".join(map(_join, commands))
        future: asyncio.Future[list[list[str]]] = asyncio.get_running_loop().create_future()
        # Retrieve the outcome, or asyncio complains about an unretrieved exception (`send_nowait`, or a cancelled
        # caller, whose answer stays in the queue because the reply still comes).
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        answer = Reply(_count_blocks(commands), future, fence)
        self._replies.waiting.append(answer)
        self._stdin.write(line.encode(errors="surrogateescape") + b"\n")
        return answer

    async def _wait(self, answer: Reply) -> list[list[str]]:
        # The time limit restarts with every answer, so that a long queue does not time out while tmux works on it.
        # Notifications do not count: a stuck client sends them too.
        seen = self._replies.blocks
        while not (await asyncio.wait((answer.future,), timeout=self._timeout_s))[0]:
            if self._replies.blocks == seen:
                # A late reply would be taken for the reply to another line, so drop the connection.
                self.drop(f"tmux did not respond within {self._timeout_s:g} s")
            seen = self._replies.blocks
        return answer.future.result()

    def drop(self, why: str) -> None:
        """Kill the client; every pending call raises TerminalUnreachable with this reason."""
        if self.alive:
            self._why = why
            self._fail()
        if self._transport is not None:
            # Closes the pipes and kills: a client of a stopped server would not end by itself.
            self._transport.close()

    async def wait_ended(self) -> None:
        """Wait until the client process is reaped. Raises TerminalUnreachable when it does not end."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._ended.wait()
        except TimeoutError:
            raise TerminalUnreachable("the tmux client did not exit") from None

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
        except GarbledReply as garbled:
            self.drop(f"tmux sent an invalid reply: {garbled}")
            return
        for notification in notifications:
            if notification.startswith("%exit"):
                # The last line: tmux reads no more commands.
                self._why += notification.removeprefix("%exit").rstrip().replace(" ", ": ", 1)
                self._fail()
                return
            if notification.startswith("%session-changed ") and not self._attached.is_set():
                self._session = notification.split(" ")[1]
                self._attached.set()
            self._notify(notification)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not in `start`: a client that ends at once may be lost before `subprocess_exec` returns.
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        # asyncio calls this after it reaped the process and read both pipes to the end: stderr is complete.
        if self.alive:
            self._fail()
        if self._transport is not None:
            self._transport.close()  # else asyncio warns about an unclosed transport
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
    """The output of an ordinary tmux client. Raises FileNotFoundError, PermissionError, TerminalUnreachable."""
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
        raise TerminalUnreachable(f"tmux did not respond within {timeout_s:g} s") from None
    finally:
        # Not `asyncio.subprocess.Process`: the client passes its end of the pipe to the server, and `wait` would also
        # wait for a stopped server.
        transport.close()
        await output.ended.wait()
    return output.data.decode(errors="replace").strip()
