"""Usage totals of transcripts, from real files in claude's format and a real database."""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.search.tables import PART
from sm.config import Config
from sm.config.model import ChildAgents, Progress
from sm.core.models import Session
from sm.core.observation import Observation
from sm.core.usage import Usage
from sm.monitor.transcripts import Root
from sm.monitor.usage import UsageMeter
from sm.providers.claude.transcript import ClaudeTranscriptReader
from sm.providers.readers import TranscriptDelta
from sm.store import Store, Transaction
from tests.samples import LAUNCH, commit, session

READER = ClaudeTranscriptReader()
OPUS = "claude-opus-4-8"


def at(second: int) -> str:
    return f"2026-01-27T15:10:{second:02}.000Z"


def message(
    id: str, second: int = 1, *, tool: str = "", text: str = "", sidechain: bool = False, **usage: int
) -> bytes:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": f"toolu_{id}", "name": tool, "input": {"n": id}}] if tool else []
    line = {
        "type": "assistant",
        "timestamp": at(second),
        "isSidechain": sidechain,
        "message": {
            "id": id,
            "model": OPUS,
            "content": content,
            "usage": {"input_tokens": 0, "output_tokens": 0} | (usage or {"input_tokens": 1}),
        },
    }
    return json.dumps(line).encode() + b"\n"


def task_created(id: str, subject: str) -> bytes:
    line = {
        "type": "user",
        "timestamp": at(1),
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{id}"}]},
        "toolUseResult": {"task": {"id": id, "subject": subject}},
    }
    return json.dumps(line).encode() + b"\n"


def user_text(text: str, second: int) -> bytes:
    content = {"role": "user", "content": text}
    return json.dumps({"type": "user", "timestamp": at(second), "message": content}).encode() + b"\n"


def prompt(text: str, second: int, parent: str) -> bytes:
    line = {
        "type": "user",
        "timestamp": at(second),
        "uuid": text,
        "parentUuid": parent or None,
        "promptId": "p",
        "message": {"role": "user", "content": f"[sm] {text}"},
    }
    return json.dumps(line).encode() + b"\n"


def append(path: Path, *lines: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(lines))


async def keep(tx: Transaction, observations: Sequence[Observation]) -> None:
    """Record nothing."""


