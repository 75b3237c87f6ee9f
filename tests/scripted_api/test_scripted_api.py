import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests import claude_cli
from tests.load import scaled
from tests.scripted_api import Kind, Request, ScriptedApi, Usage, tool, usage

Message = dict[str, Any]


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        yield api


def ask(api: ScriptedApi, *messages: Message, stream: bool = False, **more: Any) -> str:
    body = {"model": "claude-scripted", "max_tokens": 100, "messages": messages, "stream": stream, **more}
    request = urllib.request.Request(f"{api.url}/v1/messages?beta=true", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=scaled(20)) as answer:
        text: str = answer.read().decode()
    return text


def answer(api: ScriptedApi, *messages: Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(api, *messages))
    return found


def stream(api: ScriptedApi, *messages: Message) -> list[dict[str, Any]]:
    lines = ask(api, *messages, stream=True).splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def assistant(content: Any) -> Message:
    return {"role": "assistant", "content": content}


RESULT = user([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "[[text:not a prompt]]"}])


def test_texts_are_deltas_of_one_block(api: ScriptedApi) -> None:
    events = stream(api, user("please [[text:a]][[wait:0.001]][[text:b]] now"))
    assert [event["type"] for event in events] == [
        *["message_start", "ping", "content_block_start", "content_block_delta", "content_block_delta"],
        *["content_block_stop", "message_delta", "message_stop"],
    ]
    assert [event["delta"]["text"] for event in events[3:5]] == ["a", "b"]
    assert answer(api, user("[[words:3:0]]"))["content"] == [{"type": "text", "text": "word0 word1 word2 "}]


def test_thinking_text_and_tools_are_blocks_in_their_order(api: ScriptedApi) -> None:
    question = {"questions": [{"options": [{"label": "[[x]]"}]}]}
    prompt = f"[[think:hm]][[text:so]][[tool:Bash:sleep 2]]{tool('AskUserQuestion', **question)}"
    said = answer(api, user(prompt))
    assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert said["content"][2]["input"]["command"] == "sleep 2"
    assert said["content"][3]["input"] == question
    assert said["stop_reason"] == "tool_use"
    indexes = [e["index"] for e in stream(api, user(prompt)) if e["type"] == "content_block_start"]
    assert indexes == [0, 1, 2, 3]


def test_the_conversation_says_which_step_is_next(api: ScriptedApi) -> None:
    prompt = user([{"type": "text", "text": "[[tool:Bash:ls]][[then]][[text:second]]"}])
    call = assistant([{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}])
    reminder = {"type": "text", "text": "<system-reminder>[[text:no]]</system-reminder>"}
    assert answer(api, prompt)["stop_reason"] == "tool_use"
    assert answer(api, prompt, call, RESULT)["content"][0]["text"] == "second"
    assert answer(api, prompt, call, user([*RESULT["content"], reminder]))["content"][0]["text"] == "second"
    assert answer(api, prompt, call, RESULT, assistant("second"), RESULT)["content"][0]["text"] == "done"
    assert answer(api, prompt, call, RESULT, user("[[text:new]]"))["content"][0]["text"] == "new"
    assert answer(api, prompt, call, RESULT, assistant("second"), user("hi"))["content"][0]["text"] == "done"


def test_usage_is_what_the_script_says_and_is_counted_once_delivered_whole(api: ScriptedApi) -> None:
    used = Usage(input=11, output=101, cache_read=1000, cache_creation=5000, cache_creation_1h=7)
    assert answer(api, user(usage(used)))["usage"]["cache_creation_input_tokens"] == 5007
    events = stream(api, user(f"[[text:x]]{usage(used)}"))
    assert events[0]["message"]["usage"]["input_tokens"] == 11
    assert events[-2]["usage"]["output_tokens"] == 101
    with pytest.raises(HTTPException):
        ask(api, user(f"{usage(used)}[[text:x]][[cut]]"), stream=True)
    assert api.usage() == used + used


def test_errors_come_as_often_as_said_and_then_the_answer(api: ScriptedApi) -> None:
    statuses = []
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(api, user("[[error:429:2:3]][[text:at last]]"))
        statuses.append((refused.value.code, refused.value.headers["retry-after"]))
        assert json.loads(refused.value.read())["error"]["type"] == "rate_limit_error"
    assert statuses == [(429, "3"), (429, "3")]
    assert answer(api, user("[[error:429:2:3]][[text:at last]]"))["content"][0]["text"] == "at last"
    assert api.usage() == Usage(input=10, output=5)


