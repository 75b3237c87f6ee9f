"""Facts and actions from transcript lines as claude 2.1.197 writes them."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.usage import UNREAD, ActionLine, Todo, ToolUse, Usage
from sm.providers.claude.actions import last_actions, tool_line
from sm.providers.claude.facts import (
    SYNTHETIC,
    WHOLE_MAX,
    Compaction,
    Mark,
    MarkKind,
    ToolResult,
    facts,
    facts_of,
)
from sm.providers.claude.todos import TODOS_MAX, TodoChange, TodoList, apply_change
from sm.providers.values import TEXT_MAX, shorten_arguments

AT = "2026-11-21T16:22:32.123Z"
OPUS = "claude-opus-4-8"
MESSAGE = "[sm] from a, message 7\nhi"


def line(type: str, **more: Any) -> bytes:
    return json.dumps(
        {"type": type, "timestamp": AT, "isSidechain": False, "sessionId": "5e55", "cwd": "/w/app"} | more
    ).encode()


def usage(input: int, output: int, read: int = 0, write: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "input_tokens": input,
        "cache_creation_input_tokens": write,
        "cache_read_input_tokens": read,
        "output_tokens": output,
    } | more


def assistant(
    id: str, used: dict[str, Any], *blocks: dict[str, Any], model: str = OPUS, **more: Any
) -> bytes:
    message = {"id": id, "role": "assistant", "model": model, "content": list(blocks), "usage": used}
    return line("assistant", message=message, requestId=f"req_{id}", **more)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id: str, name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def called(id: str, name: str, **input: Any) -> bytes:
    return assistant(f"msg_{id}", usage(1, 1), call(id, name, **input))


def user(content: Any, **more: Any) -> bytes:
    return line("user", message={"role": "user", "content": content}, promptId="p1", **more)


def result(id: str, content: Any = "ok", is_error: bool = False, **more: Any) -> bytes:
    return user(
        [{"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error}], **more
    )


def todos(*lines: bytes) -> tuple[Todo, ...]:
    """The todo list after these lines."""
    found: tuple[Todo, ...] = ()
    for fact in facts_of(lines):
        change = fact.todos if isinstance(fact, ToolResult) else fact
        if isinstance(change, (TodoList, TodoChange)):
            found = apply_change(found, change)
    return found


def only_fact(raw: bytes) -> Any:
    (fact,) = facts(raw)
    return fact


TURN_DONE = line("system", subtype="turn_duration", durationMs=6100)


# ---------------------------------------------------------------------------------------------- tokens


def test_usage_is_read_from_every_line_so_that_the_maximum_per_message_counts() -> None:
    lines = [
        assistant("m1", usage(11, 1, 1000, 5000), text("I look")),
        assistant("m1", usage(11, 101, 1000, 5000), call("t1", "Bash", command="ls")),
        assistant("m1", usage(11, 40, 1000, 5000), call("t2", "Read", file_path="/w/app/a")),
        result("t1"),
        assistant("m2", usage(20, 60, 6000, 70), text("done")),
        assistant("s1", usage(5, 150, 300, 300), text("from below"), isSidechain=True),
        assistant("m3", usage(0, 0), text("No response requested."), model="<synthetic>"),
    ]
    read = [fact for fact in facts_of(lines) if isinstance(fact, Usage)]
    assert sum(u.output for u in read) == 352  # the wrong total, added up by lines
    counted = {u.message_id: u for u in sorted(read, key=lambda u: u.output)}
    assert sum(u.output for u in counted.values()) == 311
    assert sum(u.input for u in counted.values()) == 36
    assert [u.message_id for u in read if u.sidechain] == ["s1"]
    assert counted["m2"] == Usage("m2", OPUS, AT, 20, 60, 6000, 70)
    assert counted["m2"].context == 6150


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens"])
def test_usage_without_one_of_its_numbers_is_unknown_and_not_zero(name: str) -> None:
    known = usage(11, 101, 1000, 5000)
    assert len([fact for fact in facts(assistant("m1", known)) if isinstance(fact, Usage)]) == 1
    del known[name]
    assert only_fact(assistant("m1", known)) == Usage("m1", f"{OPUS}{UNREAD}", AT)


def test_usage_is_unknown_when_a_release_renames_the_keys_around_it() -> None:
    message = {"id": "m1", "role": "assistant", "model": OPUS, "content": [], "consumed": usage(1, 2)}
    assert only_fact(line("assistant", message=message)) == Usage("m1", f"{OPUS}{UNREAD}", AT)
    unnamed = {"role": "assistant", "engine": OPUS, "content": [], "usage": usage(1, 2)}
    found = only_fact(line("assistant", message=unnamed, uuid="u1"))
    assert (found.message_id, found.is_unread, found.context) == ("u1", True, 0)
    # A line of a new type with an answer of the model, as the API forms it.
    renamed = line("model_turn", message={**message, "usage": usage(1, 2)})
    assert (only_fact(renamed).message_id, only_fact(renamed).is_unread) == ("m1", True)
    assert not facts(line("progress", message={**message, "role": "user"}))


def test_usage_has_the_request_id_when_the_message_has_no_id() -> None:
    raw = line("assistant", message={"model": OPUS, "content": [], "usage": usage(1, 2)}, requestId="req_7")
    assert only_fact(raw) == Usage("req_7", OPUS, AT, 1, 2)


def test_usage_distinguishes_one_hour_caches_and_fast_mode() -> None:
    cached = usage(1, 2, 0, 100, cache_creation={"ephemeral_1h_input_tokens": 60}, speed="fast")
    assert only_fact(assistant("m", cached)) == Usage("m", f"fast:{OPUS}", AT, 1, 2, 0, 100, 60)
    too_much = usage(1, 2, 0, 100, cache_creation={"ephemeral_1h_input_tokens": 101}, speed="standard")
    assert only_fact(assistant("m", too_much)) == Usage("m", OPUS, AT, 1, 2, 0, 100, 100)


def test_usage_of_a_long_prompt_names_its_tariff() -> None:
    model = "claude-haiku-5-5"
    short, long = usage(1, 2, 99_999, 0), usage(1, 2, 60_000, 40_000)
    assert only_fact(assistant("m", short, model=model)).model == model
    assert only_fact(assistant("m", long, model=model)).model == f"{model}[long prompt]"


@pytest.mark.parametrize("odd", [None, -1, True, 1.5, "7", 10**8 + 1, 10**13, [], {}])
def test_usage_with_a_malformed_token_count_is_unknown(odd: Any) -> None:
    assert only_fact(assistant("m", usage(odd, 2))) == Usage("m", f"{OPUS}{UNREAD}", AT)
    assert only_fact(assistant("m", usage(1, 2, odd))).cache_read == 0


def test_compaction_has_the_token_counts_before_and_after() -> None:
    about = {"trigger": "auto", "preTokens": 160000, "postTokens": 12000}
    raw = line("system", subtype="compact_boundary", compactMetadata=about)
    assert only_fact(raw) == Compaction(AT, "auto", 160000, 12000)
    unknown = line("system", subtype="compact_boundary", compactMetadata={"trigger": "manual"})
    assert only_fact(unknown) == Compaction(AT, "manual", None, None)
    assert only_fact(line("system", subtype="compact_boundary", isSidechain=True)).sidechain


# ----------------------------------------------------------------------------------------------- tools


def test_tool_arguments_are_shortened() -> None:
    use = facts(
        called(
            "t1",
            "Edit",
            file_path="/w/app/a.py",
            new_string="x" * 500,
            edits=[{"new": "y" * 300}, {}, {}],
            small=["a", 1],
            settings={str(n): "z" * 10 for n in range(40)},
            count=3,
            huge=10**400,
        )
    )[1]
    assert isinstance(use, ToolUse)
    assert (use.id, use.name, use.at, use.sidechain) == ("t1", "Edit", AT, False)
    assert use.arguments == {
        "file_path": "/w/app/a.py",
        "new_string": "x" * 199 + "…",
        "edits": "[3 items]",
        "small": ["a", 1],
        "settings": "{40 keys}",
        "count": 3,
        "huge": "1329 bits",
    }


def test_finished_turn_has_the_number_of_background_tasks() -> None:
    busy = line("system", subtype="turn_duration", pendingBackgroundAgentCount=1, pendingWorkflowCount=1)
    assert only_fact(busy).background == 2


def test_rejected_tool_is_both_a_result_and_a_mark() -> None:
    words = "The user doesn't want to proceed with this tool use."
    raw = result("t1", words, is_error=True, toolUseResult="User rejected tool use")
    assert facts(raw) == (
        ToolResult("t1", AT, False, is_error=True, rejected=True, text=words),
        Mark(MarkKind.REJECTED, AT, words, "p1"),
    )
    by_kind = result("t1", words, is_error=True, toolUseResult="Error: no", toolDenialKind="user-rejected")
    assert [type(fact) for fact in facts(by_kind)] == [ToolResult, Mark]
    by_rule = result("t1", "No.", is_error=True, toolDenialKind="permission-rule")
    assert facts(by_rule) == (ToolResult("t1", AT, False, is_error=True, text="No."),)


@pytest.mark.parametrize(
    "words",
    [
        "The user doesn't want to proceed with this tool use. The tool use was rejected (x). To tell you how to "
        "proceed, the user said:\nuse perl",
        "Permission for this tool use was denied. The tool use was rejected (x). The user said:\nuse perl",
    ],
)
def test_tool_is_rejected_when_a_person_refused_it_with_instructions(words: str) -> None:
    assert facts(result("t1", words, is_error=True, toolUseResult=f"Error: {words}")) == (
        ToolResult("t1", AT, False, is_error=True, rejected=True, text=words),
        Mark(MarkKind.REJECTED, AT, words, "p1"),
    )
    assert not only_fact(result("t1", f"Exit code 1\n{words}", is_error=True)).rejected


# ------------------------------------------------------------------------------------------- the todo list


def test_todos_are_the_latest_list_outside_of_sub_agents() -> None:
    def write(id: str, status: str, **more: Any) -> bytes:
        todos = [
            {"content": "build", "status": "completed", "activeForm": "Building"},
            {"content": "test", "status": status, "activeForm": "Testing"},
            {"no": "todo"},
        ]
        return assistant(f"m{id}", usage(1, 1), call(id, "TodoWrite", todos=todos), **more)

    found = todos(write("1", "pending"), write("2", "in_progress"), write("3", "completed", isSidechain=True))
    assert found == (Todo("build", "completed"), Todo("test", "in_progress"))


def created(id: str, subject: str, **more: str) -> tuple[bytes, bytes]:
    return (
        called(f"c{id}", "TaskCreate", subject=subject, description="long"),
        result(f"c{id}", "Task created", toolUseResult={"task": {"id": id, "subject": subject, **more}}),
    )


def updated(id: str, **answer: Any) -> tuple[bytes, bytes]:
    answer = {"success": True, "taskId": id, "updatedFields": ["status"]} | answer
    return called(f"u{id}", "TaskUpdate", taskId=id), result(f"u{id}", toolUseResult=answer)


def test_todos_are_built_from_the_results_of_the_task_tools() -> None:
    lines = [*created("1", "build"), *created("2", "test", description="long"), *created("3", "ship")]
    lines += updated("1", statusChange={"from": "pending", "to": "completed"})
    lines += updated("3", statusChange={"from": "pending", "to": "deleted"})
    lines += updated("2", success=False, error="Task not found")
    assert todos(*lines) == (Todo("build", "completed", "1"), Todo("test", "pending", "2"))
    tasks = [{"id": "2", "subject": "test it", "status": "in_progress", "blockedBy": []}]
    lines += [called("l", "TaskList"), result("l", toolUseResult={"tasks": tasks})]
    assert todos(*lines) == (Todo("test it", "in_progress", "2"),)


@pytest.mark.parametrize(
    "answer",
    [
        {"task": {"id": "1", "subject": "buy milk", "price": 3}},
        {"tasks": [{"id": "1", "subject": "buy milk", "status": "pending"}]},
        {"taskId": "1", "statusChange": {"from": "a", "to": "b"}},
        {"task": None},
        {"tasks": "many"},
    ],
)
def test_result_of_another_tool_changes_no_todos(answer: dict[str, Any]) -> None:
    assert only_fact(result("x", toolUseResult=answer)).todos is None


def test_todos_are_updated_when_a_task_is_read() -> None:
    task = {"id": "7", "subject": "test it", "description": "", "status": "completed", "blockedBy": []}
    seen = result("g", toolUseResult={"task": task})
    assert todos(seen) == (Todo("test it", "completed", "7"),)
    assert todos(*created("7", "test"), seen) == (Todo("test it", "completed", "7"),)


def test_change_of_an_unknown_task_adds_it_within_the_limit() -> None:
    assert todos(*updated("9", statusChange={"to": "completed"})) == (Todo("task 9", "completed", "9"),)
    many = tuple(Todo(str(n), "pending", str(n)) for n in range(TODOS_MAX))
    assert len(apply_change(many, TodoChange("x", "new", None))) == TODOS_MAX
    many_more = [{"content": "a", "status": "b"}] * 999
    assert (
        len(only_fact(line("attachment", attachment={"type": "todo_reminder", "content": many_more})).items)
        == TODOS_MAX
    )


def test_reminder_replaces_the_whole_todo_list() -> None:
    tasks = [
        {"id": "1", "subject": "build", "status": "completed"},
        {"id": "2", "subject": "hidden", "status": "pending", "metadata": {"_internal": True}},
    ]
    raw = line("attachment", attachment={"type": "task_reminder", "content": tasks, "itemCount": 2})
    assert only_fact(raw) == TodoList((Todo("build", "completed", "1"),))
    todos = [{"content": "a", "status": "pending", "activeForm": "A"}]
    raw = line("attachment", attachment={"type": "todo_reminder", "content": todos})
    assert only_fact(raw) == TodoList((Todo("a", "pending"),))


# ------------------------------------------------------------------------------------------------- marks


def hook_line(words: str) -> bytes:
    """The line of a user hook that kept a prompt from the model."""
    return line("system", subtype="informational", content=words, level="warning", preventContinuation=True)


def mark(kind: MarkKind, text: str = "", prompt_id: str | None = "p1", **more: Any) -> Mark:
    return Mark(kind, AT, text, prompt_id, **more)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            user("fix it", origin={"kind": "human"}, promptSource="typed"),
            mark(MarkKind.PROMPT, "fix it", detail="human"),
        ),
        (user([text("two"), text("blocks")]), mark(MarkKind.PROMPT, "two\nblocks")),
        (user("queued", promptSource="queued"), mark(MarkKind.PROMPT, "queued", detail="queued")),
        (
            user("<task-notification>done</task-notification>", isMeta=True, origin={"kind": "task-notification"}),
            mark(
                MarkKind.PROMPT, "<task-notification>done</task-notification>", detail="task-notification"
            ),
        ),
        (user("<p>what is a tag?</p>"), mark(MarkKind.PROMPT, "<p>what is a tag?</p>")),
        (
            user("what does <command-name>/x</command-name> mean?"),
            mark(MarkKind.PROMPT, "what does <command-name>/x</command-name> mean?"),
        ),
        (TURN_DONE, mark(MarkKind.TURN_FINISHED, prompt_id=None)),
        (
            user([text("[Request interrupted by user]")], interruptedMessageId="msg_1"),
            mark(MarkKind.INTERRUPTED, "[Request interrupted by user]"),
        ),
        (
            user([text("[Request interrupted by user for tool use]")]),
            mark(MarkKind.INTERRUPTED, "[Request interrupted by user for tool use]"),
        ),
        (
            assistant(
                "e",
                usage(0, 0),
                text("API Error: 529 Overloaded"),
                model="<synthetic>",
                isApiErrorMessage=True,
                error="server_error",
                apiErrorStatus=529,
            ),
            mark(MarkKind.API_ERROR, "API Error: 529 Overloaded", None, detail="server_error", http_status=529),
        ),
        (
            assistant("i", usage(0, 0), text("I was about to"), model="<synthetic>"),
            mark(MarkKind.TEXT, "I was about to", None, detail=SYNTHETIC),
        ),
        (
            line("queue-operation", operation="enqueue", content=MESSAGE),
            mark(MarkKind.ENQUEUED, MESSAGE, None, whole=MESSAGE),
        ),
        (line("queue-operation", operation="enqueue"), mark(MarkKind.ENQUEUED, "", None)),
        (line("queue-operation", operation="dequeue"), mark(MarkKind.DEQUEUED, prompt_id=None)),
        (line("queue-operation", operation="remove"), mark(MarkKind.REMOVED, prompt_id=None)),
        (
            line("queue-operation", operation="popAll", content="hi"),
            mark(MarkKind.WITHDRAWN, "hi", None),
        ),
        (
            line(
                "attachment",
                attachment={"type": "queued_command", "prompt": "hi", "origin": {"kind": "human"}},
            ),
            mark(MarkKind.CONSUMED, "hi", None, detail="human"),
        ),
        (
            user("<command-name>/model</command-name>\n<command-message>m</command-message>\n"
                 "<command-args>opus</command-args>"),
            mark(MarkKind.COMMAND, "/model opus", whole="/model opus"),
        ),
        (
            line("system", subtype="local_command", content="<command-name>/cost</command-name>"),
            mark(MarkKind.COMMAND, "/cost", None, whole="/cost"),
        ),
        (
            user("<local-command-stdout>Set model to \x1b[1mopus\x1b[22m</local-command-stdout>"),
            mark(MarkKind.COMMAND_OUTPUT, "Set model to opus"),
        ),
        (
            line("system", subtype="informational", content="Unknown command: /x"),
            mark(MarkKind.COMMAND_OUTPUT, "Unknown command: /x", None),
        ),
        (
            hook_line("UserPromptSubmit operation blocked by hook:\nno\nways\n\nOriginal prompt: do it"),
            mark(MarkKind.REFUSED, "do it", None, detail="no\nways"),
        ),
        (
            hook_line(f"UserPromptSubmit operation blocked by hook:\nno\n\nOriginal prompt: {MESSAGE}"),
            mark(MarkKind.REFUSED, MESSAGE, None, detail="no", whole=MESSAGE),
        ),
        (
            hook_line("UserPromptSubmit operation blocked by hook:\nhidden"),
            mark(MarkKind.REFUSED, "", None, detail="hidden"),
        ),
        (
            hook_line(
                "UserPromptSubmit operation blocked by hook:\nno\n\nOriginal prompt: x"
                f"\n\nOriginal prompt: {MESSAGE}\n\nOriginal prompt: {MESSAGE}"
            ),
            mark(
                MarkKind.REFUSED,
                f"{MESSAGE}\n\nOriginal prompt: {MESSAGE}",
                None,
                detail="no\n\nOriginal prompt: x",
                whole=f"{MESSAGE}\n\nOriginal prompt: {MESSAGE}",
            ),
        ),
        (hook_line("Operation stopped by hook: wait"), mark(MarkKind.STOPPED, "", None, detail="wait")),
        (hook_line("Operation stopped by hook"), mark(MarkKind.STOPPED, "", None)),
        (
            user("Operation stopped by hook: is what I read", promptSource="typed"),
            mark(MarkKind.PROMPT, "Operation stopped by hook: is what I read", detail="typed"),
        ),
        (user("<bash-input>ls</bash-input>"), mark(MarkKind.COMMAND, "!ls")),
        (
            user("<bash-stdout>a</bash-stdout><bash-stderr>b</bash-stderr>"),
            mark(MarkKind.COMMAND_OUTPUT, "a\nb"),
        ),
    ],
)  # fmt: skip
def test_line_is_read_as_its_mark(raw: bytes, expected: Mark) -> None:
    assert only_fact(raw) == expected


def input_lines(words: str) -> list[bytes]:
    """The lines of every way to give the agent a text, and of one way to withdraw it."""
    queued = {"type": "queued_command", "prompt": words}
    return [
        user(words, origin={"kind": "human"}, promptSource="typed"),
        user([text(words)]),
        line("queue-operation", operation="enqueue", content=words),
        line("queue-operation", operation="popAll", content=words),
        line("attachment", attachment=queued),
    ]


def test_text_that_may_contain_a_message_of_sm_is_kept_whole() -> None:
    message = f"{MESSAGE}{'x' * 60_000}"
    assert [only_fact(raw).whole for raw in input_lines(message)] == [message] * 5
    assert [len(only_fact(raw).text) for raw in input_lines(message)] == [TEXT_MAX] * 5
    assert only_fact(user(f"cut {MESSAGE} \ud83d")).whole == f"cut {MESSAGE} \ufffd"


@pytest.mark.parametrize(
    "words",
    ["x" * 60_000, f"<task-notification>{MESSAGE}</task-notification>", f"{MESSAGE}{'x' * WHOLE_MAX}"],
)
def test_other_texts_are_not_kept_whole(words: str) -> None:
    assert {only_fact(raw).whole for raw in input_lines(words)} == {""}


def test_texts_of_the_agent_itself_are_not_kept_whole() -> None:
    assert only_fact(user(f"<bash-input>{MESSAGE}</bash-input>")).whole == ""
    found = facts(assistant("m", usage(1, 1), text(MESSAGE)))
    assert [fact.whole for fact in found if isinstance(fact, Mark)] == [""]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'"text"',
        b"[1, 2]",
        b"null",
        b"[" * 100_000,
        b'{"type": ["user"]}',
        b'{"type": "user"}',
        b'{"type": "user", "message": {"content": 7}}',
        b'{"type": "assistant", "message": {"content": [7, {"type": {}}, {"type": "tool_use", "id": 1}]}}',
        b'{"type": "assistant", "message": [], "usage": {}}',
        b'{"type": "system", "subtype": {}}',
        b'{"type": "attachment", "attachment": {"type": "task_reminder", "content": "x"}}',
        b'{"type": "queue-operation", "operation": "dance"}',
        b'{"n": ' + b"9" * 5_000 + b"}",
        line("summary", summary="a title"),
        line("file-history-snapshot", snapshot={}),
        line("attachment", attachment={"type": "skill_listing", "content": "x"}),
        line("system", subtype="stop_hook_summary", hookCount=1),
        user("Caveat: the messages below", isMeta=True),
        user("Stop hook feedback:\ngo on", isMeta=True),
        user("Operation stopped by hook: wait"),
        line("system", subtype="informational", content="UserPromptSubmit operation blocked by hook:\nno"),
        user("This session continues", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        assistant("m", usage(0, 0), text("No response requested."), model="<synthetic>"),
    ],
)
def test_irrelevant_or_malformed_line_has_no_facts(raw: bytes) -> None:
    assert facts(raw) == ()


def test_line_with_invalid_characters_is_still_read() -> None:
    half = b'{"type":"user","message":{"content":"cut \\ud83d"},"timestamp":"' + AT.encode() + b'"}'
    assert only_fact(half).text == "cut \ufffd"
    assert only_fact(user("caf\u00e9").replace(b"\\u00e9", b"\xe9")).text == "caf\ufffd"


@pytest.mark.parametrize(
    "odd",
    [
        "\x1b[2J",
        "9999-99-99T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-11-21T16:22:61Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59.999999999Z",
        "٢٠٢٦-11-21T16:22:32Z",
        "2026-11-21T16:22:32",
        1,
        None,
        [],
    ],
)
def test_invalid_timestamp_is_none(odd: Any) -> None:
    assert only_fact(line("system", subtype="turn_duration", timestamp=odd)).at is None


@pytest.mark.parametrize("whole", [AT, "2026-11-21T16:22:32Z", "2026-11-21T16:22:32.123456789Z"])
def test_valid_timestamp_is_kept_unchanged(whole: str) -> None:
    assert only_fact(line("system", subtype="turn_duration", timestamp=whole)).at == whole


@pytest.mark.parametrize("depth", [400, 990, 100_000])
def test_deeply_nested_arguments_raise_nothing_and_are_shortened(depth: int) -> None:
    tower = b"[" * depth + b"]" * depth
    raw = called("t1", "Bash", command="ls", tower="HERE").replace(b'"HERE"', tower)
    facts(raw)
    last_actions([raw], 5)
    nested: Any = "x"
    for _ in range(depth):
        nested = [nested]
    assert shorten_arguments({"tower": nested})["tower"] == "[1 items]"


def test_integer_over_64_bits_is_not_kept() -> None:
    """orjson, which encodes API responses, refuses integers of more than 64 bits."""
    use = facts(called("t1", "Odd", within=[{"n": 10**30}], below={"n": -(10**30)}, small=[2**62 - 1]))[1]
    assert isinstance(use, ToolUse)
    assert use.arguments == {"within": "[1 items]", "below": "{1 keys}", "small": "[1 items]"}
    orjson.dumps(use.arguments)


def test_long_text_keeps_its_beginning_and_end() -> None:
    found = only_fact(user("a" * 5_000 + "z" * 5_000)).text
    assert len(found) == TEXT_MAX
    assert found.startswith("aaa") and found.endswith("zzz")


def test_many_open_tags_are_read_quickly() -> None:
    assert only_fact(user("<bash-input>" * 100_000)).kind is MarkKind.PROMPT


SAMPLES = [
    called("t1", "Bash", command="ls"),
    result("t1", toolUseResult={"task": {"id": "1", "subject": "s"}, "tasks": [], "statusChange": {}}),
    TURN_DONE,
    line("attachment", attachment={"type": "task_reminder", "content": [{"id": "1"}]}),
    line("queue-operation", operation="enqueue", content="x"),
    user("hello", origin={"kind": "human"}),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_malformed_line_never_raises(data: st.DataObject) -> None:
    value = json.loads(data.draw(st.sampled_from(SAMPLES)))
    place: Any = value
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    raw = json.dumps(value).encode()
    facts(raw)
    last_actions([raw], 5)


# ----------------------------------------------------------------------------------------------- actions


def test_last_actions_are_readable_lines() -> None:
    lines = [
        user("too old"),
        user("write\x1b[2J\nthe tests", origin={"kind": "human"}),
        assistant("m1", usage(1, 1), text("I begin."), call("t1", "Write", file_path="/w/app/tests/api.test.ts")),
        result("t1"),
        called("t2", "Bash", command="npm test", description="Run"),
        result("t2", "Exit code 1\nfailed", is_error=True),
        line("system", subtype="compact_boundary", compactMetadata={"preTokens": 160000, "postTokens": 12000}),
        TURN_DONE,
    ]  # fmt: skip
    assert last_actions(lines, 7, "/w/app") == (
        ActionLine(AT, "prompt", "write [2J the tests"),
        ActionLine(AT, "text", "I begin."),
        ActionLine(AT, "tool", "Write → tests/api.test.ts"),
        ActionLine(AT, "tool", "Bash: npm test"),
        ActionLine(AT, "error", "Exit code 1 failed"),
        ActionLine(AT, "mark", "compacted: 160,000 → 12,000 tokens"),
        ActionLine(AT, "mark", "turn finished"),
    )
    assert [action.text for action in last_actions(lines, 1)] == ["turn finished"]
    assert last_actions(lines, 0) == ()


def test_last_actions_are_sorted_by_time() -> None:
    """2.1.197 may write the first tool call of a session before its prompt."""
    early, late = "2026-11-21T16:34:55.292Z", "2026-11-21T16:34:55.554Z"
    lines = [
        assistant("m", usage(1, 1), call("t1", "Bash", command="ls"), timestamp=late),
        user("go", timestamp=early),
        result("t1", "failed", is_error=True, timestamp=None),
    ]
    assert [action.text for action in last_actions(lines, 9)] == ["go", "failed", "Bash: ls"]
    assert [action.text for action in last_actions(lines, 1)] == ["Bash: ls"]


def test_last_actions_show_lines_repeated_by_a_compaction_once() -> None:
    kept = [called("t1", "Bash", command="ls"), result("t1")]
    boundary = line("system", subtype="compact_boundary", compactMetadata={"postTokens": 636})
    shown = last_actions([user("go"), *kept, *kept, boundary], 9)
    assert [action.text for action in shown] == ["go", "Bash: ls", "compacted: ? → 636 tokens"]


def test_last_actions_describe_marks_in_words() -> None:
    lines = [
        line("queue-operation", operation="enqueue", content="hi"),
        line("queue-operation", operation="remove"),
        line("attachment", attachment={"type": "queued_command", "prompt": "hi"}),
        result("t1", "no", is_error=True, toolUseResult="User rejected tool use"),
        user("[Request interrupted by user]"),
        line("queue-operation", operation="popOne", content="ho"),
        user("<command-name>/clear</command-name>"),
        user("<local-command-stdout></local-command-stdout>"),
        assistant("e", usage(0, 0), text("no"), isApiErrorMessage=True, error="rate_limit"),
        hook_line("UserPromptSubmit operation blocked by hook:\nsecret\n\nOriginal prompt: do it"),
        hook_line("Operation stopped by hook: wait"),
    ]
    assert [f"{a.kind}: {a.text}" for a in last_actions(lines, 20)] == [
        "mark: queued: hi",
        "prompt: hi",
        "mark: a person denied the tool",
        "mark: interrupted",
        "mark: removed from the queue: ho",
        "mark: command /clear",
        "mark: rate_limit: no",
        "mark: a hook refused a prompt: secret",
        "mark: a hook stopped the turn: wait",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("Read", {"file_path": "/w/app2/a"}, "Read → /w/app2/a"),
        ("Grep", {"path": "/w", "pattern": "x.*y"}, "Grep: x.*y"),
        ("mcp__probe__ping", {"count": 1, "host": "here"}, "mcp__probe__ping: here"),
        ("Bash", {}, "Bash"),
        ("Write", {"file_path": ["a"]}, "Write"),
        ("Bash", {"command": "a\nb\x07"}, "Bash: a b"),
        ("LS", {"path": "/w/app/src"}, "LS → src"),
    ],
)
def test_tool_line_shows_the_most_telling_argument(name: str, arguments: dict[str, Any], shown: str) -> None:
    assert tool_line(ToolUse("t", name, AT, arguments), "/w/app/") == shown


def test_line_with_too_many_values_is_skipped() -> None:
    def line(values: int) -> bytes:
        message = {"role": "user", "content": "hello", "list": [0] * values}
        return json.dumps({"type": "user", "timestamp": "2026-01-27T15:10:00Z", "message": message}).encode()

    assert len(facts(line(1000))) == 1
    assert facts(line(1_000_000)) == ()
