"""Token counts of the real Claude Code: exactly the usage that the scripted API delivered, whatever interrupts a turn.

`api.usage(Kind.TURN)` is the expected sum: the turns of the conversation and of its sub-agents that were delivered
completely. Requests that claude makes for itself (compactions, titles) are in no transcript and are not counted
(docs/protocol.md).
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance
from tests.claude_usage import Agent, dollars, sub_agent, tokens, used
from tests.instance import until
from tests.scripted_api import Kind, ScriptedApi, Usage, tool, usage

ENDED = ("completed", "error", "abandoned", "killed")

api = scripted_api("function")


@pytest.fixture
def make(api: ScriptedApi) -> Iterator[Callable[[str], ClaudeInstance]]:
    instances: list[ClaudeInstance] = []

    def start(more: str = "") -> ClaudeInstance:
        instance = ClaudeInstance(api, more=more)
        instances.append(instance)
        return instance

    yield start
    for instance in instances:
        instance.end()


def test_token_counts_equal_the_delivered_usage(
    api: ScriptedApi, make: Callable[..., ClaudeInstance]
) -> None:
    instance = make()
    agent = Agent.spawned(instance, f"first [[text:hello]]{used(0)}")
    agent.counted()

    # Thinking, text and three tools: one message, five lines.
    note = tool("Write", file_path=f"{instance.work}/note", content="x")
    agent.turn(
        f"second [[think:hm]][[text:so]][[tool:Bash:echo a]][[tool:Bash:echo b]]{note}{used(1)}"
        f"[[then]][[text:done]]{used(2)}"
    )
    assert agent.counted()["tools_used"] == {"Bash": 2, "Write": 1}

    within = f"[[tool:Bash:echo within]]{used(3)}[[then]][[text:it is done]]{used(4)}"
    agent.turn_with_sub_agents(f"third {sub_agent(within)}{used(5)}[[then]][[text:all done]]{used(6)}")
    counted = agent.counted()
    assert counted["subagents"]["tokens"]["input"] == (1 << 3) + (1 << 4)
    assert counted["tools_used"] == {"Bash": 3, "Agent": 1, "Write": 1}

    behind = f"[[hold:behind]][[tool:Bash:echo behind]]{used(7)}[[then]][[text:it is done]]{used(8)}"
    fourth = f"fourth {sub_agent(behind, behind=True)}{used(9)}[[then]][[text:begun]]{used(10)}"
    agent.turn(fourth)
    api.release("behind")
    agent.has_heard(fourth)
    assert agent.counted()["tools_used"] == {"Bash": 4, "Agent": 2, "Write": 1}

    agent.turn(f"fifth [[error:529:2]][[text:at last]]{used(11)}")
    agent.turn(f"sixth [[text:half]][[cut]][[text: and half]]{used(12)}")
    agent.counted()

    # The daemon is killed in the middle of a turn, between two messages.
    seventh = f"seventh [[tool:Bash:echo c]]{used(13)}[[then]][[hold:away]][[text:d]]{used(14)}"
    instance.prompt(agent.id, seventh)
    api.wait_for_hold("away")
    agent.counted()
    instance.kill_daemon()
    api.release("away")
    agent.answered(seventh)
    agent.spooled("Stop")
    instance.start_daemon()
    assert agent.counted()["tools_used"] == {"Bash": 5, "Agent": 2, "Write": 1}

    # claude handles a prompt that was queued while it was busy within the same turn.
    eighth = f"eighth [[hold:busy]][[tool:Bash:echo d]]{used(15)}[[then]][[text:e]]{used(16)}"
    instance.prompt(agent.id, eighth)
    api.wait_for_hold("busy")
    instance.prompt(agent.id, "and this too")
    api.release("busy")
    agent.answered(eighth)
    agent.counted()

    instance.prompt(agent.id, "/compact")
    api.wait_for(lambda: [r for r in api.requests if r.kind is Kind.COMPACTION and r.over], "compact")
    until(lambda: agent.progress()["context_tokens"] < 5000, "the conversation is small again")
    assert api.usage(Kind.COMPACTION) == Usage(input=7, output=4)
    agent.turn(f"ninth [[tool:Bash:echo e]]{used(17)}[[then]][[text:f]]{used(18)}")
    agent.counted()

    # Two /clear commands start new conversations while no daemon runs. claude compacts a much larger one by itself.
    instance.idle(agent.id)
    instance.kill_daemon()
    for times, step in ((1, 13), (2, 15)):
        instance.prompt(agent.id, "/clear")
        agent.spooled("SessionStart", times)
        within = f"[[text:done]]{used(step + 1)}"
        agent.turn_with_sub_agents(f"tenth {step} {sub_agent(within)}{used(step)}[[then]][[text:g]]")
        agent.spooled("Stop", times)
    instance.start_daemon()
    counted = agent.counted()
    assert counted["tools_used"] == {"Bash": 7, "Agent": 4, "Write": 1}
    assert counted["cost_usd"] == pytest.approx(dollars(api), abs=1e-6)

    # The counts are read from the database again.
    instance.kill_daemon()
    instance.start_daemon()
    assert agent.counted()["tools_used"] == counted["tools_used"]
    assert Kind.TITLE not in {r.kind for r in api.requests}, "sm names sessions, claude asks for no title"


def test_progress_and_tail_show_the_steps_of_a_turn(
    api: ScriptedApi, make: Callable[..., ClaudeInstance]
) -> None:
    instance = make()
    numbers = Usage(input=500, output=40, cache_read=90_000, cache_creation=9_000, cache_creation_1h=460)
    create = tool("TaskCreate", subject="measure", description="d", activeForm="measuring")
    another = tool("TaskCreate", subject="compare", description="d", activeForm="comparing")
    update = tool("TaskUpdate", taskId="1", status="completed")
    agent = Agent.spawned(
        instance,
        f"plan it [[text:first the list]]{create}[[then]]{another}[[then]]{update}{usage(numbers)}"
        f"[[then]][[text:it is planned]]{usage(numbers)}",
    )
    shown = agent.counted()
    assert shown["todo"] == [
        {"status": "completed", "text": "measure"},
        {"status": "pending", "text": "compare"},
    ]
    assert shown["completion_percentage"] == 50
    assert shown["tools_used"] == {"TaskCreate": 2, "TaskUpdate": 1}
    assert shown["last_tool"]["name"] == "TaskUpdate"
    assert (shown["context_tokens"], shown["context_window"], shown["context_percent"]) == (
        100_000,
        1_000_000,
        10,
    )
    assert shown["cost_usd"] == pytest.approx(dollars(api), abs=1e-6)

    # While a tool runs, and after a person interrupts it.
    instance.prompt(
        agent.id, "fail and wait [[text:I try]][[tool:Bash:sleep x]][[then]][[tool:Bash:echo a; sleep 600]]"
    )
    until(lambda: agent.progress()["current_activity"] == "Bash: echo a; sleep 600", "the tool runs")
    until(
        lambda: (agent.progress()["last_tool"] or {})["args"].get("command") == "echo a; sleep 600",
        "the last tool",
    )
    assert agent.progress()["last_tool"]["args"]["command"] == "echo a; sleep 600"
    instance.keys(agent.id, "Escape")
    instance.says(agent.id, "idle", "")
    until(
        lambda: "interrupted" in str(instance.get(f"/v1/sessions/{agent.id}/actions")),
        "the interrupt is shown",
    )
    assert agent.progress()["current_activity"] is None

    instance.prompt(agent.id, "/clear")
    until(lambda: agent.progress()["context_tokens"] is None, "the conversation is empty")
    cleared = agent.counted()
    assert (cleared["context_percent"], cleared["todo"]) == (None, None)
    agent.turn(f"anew [[text:a fresh start]]{usage(Usage(input=20_000))}")
    assert agent.counted()["context_percent"] == 2

    tail = [line.split("] ", 1)[1] for line in instance.sm("tail", agent.id, "-n", "60").splitlines()]
    expected = [
        "> plan it",
        '"first the list"',
        "TaskCreate: measure",
        "TaskCreate: compare",
        "TaskUpdate: 1",
        '"it is planned"',
        "> fail and wait",
        '"I try"',
        "Bash: sleep x",
        "error: ",
        "Bash: echo a; sleep 600",
        "mark: interrupted",
        "mark: command /clear",
        "> anew",
        '"a fresh start"',
    ]
    at = -1
    for beginning in expected:
        at = next((n for n, line in enumerate(tail) if n > at and line.startswith(beginning)), -1)
        assert at >= 0, f"{beginning!r} is not in its place: {tail}"


OFF = """child_agents:
  auto_complete: {{enabled: false}}
  progress: {{enable_{}_tracking: false, snapshot_interval: {}}}
