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

from sm.providers.claude.check.scripted_api.script import ScriptError
from tests import claude_cli
from tests.scripted_api import Kind, Request, ScriptedApi, Usage, tool, usage

Message = dict[str, Any]


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        yield api


def ask(api: ScriptedApi, *messages: Message, stream: bool = False, **more: Any) -> str:
    body = {"model": "claude-scripted", "max_tokens": 100, "messages": messages, "stream": stream, **more}
    request = urllib.request.Request(f"{api.url}/v1/messages?beta=true", json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        text: str = answer.read().decode()
    return text


def answer(api: ScriptedApi, *messages: Message) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(ask(api, *messages))
    return message


def stream(api: ScriptedApi, *messages: Message) -> list[dict[str, Any]]:
    lines = ask(api, *messages, stream=True).splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def assistant(content: Any) -> Message:
    return {"role": "assistant", "content": content}


RESULT = user([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "[[text:not a prompt]]"}])


def test_consecutive_texts_are_deltas_of_one_block(api: ScriptedApi) -> None:
    events = stream(api, user("please [[text:a]][[wait:0.001]][[text:b]] now"))
    assert [event["type"] for event in events] == [
        *["message_start", "ping", "content_block_start", "content_block_delta", "content_block_delta"],
        *["content_block_stop", "message_delta", "message_stop"],
    ]
    assert [event["delta"]["text"] for event in events[3:5]] == ["a", "b"]
    assert answer(api, user("[[words:3:0]]"))["content"] == [{"type": "text", "text": "word0 word1 word2 "}]


def test_thinking_text_and_tools_become_blocks_in_order(api: ScriptedApi) -> None:
    question = {"questions": [{"options": [{"label": "[[x]]"}]}]}
    prompt = f"[[think:hm]][[text:so]][[tool:Bash:sleep 2]]{tool('AskUserQuestion', **question)}"
    message = answer(api, user(prompt))
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert message["content"][2]["input"]["command"] == "sleep 2"
    assert message["content"][3]["input"] == question
    assert message["stop_reason"] == "tool_use"
    indexes = [e["index"] for e in stream(api, user(prompt)) if e["type"] == "content_block_start"]
    assert indexes == [0, 1, 2, 3]


def test_step_of_the_script_depends_on_the_conversation(api: ScriptedApi) -> None:
    prompt = user([{"type": "text", "text": "[[tool:Bash:ls]][[then]][[text:second]]"}])
    call = assistant([{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}])
    reminder = {"type": "text", "text": "<system-reminder>[[text:no]]</system-reminder>"}
    assert answer(api, prompt)["stop_reason"] == "tool_use"
    assert answer(api, prompt, call, RESULT)["content"][0]["text"] == "second"
    assert answer(api, prompt, call, user([*RESULT["content"], reminder]))["content"][0]["text"] == "second"
    assert answer(api, prompt, call, RESULT, assistant("second"), RESULT)["content"][0]["text"] == "done"
    assert answer(api, prompt, call, RESULT, user("[[text:new]]"))["content"][0]["text"] == "new"
    assert answer(api, prompt, call, RESULT, assistant("second"), user("hi"))["content"][0]["text"] == "done"


def test_usage_of_the_script_is_counted_when_the_response_is_complete(api: ScriptedApi) -> None:
    used = Usage(input=11, output=101, cache_read=1000, cache_creation=5000, cache_creation_1h=7)
    assert answer(api, user(usage(used)))["usage"]["cache_creation_input_tokens"] == 5007
    events = stream(api, user(f"[[text:x]]{usage(used)}"))
    assert events[0]["message"]["usage"]["input_tokens"] == 11
    assert events[-2]["usage"]["output_tokens"] == 101
    with pytest.raises(HTTPException):
        ask(api, user(f"{usage(used)}[[text:x]][[cut]]"), stream=True)
    assert api.usage() == used + used


def test_error_is_returned_as_often_as_scripted_before_the_answer(api: ScriptedApi) -> None:
    statuses = []
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(api, user("[[error:429:2:3]][[text:at last]]"))
        statuses.append((refused.value.code, refused.value.headers["retry-after"]))
        assert json.loads(refused.value.read())["error"]["type"] == "rate_limit_error"
    assert statuses == [(429, "3"), (429, "3")]
    assert answer(api, user("[[error:429:2:3]][[text:at last]]"))["content"][0]["text"] == "at last"
    assert api.usage() == Usage(input=10, output=5)


def test_refusal_and_limit_last_and_have_their_message_and_headers(api: ScriptedApi) -> None:
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(api, user("[[refuse:403:OAuth token has been revoked]]"))
        error = json.loads(refused.value.read())["error"]
        assert (refused.value.code, error) == (
            403,
            {"type": "permission_error", "message": "OAuth token has been revoked"},
        )
        with pytest.raises(urllib.error.HTTPError) as limited:
            ask(api, user("[[limit:five_hour:1795585915]]"))
        limited.value.read()
        headers = limited.value.headers
        assert limited.value.code == 429
        assert headers["anthropic-ratelimit-unified-status"] == "rejected"
        assert headers["anthropic-ratelimit-unified-5h-reset"] == "1795585915"