@dataclass
class Bench:
    """A session with its files, and a `UsageMeter` as after a start of the daemon."""

    store: Store
    home: Path
    session: Session
    usage: UsageMeter
    deltas: list[TranscriptDelta] = field(default_factory=list)

    async def record(self, delta: TranscriptDelta) -> None:
        self.deltas.append(delta)

    def main(self, name: str = "one") -> Path:
        return self.home / "projects" / "w" / f"{name}.jsonl"

    def of_sub_agent(self, agent: str, name: str = "one") -> Path:
        return self.home / "projects" / "w" / name / "subagents" / f"agent-{agent}.jsonl"

    def restart(self, **settings: bool) -> None:
        config = Config(child_agents=ChildAgents(progress=Progress(**settings)))
        self.usage = UsageMeter(self.store, config, lambda: "9")

    async def read(self, name: str = "one", *, since: str = "") -> int:
        """Read new lines; return the number of observations about the current conversation."""
        found = await self.usage.read(
            self.session,
            str(self.main(name)),
            READER,
            self.record,
            keep,
            below=Root(str(self.home)),
            since=since,
        )
        return len(found)

    async def input(self) -> int:
        return sum(u.input for u in await self.used())

    async def used(self) -> list[Usage]:
        return (await self.store.usage.of([self.session.id])).get(self.session.id, [])

    async def tools(self) -> Mapping[str, int]:
        return await self.store.measures.tools(self.session.id)

    async def facts(self) -> dict[str, Any]:
        return await self.store.measures.facts(self.session.id)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    home = tmp_path / "home"
    launch = replace(LAUNCH, environment={"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(home)})
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        inserted = session("aaaa1111")
        await commit(store, lambda tx: tx.insert(inserted, launch, None))
        yield Bench(store, home, inserted, UsageMeter(store, Config(), lambda: "9"))


async def test_next_daemon_does_not_count_read_lines_again(bench: Bench) -> None:
    whole = message("m1", tool="Bash", input_tokens=10)
    append(bench.main(), whole, whole[:20])
    assert await bench.read() == 1
    bench.restart()
    assert await bench.read() == 0
    append(bench.main(), whole[20:], message("m2", input_tokens=7))
    bench.restart()
    await bench.read()
    assert (await bench.input(), await bench.tools()) == (17, {"Bash": 1})


async def test_next_daemon_reports_the_last_prompt_and_newer_prompts_once(bench: Bench) -> None:
    append(bench.main(), prompt("one", 1, ""), message("m1"), prompt("two", 2, "m1"), message("m2"))
    await bench.read()
    append(bench.main(), prompt("three", 3, "m1"))
    bench.deltas.clear()
    bench.restart()
    await bench.usage.add_transcript(bench.session.id, str(bench.main()))
    for _ in range(2):
        await bench.read()
    assert [(input.text, input.parent) for delta in bench.deltas for input in delta.accepted] == [
        ("[sm] two", "m1"),
        ("[sm] three", "m1"),
    ]


async def test_rewritten_transcript_adds_only_its_new_messages(bench: Bench) -> None:
    append(bench.main(), message("m1", input_tokens=10), message("m2", input_tokens=10))
    await bench.read()
    other = bench.main("other")
    append(other, message("m2", input_tokens=10), message("m3", input_tokens=5))
    os.rename(other, bench.main())
    await bench.read()
    assert await bench.input() == 25


async def test_lines_read_while_the_session_is_removed_store_nothing(bench: Bench) -> None:
    append(bench.main(), message("m1", tool="Bash", input_tokens=10))
    await bench.read()
    assert [f.type for f in await bench.store.part(PART).find("Bash", sessions=None)] == ["tool"]
    await commit(bench.store, lambda tx: tx.remove(bench.session))
    append(bench.main(), task_created("1", "secret"), message("m2", tool="Bash", input_tokens=10))
    await bench.read()
    assert await bench.store.usage.of_messages(bench.session.id, ["m1", "m2"]) == {}
    assert (await bench.input(), await bench.tools(), await bench.facts()) == (10, {}, {}), "its sums stay"
    assert await bench.store.part(PART).find("Bash", sessions=None) == []
    assert await bench.store.measures.positions(bench.session.id) == {}


async def test_sub_agents_are_counted_separately_and_change_no_conversation_facts(bench: Bench) -> None:
    append(bench.main(), task_created("1", "mine"), message("m1", 5, tool="Agent", input_tokens=100))
    append(
        bench.of_sub_agent("a"),
        task_created("2", "not mine"),
        message("m2", 3, tool="Bash", sidechain=True, input_tokens=7),
    )
    append(bench.of_sub_agent("b"), message("m3", 4, tool="Read", sidechain=True, input_tokens=9))
    assert await bench.read() == 2, "only those of the conversation"
    usages = await bench.used()
    assert {u.sidechain: u.input for u in usages} == {False: 100, True: 16}
    facts = await bench.facts()
    assert ([t["content"] for t in facts["todo"]], facts["context_tokens"]) == (["mine"], 100)
    assert facts["last_tool"]["name"] == "Agent", "the newest tool, regardless of the order of files"
    append(bench.of_sub_agent("a"), message("m4", 6, tool="Grep", sidechain=True))
    await bench.read()
    assert (await bench.facts())["last_tool"] == {"name": "Grep", "args": {"n": "m4"}, "timestamp": at(6)}


async def test_new_conversation_resets_its_facts_and_keeps_the_totals(bench: Bench) -> None:
    append(bench.main(), task_created("1", "old"), message("m1", input_tokens=100))
    await bench.read()
    assert set(await bench.facts()) == {
        "transcript", "todo", "context_tokens", "model", "calls", "grew_at", "work",
    }  # fmt: skip
    await bench.read("two")  # the file does not exist yet
    assert await bench.facts() == {"transcript": str(bench.main("two")), "model": OPUS}
    # The last lines of the old conversation arrive late, and its sub-agent still works.
    append(bench.main(), task_created("2", "older"), message("m2", input_tokens=1000))
    append(bench.of_sub_agent("late"), message("m3", sidechain=True, input_tokens=10_000))
    append(bench.main("two"), message("m4", input_tokens=7))
    bench.restart()
    await bench.read("two")
    assert await bench.input() == 11_107
    facts = await bench.facts()
    assert (facts["todo"], facts["context_tokens"]) == ([], 7)


async def test_registered_transcript_is_counted_when_its_conversation_is_already_over(bench: Bench) -> None:
    await bench.usage.add_transcript(bench.session.id, str(bench.main("short")))
    await bench.usage.add_transcript(bench.session.id, str(bench.main("short")))
    bench.restart()
    append(bench.main("short"), message("m1", input_tokens=10))
    append(bench.of_sub_agent("a", "short"), message("m2", sidechain=True, input_tokens=100))
    append(bench.main(), message("m3", input_tokens=1))
    await bench.read()
    await bench.usage.add_transcript(bench.session.id, str(bench.main("short")))
    await bench.read()
    assert await bench.input() == 111


async def test_lines_from_before_the_session_are_not_counted(bench: Bench) -> None:
    append(bench.main(), message("m1", 1, tool="Bash", input_tokens=10), message("m2", 9, input_tokens=5))
    await bench.read(since=at(5))
    assert (await bench.input(), await bench.tools()) == (5, {})
    assert "last_tool" not in await bench.facts()
    assert (await bench.facts())["context_tokens"] == 5


async def test_only_transcripts_below_the_agents_home_are_read(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "one.jsonl"
    append(outside, message("m1", input_tokens=10))
    bench.main().parent.mkdir(parents=True)
    bench.main().symlink_to(outside)
    await bench.read()
    await bench.usage.read(
        bench.session, str(outside), READER, bench.record, keep, below=Root(str(bench.home))
    )
    await bench.usage.add_transcript(bench.session.id, f"{bench.home}/../outside/one.jsonl")
    await bench.read()
    assert await bench.input() == 0


async def test_session_below_a_directory_named_subagents_is_not_a_sub_agent(tmp_path: Path) -> None:
    home = tmp_path / "subagents" / "home"
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        inserted = session("aaaa1111")
        await commit(store, lambda tx: tx.insert(inserted, LAUNCH, None))
        odd = Bench(store, home, inserted, UsageMeter(store, Config(), lambda: "9"))
        append(odd.main(), message("m1", input_tokens=10))
        await odd.read()
        append(odd.main(), message("m2", input_tokens=20))
        await odd.read("two")
        assert (await odd.facts())["transcript"] == str(odd.main("two"))
        assert await odd.input() == 30


async def test_disabled_tracking_still_reads_the_transcript(bench: Bench) -> None:
    append(bench.main(), message("m1", tool="Bash", input_tokens=10))
    bench.restart(enable_token_tracking=False)
    assert await bench.read() == 1
    assert (await bench.input(), await bench.tools()) == (0, {"Bash": 1})
    assert "context_tokens" not in await bench.facts()
    append(bench.main(), message("m2", 2, tool="Bash", input_tokens=10))
    bench.restart(enable_tool_tracking=False)
    assert await bench.read() == 1
    assert (await bench.input(), await bench.tools()) == (10, {"Bash": 1})
    assert (await bench.facts())["last_tool"]["args"] == {"n": "m1"}


async def test_model_comes_from_the_agent_or_else_from_the_responses(bench: Bench) -> None:
    append(bench.main(), message("m1"))
    await bench.read()
    assert (await bench.facts())["model"] == OPUS
    await bench.usage.set_model(bench.session.id, f"{OPUS}[1m]")
    append(bench.main(), message("m2"))
    await bench.read()
    assert (await bench.facts())["model"] == f"{OPUS}[1m]"
    haiku = message("m3").replace(OPUS.encode(), b"claude-haiku-4-5-20251001")
    append(bench.of_sub_agent("a"), haiku.replace(b'"isSidechain": false', b'"isSidechain": true'))
    await bench.read()
    assert (await bench.facts())["model"] == f"{OPUS}[1m]"
    append(bench.main(), haiku.replace(b"m3", b"m4"))  # by `/model`, which no hook reports
    await bench.read()
    assert (await bench.facts())["model"] == "claude-haiku-4-5-20251001"


async def test_version_is_that_of_the_last_answer(bench: Bench) -> None:
    append(bench.main(), message("m1"))
    await bench.read()
    assert "version" not in await bench.facts()
    for number, version in enumerate(("2.1.197", "2.1.332")):
        said = message(f"v{number}").replace(
            b'"isSidechain"', b'"version": "%s", "isSidechain"' % version.encode()
        )
        append(bench.main(), said)
    await bench.read()
    assert (await bench.facts())["version"] == "2.1.332"
    assert bench.store.sessions[bench.session.id].program_version == "2.1.332"


@pytest.mark.parametrize("said", [b"", b"new", b"2.1"])
async def test_version_of_the_session_stays_when_the_transcript_names_none(bench: Bench, said: bytes) -> None:
    append(bench.main(), message("m1").replace(b'"isSidechain"', b'"version": "%s", "isSidechain"' % said))
    await bench.read()
    assert bench.store.sessions[bench.session.id].program_version is None


async def test_actions_include_earlier_conversations(bench: Bench) -> None:
    append(bench.main(), user_text("first", 1), user_text("second", 2))
    append(bench.of_sub_agent("a"), user_text("of a sub-agent", 3))
    await bench.read()
    append(bench.main("two"), user_text("third", 4))
    await bench.read("two")
    append(bench.main("three"), user_text("fourth", 5))
    await bench.read("three")
    for number, name in enumerate(("one", "two", "three")):
        os.utime(bench.main(name), (number, number))
    now = replace(bench.session, transcript=str(bench.main("three")))

    async def last(count: int) -> list[str]:
        return [action.text for action in await bench.usage.actions(now, READER, count, tuple)]

    assert await last(10) == ["first", "second", "third", "fourth"]
    assert await last(3) == ["second", "third", "fourth"]
    assert await last(1) == ["fourth"]
    assert await last(0) == []
    bench.main("two").unlink()
    assert await last(3) == ["first", "second", "fourth"]
    assert await bench.usage.actions(bench.session, READER, 5, tuple) == ()


async def test_long_transcript_is_read_completely_in_one_call(bench: Bench) -> None:
    lines = [message(f"m{n}", tool="Bash", input_tokens=1) for n in range(10_000)]
    append(bench.main(), *lines)
    assert sum(map(len, lines)) > 2 * 1024 * 1024
    assert await bench.read() == 2, "the observations are condensed"
    assert len(bench.deltas) > 8, "no delta is large"
    assert (await bench.input(), await bench.tools()) == (10_000, {"Bash": 10_000})


def queued(text: str) -> bytes:
    line = {"type": "queue-operation", "timestamp": at(1), "operation": "enqueue", "content": text}
    return json.dumps(line).encode() + b"\n"


async def test_transcript_delta_is_reported_again_when_the_listener_failed(bench: Bench) -> None:
    append(bench.main(), message("m1", tool="Bash"), queued("[sm] from a, message 7\nhi"))

    async def fail(delta: TranscriptDelta) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await bench.usage.read(
            bench.session, str(bench.main()), READER, fail, keep, below=Root(str(bench.home))
        )
    bench.restart()
    await bench.read()
    assert [accepted.text for delta in bench.deltas for accepted in delta.accepted] == [
        "[sm] from a, message 7\nhi"
    ]
    await bench.read()
    assert (len(bench.deltas), await bench.tools()) == (1, {"Bash": 1})


async def test_last_lines_of_the_previous_conversation_are_reported(bench: Bench) -> None:
    append(bench.main(), message("m1"))
    await bench.read()
    append(bench.main(), queued("[sm] from a, message 7\nhi"))
    append(bench.main("two"), message("m2"))
    await bench.read("two")
    assert [accepted.text for delta in bench.deltas for accepted in delta.accepted] == [
        "[sm] from a, message 7\nhi"
    ]


async def test_last_words_are_those_of_the_current_conversation(bench: Bench) -> None:
    append(bench.main(), message("m1", 1, text="I look."), message("m2", 2, text="All\ndone. " + "x" * 600))
    await bench.read()
    answer = (await bench.facts())["answer"]
    assert answer.startswith("All done. x")
    assert len(answer) <= 500
    append(bench.main(), message("m3", 3, tool="Bash"))
    append(bench.of_sub_agent("a"), message("m4", 4, text="a sub-agent's", sidechain=True))
    await bench.read()
    assert (await bench.facts())["answer"] == answer
    append(bench.main("two"), user_text("hello", 5))
    await bench.read("two")
    assert "answer" not in await bench.facts()


async def test_usage_and_facts_of_several_sessions_are_those_of_each_one(bench: Bench) -> None:
    append(bench.main(), message("m1", input_tokens=10), message("m2", input_tokens=7))
    append(bench.of_sub_agent("a"), message("m3", sidechain=True, input_tokens=5))
    await bench.read()
    measures, usage, own = bench.store.measures, bench.store.usage, bench.session.id
    asked = [own, "no such id"]
    assert sorted(u.input for u in (await usage.of(asked))[own]) == [5, 17]
    assert await usage.of(asked) == {own: await bench.used()}
    assert await measures.facts_of(asked) == {own: await bench.facts()}
    assert await usage.of([]) == {}
    assert await measures.facts_of([]) == {}