def test_a_hold_lasts_until_the_test_lets_go(api: ScriptedApi) -> None:
    said: list[str] = []
    asking = threading.Thread(
        target=lambda: said.append(ask(api, user("[[text:a]][[hold:gate]][[text:b]]"), stream=True))
    )
    asking.start()
    held = api.wait_for_hold("gate")
    assert (held.over, said) == (False, [])
    api.release("gate")
    api.wait_for(lambda: held.over, "the answer")
    asking.join()
    assert '"b"' in said[0]
    assert '"b"' in ask(api, user("[[hold:gate]][[text:b]]")), "what was let go once holds nobody later"


def test_a_client_that_goes_away_was_not_given_its_answer(api: ScriptedApi) -> None:
    body = {"model": "m", "messages": [user("[[text:a]][[hold:gate]]")], "stream": True}
    request = urllib.request.Request(f"{api.url}/v1/messages", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=scaled(20)) as begun:
        begun.readline()
        held = api.wait_for_hold("gate")
    api.wait_for(lambda: held.over, "the server has seen that it is gone")
    assert held.answer and not held.answer.whole
    assert api.usage() == Usage()


def test_a_mistake_in_a_script_fails_the_test() -> None:
    api = ScriptedApi().__enter__()
    with pytest.raises(urllib.error.HTTPError):
        ask(api, user("[[texd:a]]"))
    with pytest.raises(AssertionError, match="no such word"):
        api.__exit__(None, None, None)