"""


def the_transcript(instance: ClaudeInstance) -> Path:
    (path,) = (instance.claude_home / "projects").glob("*/*.jsonl")
    return path


def wait_turn_read(instance: ClaudeInstance, session_id: str) -> None:
    """Wait until the daemon has read the whole turn: claude writes the last line after the hook that ends the turn."""
    instance.idle(session_id)
    transcript = the_transcript(instance)
    until(
        lambda: '"turn_duration"' in transcript.read_text() and instance.has_read_transcripts(session_id),
        "the daemon has read the whole turn",
    )


def append_sub_agent_message(instance: ClaudeInstance, message_id: str) -> None:
    """Append a message to the file of a sub-agent, which no hook and no file watch reports."""
    main = the_transcript(instance)
    directory = main.with_suffix("") / "subagents"
    directory.mkdir(parents=True)
    line = {
        "type": "assistant",
        "isSidechain": True,
        "timestamp": "2999-01-01T00:00:00.000Z",
        "message": {
            "id": message_id,
            "model": "claude-opus-4-8",
            "content": [{"type": "tool_use", "id": f"toolu_{message_id}", "name": "Read", "input": {}}],
            "usage": {"input_tokens": 1000, "output_tokens": 1},
        },
    }
    (directory / "agent-aaaa.jsonl").write_text(json.dumps(line) + "\n")


def test_tokens_are_not_counted_when_token_tracking_is_off(make: Callable[..., ClaudeInstance]) -> None:
    instance = make(OFF.format("token", 1))
    agent = Agent.spawned(instance, "one [[tool:Bash:echo a]][[then]][[text:b]]")
    instance.idle(agent.id)
    until(lambda: agent.progress()["tools_used"] == {"Bash": 1}, "the tool is counted")
    append_sub_agent_message(instance, "msg_1")
    # Only the snapshot interval can find the message.
    shown = until(lambda: p if (p := agent.progress())["total_tools"] == 2 else None, "the snapshot")
    unknown = (
        "tokens",
        "subagents",
        "tokens_used",
        "tokens_remaining_estimate",
        "cost_usd",
        "context_tokens",
    )
    assert {shown[name] for name in unknown} == {None}


def test_tools_are_not_counted_when_tool_tracking_is_off(
    api: ScriptedApi, make: Callable[..., ClaudeInstance]
) -> None:
    instance = make(OFF.format("tool", 3600))
    agent = Agent.spawned(instance, "one [[tool:Bash:echo a]][[then]][[text:b]]")
    shown = agent.counted()
    assert (shown["tools_used"], shown["total_tools"], shown["last_tool"]) == ({}, 0, None)
    wait_turn_read(instance, agent.id)
    # Nothing reads the message before the next turn.
    append_sub_agent_message(instance, "msg_1")
    assert agent.progress()["tokens"] == shown["tokens"]
    agent.turn("two [[text:c]]")
    until(
        lambda: agent.progress()["tokens"]["input"] == shown["tokens"]["input"] + 1000 + 10, "all is counted"
    )
    assert agent.progress()["total_tools"] == 0


def test_first_answer_of_a_restarted_daemon_includes_events_it_missed(
    api: ScriptedApi, make: Callable[..., ClaudeInstance]
) -> None:
    instance = make()
    first = f"first [[tool:Bash:echo a]]{used(0)}[[then]][[hold:one]][[text:b]]{used(1)}"
    agent = Agent.spawned(instance, first, "one")
    instance.in_status(agent.id, "running")

    def away(meanwhile: Callable[[], object], event: str) -> dict[str, Any]:
        instance.kill_daemon()
        meanwhile()
        agent.spooled(event)
        instance.start_daemon()
        return instance.session(agent.id)

    # The turn ends while no daemon runs.
    assert away(lambda: api.release("one"), "Stop")["status"] == "idle"
    assert agent.counted()["tools_used"] == {"Bash": 1}

    # claude asks for permission while no daemon runs.
    second = f"second [[hold:two]][[tool:Bash:curl http://127.0.0.1/]]{used(2)}"
    instance.prompt(agent.id, second)
    api.wait_for_hold("two")
    instance.in_status(agent.id, "running")
    waiting = away(lambda: api.release("two"), "PermissionRequest")
    assert waiting["status"] == "waiting_input", waiting
    assert "curl" in waiting["status_reason"]
    instance.keys(agent.id, "Escape")
    instance.says(agent.id, "idle", "")
    assert agent.counted()["tools_used"] == {"Bash": 2}

    # A turn ends and claude exits while no daemon runs.
    def finish_and_exit() -> None:
        agent.turn_with_sub_agents(f"third [[tool:Bash:echo c]]{used(3)}[[then]][[text:d]]{used(4)}")
        agent.spooled("Stop")
        instance.prompt(agent.id, "/exit")

    last = away(finish_and_exit, "SessionEnd")
    assert last["status"] in ENDED, last
    assert agent.counted()["tools_used"] == {"Bash": 3}
    late = ("message", "request")  # their time is when sm learned of them
    changes = [(e["timestamp"], e["type"]) for e in instance.events(agent.id) if e["type"] not in late]
    assert changes == sorted(changes, key=lambda change: change[0])
    assert [kind for _, kind in changes].count("waiting_input") == 1, changes


def test_fork_counts_its_own_turns_and_a_restored_session_continues_its_counts(
    api: ScriptedApi, make: Callable[..., ClaudeInstance]
) -> None:
    instance = make()
    within = f"[[tool:Bash:echo within]]{used(0)}[[then]][[text:done]]{used(1)}"
    agent = Agent.spawned(instance, f"first {sub_agent(within)}{used(2)}[[then]][[text:a]]{used(3)}")
    instance.idle(agent.id)  # a later claude runs the sub-agent in the background
    agent.counted()
    before = api.usage(Kind.TURN)

    fork = Agent(instance, instance.json("fork", agent.id)["session_id"])
    instance.idle(fork.id)
    fork.turn(f"second [[tool:Read:{{}}]]{used(4)}[[then]][[text:b]]{used(5)}")
    own = until(lambda: p if (p := fork.progress())["total_tools"] else None, "its tool is counted")
    own = until(
        lambda: p if (p := fork.progress())["tokens"]["input"] >= 1 << 5 else None, "its tokens are counted"
    )
    truth = api.usage(Kind.TURN)
    assert own["tokens"] == {name: n - tokens(before)[name] for name, n in tokens(truth).items()}
    assert own["tools_used"] == {"Read": 1}
    assert own["subagents"]["tokens"]["input"] == 0
    assert agent.progress()["tokens"] == tokens(before)

    # The original is killed in the middle of a turn and restored.
    third = f"third [[tool:Bash:echo c]]{used(6)}[[then]][[hold:killed]][[text:c]]{used(7)}"
    instance.prompt(agent.id, third)
    api.wait_for_hold("killed")
    instance.sm("kill", agent.id)
    ended = instance.ended(agent.id)
    assert ended["status"] == "killed"
    at_its_end = agent.progress()
    assert at_its_end["tokens"]["input"] == before.input + (1 << 6)
    assert at_its_end["tools_used"] == {"Bash": 2, "Agent": 1}
    instance.sm("restore", agent.id)
    instance.idle(agent.id)
    agent.turn(f"fourth [[tool:Bash:echo d]]{used(8)}[[then]][[text:d]]{used(9)}")
    wanted = before.input + (1 << 6) + (1 << 8) + (1 << 9)
    until(lambda: agent.progress()["tokens"]["input"] == wanted, "the new turns are added")
    assert agent.progress()["tools_used"] == {"Bash": 3, "Agent": 1}
    assert fork.progress()["tokens"] == own["tokens"]


def test_interrupted_answer_counts_its_input_and_one_output_token(
    api: ScriptedApi, make: Callable[..., ClaudeInstance]
) -> None:
    """The API reports input and cache tokens when an answer begins, and output tokens when it ends."""
    instance = make()
    agent = Agent.spawned(instance, f"first [[text:a]]{used(0)}")
    instance.idle(agent.id)

    # The connection breaks after a complete block: claude does not retry once it has read one. The screen does not
    # show when that is, so the API waits before the break.
    cut, wait_s = Usage(2, 11, 102, 1003, 7), 10.0
    instance.prompt(
        agent.id, f"second [[think:hm]][[text:a]][[wait:{wait_s:.1f}]][[cut]][[text:b]]{usage(cut)}"
    )
    until(
        lambda: "server_error" in str(instance.get(f"/v1/sessions/{agent.id}/actions")), "the turn has failed"
    )
    instance.idle(agent.id)
    # A person interrupts the answer.
    stopped = Usage(4, 21, 202, 2003, 14)
    instance.prompt(agent.id, f"third [[think:hm]][[text:a]][[hold:stopped]][[text:b]]{usage(stopped)}")
    request = api.wait_for_hold("stopped")
    instance.in_status(agent.id, "running")
    # Before claude has read a whole block, Escape puts the prompt back into the input box.
    until(lambda: "Thought for" in instance.screen(agent.id).rpartition("third")[2], "the thoughts are whole")
    instance.keys(agent.id, "Escape")
    api.wait_for(lambda: request.over, "claude hangs up")
    agent.turn(f"fourth [[text:c]]{used(3)}")
    begun = replace(cut, output=1) + replace(stopped, output=1)
    wanted = tokens(api.usage(Kind.TURN) + begun)
    until(lambda: agent.progress()["tokens"] == wanted, "all is counted")
