"""Parsing replies of the tmux control protocol, and quoting its commands."""

import asyncio
import os
import secrets
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sm.terminals.tmux.control import Control, GarbledReply, Refused, Replies, Reply, quote
from tests.terminals.world import World, sh, until, until_async
from tests.waits import NEVER_S

BEGIN, END, ERROR = (f"%{word} 1700000000 41 1\n".encode() for word in ("begin", "end", "error"))


class ReplyReader:
    """`Replies` with a simple way to expect replies."""

    def __init__(self, limit: int = 10_000) -> None:
        self.replies = Replies(limit)
        self.notifications: list[str] = []

    def expect(self, commands: int = 1, fence: bytes | None = None) -> asyncio.Future[list[list[str]]]:
        future: asyncio.Future[list[list[str]]] = asyncio.get_running_loop().create_future()
        self.replies.waiting.append(Reply(commands, future, fence))
        return future

    def feed(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.notifications += self.replies.feed(piece)


def block(*lines: str, number: int = 41, end: str = "end", flags: int = 1) -> bytes:
    numbers = f"1700000000 {number} {flags}"
    return "\n".join((f"%begin {numbers}", *lines, f"%{end} {numbers}", "")).encode()


async def test_replies_are_matched_to_command_lines_in_order() -> None:
    reader = ReplyReader()
    first, second = reader.expect(), reader.expect()
    reader.feed(block("one", "two") + block())
    assert first.result() == [["one", "two"]]
    assert second.result() == [[]]


@pytest.mark.parametrize("size", [1, 2, 7])
async def test_reply_is_parsed_when_it_arrives_in_pieces(size: int) -> None:
    reader = ReplyReader()
    future = reader.expect()
    data = b"%sessions-changed\n" + block("täst ☃") + b"%window-add @1\n"
    reader.feed(*(data[i : i + size] for i in range(0, len(data), size)))
    assert future.result() == [["täst ☃"]]
    assert reader.notifications == ["%sessions-changed", "%window-add @1"]


async def test_command_line_with_several_commands_gets_one_block_per_command() -> None:
    reader = ReplyReader()
    future = reader.expect(commands=3)
    reader.feed(block("a") + block())
    assert not future.done()
    reader.feed(block("c"))
    assert future.result() == [["a"], [], ["c"]]


async def test_refused_command_ends_its_line_and_keeps_the_outputs_before_it() -> None:
    reader = ReplyReader()
    future, after = reader.expect(commands=3), reader.expect()
    reader.feed(block("made $1") + block("can't find pane", end="error") + block("next"))
    with pytest.raises(Refused, match="can't find pane") as refused:
        future.result()
    assert refused.value.outputs == [["made $1"]]
    assert after.result() == [["next"]]


async def test_blocks_of_tmux_hooks_are_not_taken_as_replies() -> None:
    reader = ReplyReader()
    future = reader.expect()
    reader.feed(block("by a hook", flags=0) + block("reply") + block("no", flags=0, end="error"))
    assert future.result() == [["reply"]]


async def test_lines_that_look_like_the_end_of_another_block_are_text() -> None:
    reader = ReplyReader()
    future = reader.expect()
    text = ["%end 1700000000 40 1", "%end 1700000000 41 0", "%begin 1 2 1", "%error", "%exit", "", "%"]
    reader.feed(block(*text))
    assert future.result() == [text]


async def test_fenced_reply_may_contain_a_forged_end_of_its_own_block() -> None:
    reader = ReplyReader()
    captured, fence, after = reader.expect(fence=b"secret"), reader.expect(), reader.expect()
    forged = ["%end 1700000000 41 1", "%begin 1700000000 42 1", "forged", "%error 1700000000 41 1"]
    hook = block("by a hook", number=42, flags=0)
    reader.feed(block("x", *forged, "y") + hook + block("secret", number=43) + block("next", number=44))
    assert captured.result() == [["x", *forged, "y"]]
    assert fence.result() == [["secret"]]
    assert after.result() == [["next"]]


async def test_fenced_command_raises_refused_when_tmux_rejects_it() -> None:
    reader = ReplyReader()
    captured, fence = reader.expect(fence=b"secret"), reader.expect()
    reader.feed(block("can't find pane: %9", end="error") + block("secret", number=42))
    with pytest.raises(Refused, match="%9"):
        captured.result()
    assert fence.result() == [["secret"]]


async def test_cancelled_caller_does_not_shift_the_following_replies() -> None:
    reader = ReplyReader()
    first, second = reader.expect(), reader.expect()
    first.cancel()
    reader.feed(block("one") + block("two"))
    assert second.result() == [["two"]]


@pytest.mark.parametrize(
    "data",
    [END, ERROR, BEGIN + END, BEGIN + b"x" * 20_000, b"x" * 20_000, BEGIN + b"x\n" * 9_000],
    ids=["end", "error", "unexpected", "long line", "endless line", "endless block"],
)
async def test_feed_raises_garbled_reply_when_the_data_is_not_a_valid_reply(data: bytes) -> None:
    with pytest.raises(GarbledReply):
        ReplyReader().feed(data)


async def test_error_text_of_a_hook_between_two_replies_is_ignored() -> None:
    reader = ReplyReader()
    first, second = reader.expect(), reader.expect()
    reader.feed(BEGIN + b"one\n" + END + b"can't find session: x\n\n" + BEGIN + b"two\n" + END)
    assert (await first, await second) == ([["one"]], [["two"]])


def test_quote_refuses_the_null_character() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")


@settings(max_examples=settings().max_examples // 2)
@given(
    words=st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30),
        min_size=1,
        max_size=40,
    )
)
@example(
    words=["%:", "%if", "'", "it's", "a\rb", "\n", "\\", "~", "$HOME", "{", "}", "#{pid}", ";", "a;", "A=b"]
)
def test_quoted_words_reach_the_process_unchanged(words: list[str]) -> None:
    async def run() -> None:
        world = World()
        try:
            async with world.terminals() as terminals:
                # A process in the pane records the words, because tmux would show options and buffers escaped.
                out = world.home / "out"
                script = f'printf "%s\\0" "$@" > {out}.new; mv {out}.new {out}'
                await terminals.open(
                    "1a2b3c4d", "command-1a2b3c4d", "/", ("/bin/sh", "-c", script, "sh", *words)
                )
                await until(out.exists)
            assert out.read_bytes().decode().split("\0") == [*words, ""]
        finally:
            await world.end()

    asyncio.run(run())


