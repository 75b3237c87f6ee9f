"""What transcripts add up to, from real files on a real store, read by the reader of claude."""

import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sm.config import Config
from sm.config.model import ChildAgents, Progress
from sm.core.models import Session
from sm.monitor.usage import UsageMeter
from sm.providers.claude.transcript import ClaudeTranscriptReader
from sm.providers.readers import TranscriptDelta
from sm.store import Store
from tests.samples import LAUNCH, commit, session

READER = ClaudeTranscriptReader()
OPUS = "claude-opus-4-8"


def at(second: int) -> str:
    return f"2026-01-27T15:10:{second:02}.000Z"


def message(id: str, second: int = 1, *, tool: str = "", sidechain: bool = False, **usage: int) -> bytes:
    content = [{"type": "tool_use", "id": f"toolu_{id}", "name": tool, "input": {"n": id}}] if tool else []
    made = {
        "type": "assistant",
        "timestamp": at(second),
        "isSidechain": sidechain,
        "message": {"id": id, "model": OPUS, "content": content, "usage": usage or {"input_tokens": 1}},
    }
    return json.dumps(made).encode() + b"\n"


def created(id: str, subject: str) -> bytes:
    made = {
        "type": "user",
        "timestamp": at(1),
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{id}"}]},
        "toolUseResult": {"task": {"id": id, "subject": subject}},
    }
    return json.dumps(made).encode() + b"\n"


def said(text: str, second: int) -> bytes:
    content = {"role": "user", "content": text}
    return json.dumps({"type": "user", "timestamp": at(second), "message": content}).encode() + b"\n"


def prompt(text: str, second: int, parent: str) -> bytes:
    made = {
        "type": "user",
        "timestamp": at(second),
        "uuid": text,
        "parentUuid": parent or None,
        "promptId": "p",
        "message": {"role": "user", "content": f"[sm] {text}"},
    }
    return json.dumps(made).encode() + b"\n"


def append(path: Path, *lines: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(lines))