def test_hold_lasts_until_the_test_releases_it(api: ScriptedApi) -> None:
    answers: list[str] = []
    client = threading.Thread(
        target=lambda: answers.append(ask(api, user("[[text:a]][[hold:gate]][[text:b]]"), stream=True))
    )
    client.start()
    held = api.wait_for_hold("gate")
    assert (held.over, answers) == (False, [])
    api.release("gate")
    api.wait_for(lambda: held.over, "the answer")
    client.join()
    assert '"b"' in answers[0]
    assert '"b"' in ask(api, user("[[hold:gate]][[text:b]]")), "a released hold never holds again"


def test_answer_is_incomplete_when_the_client_disconnects(api: ScriptedApi) -> None:
    body = {"model": "m", "messages": [user("[[text:a]][[hold:gate]]")], "stream": True}
    request = urllib.request.Request(f"{api.url}/v1/messages", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        response.readline()
        held = api.wait_for_hold("gate")
    api.wait_for(lambda: held.over, "the server notices the disconnect")
    assert held.answer and not held.answer.whole
    assert api.usage() == Usage()


def test_mistake_in_a_script_fails_the_test() -> None:
    api = ScriptedApi().__enter__()
    with pytest.raises(urllib.error.HTTPError):
        ask(api, user("[[texd:a]]"))
    with pytest.raises(ScriptError, match="no such word"):
        api.__exit__(None, None, None)


def test_model_function_sees_prompts_and_tool_calls_of_the_conversation(api: ScriptedApi) -> None:
    def model(request: Request) -> str | None:
        if not request.user_texts[0].startswith("count"):
            return None
        numbers = [int(n) for text in request.user_texts for n in re.findall(r"number (\d+)", text)]
        called = [command["command"] for _, command in request.tool_calls]
        new = [n for n in numbers if f"echo {n}" not in called]
        return f"[[tool:Bash:echo {new[0]}]]" if new else f"[[text:{len(request.results)} of {sum(numbers)}]]"

    api.when(model)
    call = assistant([{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo 1"}}])
    suffix = (
        "\n\nIMPORTANT: After completing your current task, you MUST address the user's message above. Do not"
    )
    while_working = "The user sent a new message while you were working:\n"
    added: Message = {
        "role": "system",
        "content": f"{while_working}number 20\nof two{suffix} x\n\n{while_working}number 300{suffix} x",
    }
    begun = [user("count [[text:not this]] number 1"), call, RESULT]
    assert answer(api, begun[0])["content"][0]["input"]["command"] == "echo 1"
    assert answer(api, *begun)["content"][0]["text"] == "1 of 1"
    assert answer(api, *begun, added)["content"][0]["input"]["command"] == "echo 20"
    assert api.requests[-1].user_texts == [
        "count [[text:not this]] number 1",
        "number 20\nof two",
        "number 300",
    ]
    rest = "This is how Claude Code surfaces messages the user sends mid-turn - within the running turn."
    by_user = f"{while_working}number 4000\n\n{rest}"
    assert answer(api, *begun, user(by_user))["content"][0]["input"]["command"] == "echo 4000"
    assert api.requests[-1].user_texts == ["count [[text:not this]] number 1", "number 4000"]
    assert answer(api, user("other [[text:script]]"))["content"][0]["text"] == "script"
    script = user("one [[tool:Bash:echo 1]][[then]][[text:two]]")
    assert answer(api, script, call, RESULT, user(by_user))["content"][0]["text"] == "two"
    notification = "<task-notification>\n<task-id>b1</task-id>\n</task-notification>"
    reminder = user(f"<system-reminder>\nNo user input.\n{notification}\n</system-reminder>")
    for told in (user(notification), reminder):
        assert answer(api, script, call, RESULT, assistant("two"), told)["content"][0]["text"] == "done"
        assert api.turns("<task-notification>")[-1].prompt == notification
    feedback = "Stop hook feedback:\ngo on [[text:more]]"
    hook = user(f"<system-reminder>\nThe output of a hook.\n{feedback}\n</system-reminder>")
    for told in (user(feedback), hook):
        assert answer(api, user("one"), assistant("done"), told)["content"][0]["text"] == "more"
        assert api.turns("Stop hook")[-1].prompt == feedback
    ask(api, begun[0], output_config={"format": {"schema": {"properties": {"title": {}}}}})
    assert api.requests[-1].kind is Kind.TITLE


@pytest.mark.parametrize("script", ["no marker", "[[text:a]][[then]][[text:b]]", ValueError("wrong")])
def test_mistake_of_a_model_function_fails_the_test(script: str | ValueError) -> None:
    def model(request: Request) -> str:
        if isinstance(script, ValueError):
            raise script
        return script

    api = ScriptedApi().__enter__()
    api.when(model)
    with pytest.raises(urllib.error.HTTPError):
        ask(api, user("x"))
    with pytest.raises(ScriptError, match=r"one response|ValueError\('wrong'\)"):
        api.__exit__(None, None, None)


def test_background_requests_have_their_own_answers(api: ScriptedApi) -> None:
    ask(api, user("[[text:x]]"), output_config={"format": {"schema": {"properties": {"title": {}}}}})
    ask(api, user("Your task is to create a detailed summary of the conversation"))
    assert [request.kind for request in api.requests] == [Kind.TITLE, Kind.COMPACTION]
    assert api.usage(Kind.TURN) == Usage()
    request = urllib.request.Request(f"{api.url}/v1/messages/count_tokens", b"{}" * 20)
    with urllib.request.urlopen(request) as counted:
        assert json.loads(counted.read()) == {"input_tokens": 10}
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{api.url}/api/hello")
    assert api.unknown_paths == ["GET /api/hello"]


# The real claude


@pytest.fixture
def home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="claude-", dir="/tmp"))
    claude_cli.seed(home)
    (home / "work").mkdir()
    yield home
    shutil.rmtree(home, ignore_errors=True)


def claude(api: ScriptedApi, home: Path, prompt: str, *options: str) -> dict[str, Any]:
    """The JSON result of `claude -p` for one prompt."""
    print_options = ["-p", "--output-format", "json", "--allowedTools", "Bash"]
    process = subprocess.run(
        [claude_cli.binary(), *print_options, *options, "--", prompt],
        env=claude_cli.environment(home, api),
        cwd=home / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process
    result: dict[str, Any] = json.loads(process.stdout)
    return result


@pytest.mark.processes
def test_real_claude_runs_a_tool_and_a_sub_agent_and_counts_their_usage(api: ScriptedApi, home: Path) -> None:
    used = Usage(input=11, output=101, cache_read=1000, cache_creation=5000)
    within = f"[[tool:Bash:echo of-the-sub-agent]]{usage(used)}[[then]][[text:sub-agent is through]]"
    part = {"description": "part", "prompt": within, "subagent_type": "general-purpose"}
    agent = tool("Agent", **part, run_in_background=False)
    result = claude(
        api,
        home,
        f"{usage(used)}[[tool:Bash:echo of-the-first]][[then]]{agent}[[then]][[text:all is through]]",
    )
    assert result["result"] == "all is through"
    assert [bool(turn.agent_id) for turn in api.turns()] == [False, False, True, True, False]
    assert {request.session_id for request in api.requests} == {result["session_id"]}
    bodies = [json.dumps(turn.body["messages"]) for turn in api.turns()]
    assert (
        "of-the-first" in bodies[1]
        and "of-the-sub-agent" in bodies[3]
        and "sub-agent is through" in bodies[4]
    )
    (model,) = result["modelUsage"].values()
    total = api.usage(Kind.TURN, result["session_id"])
    assert (model["inputTokens"], model["outputTokens"]) == (total.input, total.output) == (52, 217)
    assert (model["cacheReadInputTokens"], model["cacheCreationInputTokens"]) == (2000, 10000)


@pytest.mark.processes
def test_real_claude_requests_a_summary_when_it_compacts(api: ScriptedApi, home: Path) -> None:
    assert claude(api, home, "[[tool:Bash:true]][[then]][[text:hello]]")["result"] == "hello"
    claude(api, home, "/compact", "--continue")
    assert [request.kind for request in api.requests] == [Kind.TURN, Kind.TURN, Kind.COMPACTION]
    assert claude(api, home, "[[text:after]]", "--continue")["result"] == "after"
    assert "Scripted summary" in json.dumps(api.requests[-1].body["messages"])


@pytest.mark.processes
def test_real_claude_in_a_terminal_can_be_held(api: ScriptedApi, home: Path) -> None:
    tmux = ["tmux", "-S", f"{home}/tmux", "-f", "/dev/null"]
    environment = claude_cli.environment(home, api)
    command = [claude_cli.binary(), "--", "say it [[text:begun]][[hold:gate]][[text: and done]]"]
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", "120", "-y", "40", "-c", f"{home}/work", *command],
        env=environment,
        check=True,
    )
    pids = subprocess.run(
        [*tmux, "display-message", "-p", "#{pid} #{pane_pid}"],
        env=environment,
        capture_output=True,
        check=True,
    )
    processes = {int(pid): os.pidfd_open(int(pid)) for pid in pids.stdout.split()}
    try:
        held = api.wait_for_hold("gate")
        assert "AskUserQuestion" in held.tools
        assert "Claude Code" in held.system
        api.release("gate")
        api.wait_for(lambda: held.answer and held.answer.whole, "the turn")
    finally:
        for pid, process in processes.items():
            with suppress(ProcessLookupError):  # each process may end because of the other
                signal.pidfd_send_signal(process, signal.SIGKILL)
            # Wait before the home is removed, because a live process would write there again.
            assert select.select([process], [], [])[0], f"{pid} is not gone"
            os.close(process)