def test_a_model_reacts_to_all_that_was_said_and_done_in_the_conversation(api: ScriptedApi) -> None:
    def model(asked: Request) -> str | None:
        if not asked.said[0].startswith("count"):
            return None
        numbers = [int(n) for text in asked.said for n in re.findall(r"number (\d+)", text)]
        called = [command["command"] for _, command in asked.called]
        new = [n for n in numbers if f"echo {n}" not in called]
        return f"[[tool:Bash:echo {new[0]}]]" if new else f"[[text:{len(asked.results)} of {sum(numbers)}]]"

    api.when(model)
    call = assistant([{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo 1"}}])
    behind = (
        "\n\nIMPORTANT: After completing your current task, you MUST address the user's message above. Do not"
    )
    while_working = "The user sent a new message while you were working:\n"
    added: Message = {
        "role": "system",
        "content": f"{while_working}number 20\nof two{behind} x\n\n{while_working}number 300{behind} x",
    }
    begun = [user("count [[text:not this]] number 1"), call, RESULT]
    assert answer(api, begun[0])["content"][0]["input"]["command"] == "echo 1"
    assert answer(api, *begun)["content"][0]["text"] == "1 of 1"
    assert answer(api, *begun, added)["content"][0]["input"]["command"] == "echo 20"
    assert api.requests[-1].said == ["count [[text:not this]] number 1", "number 20\nof two", "number 300"]
    assert answer(api, user("other [[text:script]]"))["content"][0]["text"] == "script"
    ask(api, begun[0], output_config={"format": {"schema": {"properties": {"title": {}}}}})
    assert api.requests[-1].kind is Kind.TITLE


@pytest.mark.parametrize("script", ["no marker", "[[text:a]][[then]][[text:b]]", ValueError("wrong")])
def test_a_mistake_of_a_model_fails_the_test(script: str | ValueError) -> None:
    def model(asked: Request) -> str:
        if isinstance(script, ValueError):
            raise script
        return script

    api = ScriptedApi().__enter__()
    api.when(model)
    with pytest.raises(urllib.error.HTTPError):
        ask(api, user("x"))
    with pytest.raises(AssertionError, match=r"one response|ValueError\('wrong'\)"):
        api.__exit__(None, None, None)


def test_what_is_asked_besides_turns_has_answers_of_its_own(api: ScriptedApi) -> None:
    ask(api, user("[[text:x]]"), output_config={"format": {"schema": {"properties": {"title": {}}}}})
    ask(api, user("Your task is to create a detailed summary of the conversation"))
    assert [one.kind for one in api.requests] == [Kind.TITLE, Kind.COMPACTION]
    assert api.usage(Kind.TURN) == Usage()
    request = urllib.request.Request(f"{api.url}/v1/messages/count_tokens", b"{}" * 20)
    with urllib.request.urlopen(request, timeout=scaled(20)) as counted:
        assert json.loads(counted.read()) == {"input_tokens": 10}
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{api.url}/api/hello", timeout=scaled(20))
    assert api.unknown_paths == ["GET /api/hello"]


# The real one


@pytest.fixture
def home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="claude-", dir="/tmp"))
    claude_cli.seed(home)
    (home / "work").mkdir()
    yield home
    shutil.rmtree(home, ignore_errors=True)


def claude(api: ScriptedApi, home: Path, prompt: str, *options: str) -> dict[str, Any]:
    """What `claude -p` says of one prompt."""
    always = ["-p", "--output-format", "json", "--allowedTools", "Bash"]
    ended = subprocess.run(
        [claude_cli.binary(), *always, *options, "--", prompt],
        env=claude_cli.environment(home, api),
        cwd=home / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )
    assert ended.returncode == 0, ended
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


@pytest.mark.processes
def test_claude_runs_a_tool_and_a_sub_agent_and_counts_what_was_handed_out(
    api: ScriptedApi, home: Path
) -> None:
    used = Usage(input=11, output=101, cache_read=1000, cache_creation=5000)
    within = f"[[tool:Bash:echo of-the-sub-agent]]{usage(used)}[[then]][[text:sub-agent is through]]"
    agent = tool("Agent", description="part", prompt=within, subagent_type="general-purpose")
    said = claude(
        api,
        home,
        f"{usage(used)}[[tool:Bash:echo of-the-first]][[then]]{agent}[[then]][[text:all is through]]",
    )
    assert said["result"] == "all is through"
    assert [bool(one.agent_id) for one in api.turns()] == [False, False, True, True, False]
    assert {one.session_id for one in api.requests} == {said["session_id"]}
    bodies = [json.dumps(one.body["messages"]) for one in api.turns()]
    assert (
        "of-the-first" in bodies[1]
        and "of-the-sub-agent" in bodies[3]
        and "sub-agent is through" in bodies[4]
    )
    (model,) = said["modelUsage"].values()
    total = api.usage(Kind.TURN, said["session_id"])
    assert (model["inputTokens"], model["outputTokens"]) == (total.input, total.output) == (52, 217)
    assert (model["cacheReadInputTokens"], model["cacheCreationInputTokens"]) == (2000, 10000)


@pytest.mark.processes
def test_claude_asks_for_a_summary_when_it_compacts(api: ScriptedApi, home: Path) -> None:
    assert claude(api, home, "[[tool:Bash:true]][[then]][[text:hello]]")["result"] == "hello"
    claude(api, home, "/compact", "--continue")
    assert [one.kind for one in api.requests] == [Kind.TURN, Kind.TURN, Kind.COMPACTION]
    assert claude(api, home, "[[text:after]]", "--continue")["result"] == "after"
    assert "Scripted summary" in json.dumps(api.requests[-1].body["messages"])


@pytest.mark.processes
def test_claude_in_a_terminal_asks_for_a_title_and_can_be_held(api: ScriptedApi, home: Path) -> None:
    tmux = ["tmux", "-S", f"{home}/tmux", "-f", "/dev/null"]
    environment = claude_cli.environment(home, api)
    command = [claude_cli.binary(), "--", "say it [[text:begun]][[hold:gate]][[text: and done]]"]
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", "120", "-y", "40", "-c", f"{home}/work", *command],
        env=environment,
        check=True,
        timeout=scaled(20),
    )
    asked = subprocess.run(
        [*tmux, "display-message", "-p", "#{pid} #{pane_pid}"],
        env=environment,
        capture_output=True,
        check=True,
        timeout=scaled(20),
    )
    processes = {int(pid): os.pidfd_open(int(pid)) for pid in asked.stdout.split()}
    try:
        held = api.wait_for_hold("gate")
        assert "AskUserQuestion" in held.tools
        assert "Claude Code" in held.system
        api.release("gate")
        api.wait_for(lambda: held.answer and held.answer.whole, "the turn")
        title = api.wait_for(
            lambda: [one for one in api.requests if one.kind is Kind.TITLE and one.over], "a title"
        )
        assert title[0].status == 200
    finally:
        for pid, process in processes.items():
            with suppress(ProcessLookupError):  # one may end because the other has
                signal.pidfd_send_signal(process, signal.SIGKILL)
            # Gone before its home is: it would write there again.
            assert select.select([process], [], [], 20)[0], f"{pid} is not gone"
            os.close(process)