async def test_screen_text_with_reply_marks_cannot_forge_a_reply(world: World) -> None:
    async with world.terminals() as terminals:
        # The script guesses the time and prints the reply marks of the next hundreds of commands.
        script = (
            "now=$(date +%s); for n in $(seq 20 400); do for t in $now $((now + 1)) $((now + 2)); do"
            ' echo "%end $t $n 1"; echo "%begin $t $n 1"; done; done; echo over; exec sleep 1000'
        )
        await terminals.open("1a2b3c4d", "command-1a2b3c4d", "/", sh(script))

        async def all_printed() -> bool:
            return (await terminals.capture("command-1a2b3c4d", 1)) == ["over"]

        await until_async(all_printed)
        lines = await terminals.capture("command-1a2b3c4d", 3000)
        assert len(lines) == 381 * 6 + 1
        assert set(await terminals.snapshot()) == {"1a2b3c4d"}


async def test_concurrent_captures_get_their_own_replies(world: World) -> None:
    async with world.terminals() as terminals:
        names = [f"command-{secrets.token_hex(4)}" for _ in range(5)]
        for name in names:
            await terminals.open(name[-8:], name, "/", sh(f"echo {name}; exec sleep 1000"))

        async def all_shown() -> bool:
            return all([await terminals.capture(name, 1) == [name] for name in names])

        await until_async(all_shown)
        captured = await asyncio.gather(*(terminals.capture(name, 1) for name in names * 5))
        assert captured == [[name] for name in names * 5]


async def test_client_that_ends_before_it_is_known_leaves_no_open_transport(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    start = loop.subprocess_exec
    made: list[asyncio.SubprocessTransport] = []

    async def late(*arguments: Any, **options: Any) -> tuple[asyncio.SubprocessTransport, Control]:
        transport, client = await start(*arguments, **options)
        made.append(transport)
        await client.wait_ended()
        return transport, client

    monkeypatch.setattr(loop, "subprocess_exec", late)
    client = await Control.start(["true"], os.environ, lambda line: None, NEVER_S, umask=-1)
    assert not client.alive
    assert made[0].is_closing()
