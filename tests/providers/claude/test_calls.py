import json
from typing import Any

import pytest

from sm.core.tool_calls import CallEnd, CallStart, TurnBreak
from sm.providers.claude.calls import calls_of
from sm.providers.claude.facts import facts_of

AT = "2026-01-27T15:00:00.000Z"


def line(type: str, content: list[Any], **more: Any) -> bytes:
    message = {"role": type, "content": content}
    return json.dumps({"type": type, "timestamp": AT, "message": message} | more).encode()


def use(command: str, name: str = "Bash", id: str = "t1", **more: Any) -> bytes:
    block = {"type": "tool_use", "id": id, "name": name, "input": {"command": command}}
    return line("assistant", [block], **more)


def result(text: Any, *, is_error: bool = False, **more: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text, "is_error": is_error}
    return line("user", [block], **more)


def start(*lines: bytes) -> CallStart:
    (found,) = [item for item in calls_of(facts_of(lines)) if isinstance(item, CallStart)]
    return found


def end(*lines: bytes) -> CallEnd:
    (found,) = [item for item in calls_of(facts_of(lines)) if isinstance(item, CallEnd)]
    return found


def test_calls_keep_the_order_of_the_file() -> None:
    done = json.dumps({"type": "system", "subtype": "turn_duration", "timestamp": AT}).encode()
    items = calls_of(facts_of([use("make"), result("no", is_error=True), done]))
    assert [type(item) for item in items] == [CallStart, CallEnd, TurnBreak]
    assert isinstance(items[0], CallStart)
    assert (items[0].name, items[0].shown) == ("Bash", "Bash: make")


def test_calls_of_sub_agents_are_left_out() -> None:
    assert calls_of(facts_of([use("make", isSidechain=True), result("no", isSidechain=True)])) == ()


def test_digests_differ_with_the_arguments_and_the_result() -> None:
    assert start(use("make")).digest == start(use("make", id="t2")).digest
    assert start(use("make")).digest != start(use("make all")).digest
    long = "x" * 5000
    assert start(use(f"{long}a")).digest != start(use(f"{long}b")).digest
    assert end(result("a")).digest != end(result("b")).digest
    assert end(result(f"{long}a{long}")).digest != end(result(f"{long}b{long}")).digest
    assert end(result([{"type": "image", "n": 1}])).digest != end(result([{"type": "image", "n": 2}])).digest


def test_error_is_one_line_without_control_characters() -> None:
    assert end(result("Exit code 1\n\x1b[31mno rule", is_error=True)).error == "Exit code 1 [31mno rule"
    assert end(result("", is_error=True)).error == "no text"
    assert end(result("fine")).error is None


@pytest.mark.parametrize(
    "command",
    ["sleep 60", "make; sleep 1", "while :; do sleep 5; done", "(sleep 1)", "sm wait a", "cd x && sm inbox --wait",
     "wait", "sm ask 'why'", "watch -n 1 ls"],
)  # fmt: skip
def test_call_that_waits(command: str) -> None:
    assert start(use(command)).waits


@pytest.mark.parametrize(
    "command", ["make", "cat sleep.txt", "sm status", "sm children", "./sleepy", "grep await x"]
)
def test_call_that_does_not_wait(command: str) -> None:
    assert not start(use(command)).waits


@pytest.mark.parametrize("name", ["BashOutput", "AskUserQuestion", "mcp__sm__wait_for_sessions"])
def test_tool_that_waits(name: str) -> None:
    assert start(use("x", name)).waits


@pytest.mark.parametrize(
    "command",
    ["sm send bob 'run make; then tell me'", "sm inbox --take --wait", 'sm send bob "a && b" && sm wait bob',
     "sleep 5; /opt/sm/bin/sm inbox", "cd /tmp && sm note done", "sm ls | sm send bob -", "echo hi"],
)  # fmt: skip
def test_call_that_only_uses_sm(command: str) -> None:
    assert start(use(command)).is_own


@pytest.mark.parametrize(
    "command",
    ["make", "sm send bob hi; make", "sm send bob \"$(make)\"", "smoke test", "echo `make`", "sm send bob hi &\nmake",
     "git log | sm send bob -", "echo $(make)", "echo x > file"],
)  # fmt: skip
def test_call_that_does_other_work(command: str) -> None:
    assert not start(use(command)).is_own


@pytest.mark.parametrize(
    ("name", "is_own"), [("mcp__sm__send_message", True), ("mcp__smart__x", False), ("Read", False)]
)
def test_tool_of_sm_is_no_work(name: str, is_own: bool) -> None:
    assert start(use("sm", name)).is_own is is_own
