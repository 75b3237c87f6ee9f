"""The control protocol's reading half, and the quoting of what is written."""

import asyncio
import secrets

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sm.terminals.tmux.control import GarbledReply, Refused, Replies, Reply, quote
from tests.terminals.world import World, sh, until, until_async

BEGIN, END, ERROR = (f"%{word} 1700000000 41 1\n".encode() for word in ("begin", "end", "error"))


class Reading:
    """`Replies` in use: what is expected of it comes back as plain values."""

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


async def test_replies_go_to_the_lines_in_their_order() -> None:
    reading = Reading()
    first, second = reading.expect(), reading.expect()
    reading.feed(block("one", "two") + block())
    assert first.result() == [["one", "two"]]
    assert second.result() == [[]]


@pytest.mark.parametrize("size", [1, 2, 7])
async def test_reply_may_arrive_in_pieces(size: int) -> None:
    reading = Reading()
    future = reading.expect()
    data = b"%sessions-changed\n" + block("täst ☃") + b"%window-add @1\n"
    reading.feed(*(data[i : i + size] for i in range(0, len(data), size)))
    assert future.result() == [["täst ☃"]]
    assert reading.notifications == ["%sessions-changed", "%window-add @1"]


async def test_line_of_several_commands_has_a_block_for_each() -> None:
    reading = Reading()
    future = reading.expect(commands=3)
    reading.feed(block("a") + block())
    assert not future.done()
    reading.feed(block("c"))
    assert future.result() == [["a"], [], ["c"]]


async def test_refused_command_ends_its_line_and_keeps_what_came_before() -> None:
    reading = Reading()
    future, after = reading.expect(commands=3), reading.expect()
    reading.feed(block("made $1") + block("can't find pane", end="error") + block("next"))
    with pytest.raises(Refused, match="can't find pane") as refused:
        future.result()
    assert refused.value.outputs == [["made $1"]]
    assert after.result() == [["next"]]


async def test_blocks_of_hooks_answer_nobody() -> None:
    reading = Reading()
    future = reading.expect()
    reading.feed(block("by a hook", flags=0) + block("ours") + block("no", flags=0, end="error"))
    assert future.result() == [["ours"]]


async def test_text_that_looks_like_another_blocks_end_is_text() -> None:
    reading = Reading()
    future = reading.expect()
    text = ["%end 1700000000 40 1", "%end 1700000000 41 0", "%begin 1 2 1", "%error", "%exit", "", "%"]
    reading.feed(block(*text))
    assert future.result() == [text]


async def test_fenced_text_may_even_hold_its_own_end() -> None:
    reading = Reading()
    captured, fence, after = reading.expect(fence=b"secret"), reading.expect(), reading.expect()
    forged = ["%end 1700000000 41 1", "%begin 1700000000 42 1", "forged", "%error 1700000000 41 1"]
    hook = block("by a hook", number=42, flags=0)
    reading.feed(block("x", *forged, "y") + hook + block("secret", number=43) + block("next", number=44))
    assert captured.result() == [["x", *forged, "y"]]
    assert fence.result() == [["secret"]]
    assert after.result() == [["next"]]


async def test_fenced_command_can_be_refused() -> None:
    reading = Reading()
    captured, fence = reading.expect(fence=b"secret"), reading.expect()
    reading.feed(block("can't find pane: %9", end="error") + block("secret", number=42))
    with pytest.raises(Refused, match="%9"):
        captured.result()
    assert fence.result() == [["secret"]]


async def test_caller_that_went_away_does_not_shift_the_replies() -> None:
    reading = Reading()
    first, second = reading.expect(), reading.expect()
    first.cancel()
    reading.feed(block("one") + block("two"))
    assert second.result() == [["two"]]


@pytest.mark.parametrize(
    "data",
    [END, ERROR, BEGIN + END, BEGIN + b"x" * 20_000, b"x" * 20_000, BEGIN + b"x\n" * 9_000],
    ids=["end", "error", "unasked", "long line", "endless line", "endless block"],
)
async def test_anything_else_is_garbled_and_not_an_answer(data: bytes) -> None:
    with pytest.raises(GarbledReply):
        Reading().feed(data)


async def test_complaint_of_a_hook_between_two_replies_is_passed_over() -> None:
    reading = Reading()
    first, second = reading.expect(), reading.expect()
    reading.feed(BEGIN + b"one\n" + END + b"can't find session: x\n\n" + BEGIN + b"two\n" + END)
    assert (await first, await second) == ([["one"]], [["two"]])


def test_NUL_cannot_be_quoted() -> None:
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
def test_tmux_reads_every_quoted_word_as_it_was(words: list[str]) -> None:
    async def run() -> None:
        world = World()
        try:
            async with world.terminals() as terminals:
                # A process of the pane is the witness: options and buffers would be shown escaped.
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


async def test_screen_that_prints_reply_marks_cannot_forge_a_reply(world: World) -> None:
    async with world.terminals() as terminals:
        # It guesses the time and prints the marks of the next hundreds of commands.
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


async def test_two_questions_at_once_get_their_own_answers(world: World) -> None:
    async with world.terminals() as terminals:
        names = [f"command-{secrets.token_hex(4)}" for _ in range(5)]
        for name in names:
            await terminals.open(name[-8:], name, "/", sh(f"echo {name}; exec sleep 1000"))

        async def all_shown() -> bool:
            return all([await terminals.capture(name, 1) == [name] for name in names])

        await until_async(all_shown)
        captured = await asyncio.gather(*(terminals.capture(name, 1) for name in names * 5))
        assert captured == [[name] for name in names * 5]