@dataclass
class Bench:
    """One session and its files; a `UsageMeter` of its own as after a start of the daemon."""

    store: Store
    home: Path
    session: Session
    usage: UsageMeter
    told: list[TranscriptDelta] = field(default_factory=list)

    async def tell(self, news: TranscriptDelta) -> None:
        self.told.append(news)

    def main(self, name: str = "one") -> Path:
        return self.home / "projects" / "w" / f"{name}.jsonl"

    def of_agent(self, agent: str, name: str = "one") -> Path:
        return self.home / "projects" / "w" / name / "subagents" / f"agent-{agent}.jsonl"

    def restarted(self, **settings: bool) -> None:
        config = Config(child_agents=ChildAgents(progress=Progress(**settings)))
        self.usage = UsageMeter(self.store, config, lambda: "9")

    async def read(self, name: str = "one", *, since: str = "") -> int:
        """How many observations the new lines of the current conversation made."""
        found = await self.usage.read(
            self.session, str(self.main(name)), READER, self.tell, below=str(self.home), since=since
        )
        return len(found)

    async def input(self) -> int:
        return sum(u.input for u in await self.store.measures.usage(self.session.id))

    async def tools(self) -> Mapping[str, int]:
        return await self.store.measures.tools(self.session.id)

    async def facts(self) -> dict[str, Any]:
        return await self.store.measures.facts(self.session.id)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    home = tmp_path / "home"
    launch = replace(LAUNCH, environment={"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(home)})
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        made = session("aaaa1111")
        await commit(store, lambda tx: tx.insert(made, launch, None))
        yield Bench(store, home, made, UsageMeter(store, Config(), lambda: "9"))


async def test_what_was_read_is_not_counted_again_by_the_next_daemon(bench: Bench) -> None:
    whole = message("m1", tool="Bash", input_tokens=10)
    append(bench.main(), whole, whole[:20])
    assert await bench.read() == 1
    bench.restarted()
    assert await bench.read() == 0
    append(bench.main(), whole[20:], message("m2", input_tokens=7))
    bench.restarted()
    await bench.read()
    assert (await bench.input(), await bench.tools()) == (17, {"Bash": 1})


async def test_the_next_daemon_is_told_again_of_the_prompt_that_was_read_last_and_of_no_later_one(
    bench: Bench,
) -> None:
    append(bench.main(), prompt("one", 1, ""), message("m1"), prompt("two", 2, "m1"), message("m2"))
    await bench.read()
    append(bench.main(), prompt("three", 3, "m1"))
    bench.told.clear()
    bench.restarted()
    await bench.usage.add_transcript(bench.session.id, str(bench.main()))
    for _ in range(2):
        await bench.read()
    assert [(each.text, each.parent) for delta in bench.told for each in delta.accepted] == [
        ("[sm] two", "m1"),
        ("[sm] three", "m1"),
    ]


async def test_a_file_that_was_written_anew_counts_what_is_new_in_it(bench: Bench) -> None:
    append(bench.main(), message("m1", input_tokens=10), message("m2", input_tokens=10))
    await bench.read()
    other = bench.main("other")
    append(other, message("m2", input_tokens=10), message("m3", input_tokens=5))
    os.rename(other, bench.main())
    await bench.read()
    assert await bench.input() == 25


async def test_sub_agents_count_apart_and_say_nothing_of_the_conversation(bench: Bench) -> None:
    append(bench.main(), created("1", "mine"), message("m1", 5, tool="Agent", input_tokens=100))
    append(
        bench.of_agent("a"),
        created("2", "not mine"),
        message("m2", 3, tool="Bash", sidechain=True, input_tokens=7),
    )
    append(bench.of_agent("b"), message("m3", 4, tool="Read", sidechain=True, input_tokens=9))
    assert await bench.read() == 2, "only of the conversation"
    usages = await bench.store.measures.usage(bench.session.id)
    assert {u.sidechain: u.input for u in usages} == {False: 100, True: 16}
    facts = await bench.facts()
    assert ([t["content"] for t in facts["todo"]], facts["context_tokens"]) == (["mine"], 100)
    assert facts["last_tool"]["name"] == "Agent", "the newest, in whatever order files are read"
    append(bench.of_agent("a"), message("m4", 6, tool="Grep", sidechain=True))
    await bench.read()
    assert (await bench.facts())["last_tool"] == {"name": "Grep", "args": {"n": "m4"}, "timestamp": at(6)}


async def test_another_conversation_begins_empty_and_totals_go_on(bench: Bench) -> None:
    append(bench.main(), created("1", "old"), message("m1", input_tokens=100))
    await bench.read()
    assert set(await bench.facts()) == {"transcript", "todo", "context_tokens", "model"}
    await bench.read("two")  # its file is not there yet
    assert await bench.facts() == {"transcript": str(bench.main("two")), "model": OPUS}
    # The last lines of the old one come late, and a sub-agent of it still works.
    append(bench.main(), created("2", "older"), message("m2", input_tokens=1000))
    append(bench.of_agent("late"), message("m3", sidechain=True, input_tokens=10_000))
    append(bench.main("two"), message("m4", input_tokens=7))
    bench.restarted()
    await bench.read("two")
    assert await bench.input() == 11_107
    facts = await bench.facts()
    assert (facts["todo"], facts["context_tokens"]) == ([], 7)


async def test_a_conversation_that_was_over_before_anybody_looked_is_counted(bench: Bench) -> None:
    await bench.usage.add_transcript(bench.session.id, str(bench.main("short")))
    await bench.usage.add_transcript(bench.session.id, str(bench.main("short")))
    bench.restarted()
    append(bench.main("short"), message("m1", input_tokens=10))
    append(bench.of_agent("a", "short"), message("m2", sidechain=True, input_tokens=100))
    append(bench.main(), message("m3", input_tokens=1))
    await bench.read()
    await bench.usage.add_transcript(bench.session.id, str(bench.main("short")))
    await bench.read()
    assert await bench.input() == 111


async def test_what_was_said_before_the_session_began_is_not_its_own(bench: Bench) -> None:
    append(bench.main(), message("m1", 1, tool="Bash", input_tokens=10), message("m2", 9, input_tokens=5))
    await bench.read(since=at(5))
    assert (await bench.input(), await bench.tools()) == (5, {})
    assert "last_tool" not in await bench.facts()
    assert (await bench.facts())["context_tokens"] == 5


async def test_only_what_lies_below_the_agents_home_is_read(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "one.jsonl"
    append(outside, message("m1", input_tokens=10))
    bench.main().parent.mkdir(parents=True)
    bench.main().symlink_to(outside)
    await bench.read()
    await bench.usage.read(bench.session, str(outside), READER, bench.tell, below=str(bench.home))
    await bench.usage.add_transcript(bench.session.id, f"{bench.home}/../outside/one.jsonl")
    await bench.read()
    assert await bench.input() == 0


async def test_a_session_below_a_directory_with_an_odd_name_is_no_sub_agent(tmp_path: Path) -> None:
    home = tmp_path / "subagents" / "home"
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        made = session("aaaa1111")
        await commit(store, lambda tx: tx.insert(made, LAUNCH, None))
        odd = Bench(store, home, made, UsageMeter(store, Config(), lambda: "9"))
        append(odd.main(), message("m1", input_tokens=10))
        await odd.read()
        append(odd.main(), message("m2", input_tokens=20))
        await odd.read("two")
        assert (await odd.facts())["transcript"] == str(odd.main("two"))
        assert await odd.input() == 30


async def test_what_is_switched_off_is_not_counted_but_read(bench: Bench) -> None:
    append(bench.main(), message("m1", tool="Bash", input_tokens=10))
    bench.restarted(enable_token_tracking=False)
    assert await bench.read() == 1
    assert (await bench.input(), await bench.tools()) == (0, {"Bash": 1})
    assert "context_tokens" not in await bench.facts()
    append(bench.main(), message("m2", 2, tool="Bash", input_tokens=10))
    bench.restarted(enable_tool_tracking=False)
    assert await bench.read() == 1
    assert (await bench.input(), await bench.tools()) == (10, {"Bash": 1})
    assert (await bench.facts())["last_tool"]["args"] == {"n": "m1"}


async def test_the_model_is_what_the_agent_says_else_what_answered(bench: Bench) -> None:
    append(bench.main(), message("m1"))
    await bench.read()
    assert (await bench.facts())["model"] == OPUS
    await bench.usage.set_model(bench.session.id, f"{OPUS}[1m]")
    append(bench.main(), message("m2"))
    await bench.read()
    assert (await bench.facts())["model"] == f"{OPUS}[1m]"
    haiku = message("m3").replace(OPUS.encode(), b"claude-haiku-4-5-20251001")
    append(bench.of_agent("a"), haiku.replace(b'"isSidechain": false', b'"isSidechain": true'))
    await bench.read()
    assert (await bench.facts())["model"] == f"{OPUS}[1m]"
    append(bench.main(), haiku.replace(b"m3", b"m4"))  # by `/model`, of which no hook tells
    await bench.read()
    assert (await bench.facts())["model"] == "claude-haiku-4-5-20251001"


async def test_the_last_actions_go_back_into_the_conversations_before(bench: Bench) -> None:
    append(bench.main(), said("first", 1), said("second", 2))
    append(bench.of_agent("a"), said("of a sub-agent", 3))
    await bench.read()
    append(bench.main("two"), said("third", 4))
    await bench.read("two")
    append(bench.main("three"), said("fourth", 5))
    await bench.read("three")
    for number, name in enumerate(("one", "two", "three")):
        os.utime(bench.main(name), (number, number))
    now = replace(bench.session, transcript=str(bench.main("three")))

    async def last(count: int) -> list[str]:
        return [action.text for action in await bench.usage.actions(now, READER, count)]

    assert await last(10) == ["first", "second", "third", "fourth"]
    assert await last(3) == ["second", "third", "fourth"]
    assert await last(1) == ["fourth"]
    assert await last(0) == []
    bench.main("two").unlink()
    assert await last(3) == ["first", "second", "fourth"]
    assert await bench.usage.actions(bench.session, READER, 5) == ()


async def test_a_long_transcript_is_read_in_one_go(bench: Bench) -> None:
    lines = [message(f"m{n}", tool="Bash", input_tokens=1) for n in range(10_000)]
    append(bench.main(), *lines)
    assert sum(map(len, lines)) > 2 * 1024 * 1024
    assert await bench.read() == 10_000
    assert (await bench.input(), await bench.tools()) == (10_000, {"Bash": 10_000})


def queued(text: str) -> bytes:
    line = {"type": "queue-operation", "timestamp": at(1), "operation": "enqueue", "content": text}
    return json.dumps(line).encode() + b"\n"


async def test_what_was_heard_is_told_again_until_it_is_written_down_that_it_was_read(bench: Bench) -> None:
    append(bench.main(), message("m1", tool="Bash"), queued("[sm] from a, message 7\nhi"))

    async def died(news: TranscriptDelta) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await bench.usage.read(bench.session, str(bench.main()), READER, died, below=str(bench.home))
    bench.restarted()
    await bench.read()
    assert [h.text for news in bench.told for h in news.accepted] == ["[sm] from a, message 7\nhi"]
    await bench.read()
    assert (len(bench.told), await bench.tools()) == (1, {"Bash": 1})


async def test_the_last_words_of_the_conversation_before_are_heard_too(bench: Bench) -> None:
    append(bench.main(), message("m1"))
    await bench.read()
    append(bench.main(), queued("[sm] from a, message 7\nhi"))
    append(bench.main("two"), message("m2"))
    await bench.read("two")
    assert [h.text for news in bench.told for h in news.accepted] == ["[sm] from a, message 7\nhi"]
