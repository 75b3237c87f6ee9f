"""Each door words the references of hints: a shell, the tools of agents, and chats."""

import importlib
import json
import pkgutil
import re
from functools import cache
from pathlib import Path

import click
import pytest

from sm import operations
from sm.cli.group import COMMANDS, sm
from sm.core.capability_parts import capability_operations
from sm.errors import NotFound, UsageError
from sm.mcp.results import with_tools
from sm.mcp.tools import TOOLS
from sm.mcp.tools.control_tools import control_session
from sm.operations import DoorNames, Operation
from sm.operations.access_rules import EVERY_CALLER
from sm.operations.hints import Argument, Hint, Use, parts_of
from sm.operations.list_operations import SEE_SESSIONS
from sm.operations.message_operations import SEND
from sm.operations.request_operations import APPROVE, DENY, LIST_REQUESTS
from sm.operations.session_operations import KILL, SPAWN, WAIT
from sm.telegram.commands import COMMANDS as BOT_COMMANDS
from sm.telegram.replies import in_chat, refusal
from tests.error_list import sites

ALL = tuple(TOOLS)
AT_DOORS = Path("tests/data/hints.json")
"""For each hint that has references: what the MCP server adds to it, and its words in a chat."""
AT_A_SHELL = ("cli", "web", "board", "feed", "client")
"""Rooms whose errors only a shell shows."""
NAMES = [
    value
    for module in pkgutil.iter_modules(operations.__path__)
    for value in vars(importlib.import_module(f"{operations.__name__}.{module.name}")).values()
    if isinstance(value, DoorNames)
]


@cache
def hints_of_daemon() -> frozenset[str]:
    return frozenset(hint for _, _, hint in sites(*AT_A_SHELL) if hint)


def test_every_hint_of_the_list_of_errors_has_its_words_at_each_door() -> None:
    shown = {
        str(hint): {"mcp": with_tools(hint, ALL).removeprefix(hint), "chat": in_chat(hint)}
        for hint in sorted(hints_of_daemon())
    }
    found = {hint: words for hint, words in shown.items() if words != {"mcp": "", "chat": hint}}
    assert found == json.loads(AT_DOORS.read_text())


def test_no_hint_of_the_daemon_names_an_operation_without_a_reference() -> None:
    verbs = {names.verb for names in NAMES if names.tool or names.chat}
    verbs |= BOT_COMMANDS.keys() & {name for _, name, _ in COMMANDS}
    bare = re.compile(rf"\bsm ({'|'.join(verbs)})\b|(?<!\S)--(working-dir|budget|model|preset|restart)\b")
    texts = [part for hint in hints_of_daemon() for part in parts_of(hint) if isinstance(part, str)]
    assert [text for text in texts if bare.search(text)] == []


@pytest.mark.parametrize(
    ("hint", "shell", "tools", "chat"),
    [
        (
            SEE_SESSIONS,
            "list sessions: sm all",
            "tool list_workspace_sessions",
            "list sessions: /list all",
        ),
        (
            Hint(Use(APPROVE, "r1"), ", or: ", Use(DENY, "r1")),
            "sm approve r1, or: sm deny r1",
            "tool answer_request",
            "/approve r1, or: /deny r1",
        ),
        (
            Hint(Use(SEND, "x", "TEXT"), "; or: ", Use(KILL, "x")),
            "sm send x TEXT; or: sm kill x",
            "tool send_message; tool control_session, action kill",
            "/send x TEXT; or: /kill x",
        ),
        (Hint(Use(SPAWN, "Engineer")), "sm spawn Engineer", "tool create_session", "/new Engineer"),
        (
            Hint(Use(KILL, "1a2b3c4d"), ", or add --force"),
            "sm kill 1a2b3c4d, or add --force",
            "tool control_session, action kill",
            "/kill 1a2b3c4d, or add --force",
        ),
        (
            Hint(Use(KILL, "--force", "1a2b3c4d")),
            "sm kill --force 1a2b3c4d",
            "tool control_session, action kill",
            "sm kill --force 1a2b3c4d",
        ),
        (
            Hint("add ", Argument("working_dir", "PATH")),
            "add --working-dir PATH",
            "argument working_dir",
            "add --working-dir PATH",
        ),
        ("sm attach 1a2b3c4d", "sm attach 1a2b3c4d", "", "sm attach 1a2b3c4d"),
        ("sm kill gives its agents", "sm kill gives its agents", "", "sm kill gives its agents"),
    ],
)
def test_hint_is_worded_for_its_readers(hint: str, shell: str, tools: str, chat: str) -> None:
    assert (str(hint), in_chat(hint)) == (shell, chat)
    assert with_tools(hint, ALL) == (f"{shell} [{tools}]" if tools else shell)


def test_hint_is_a_text_of_the_wire() -> None:
    assert json.dumps({"hint": Hint(Use(KILL, "x"))}) == '{"hint": "sm kill x"}'


def test_hint_in_a_hint_keeps_its_references() -> None:
    assert (
        in_chat(Hint("ask the operator: ", Hint(Use(KILL, "x")), "; or wait"))
        == "ask the operator: /kill x; or wait"
    )


def test_hint_names_no_tool_that_the_caller_has_not() -> None:
    hint = Hint(Use(KILL, "x"), "; or: ", Use(WAIT, "x"))
    assert with_tools(hint, ["wait_for_sessions"]) == "sm kill x; or: sm wait x [tool wait_for_sessions]"


def is_command(verb: str) -> bool:
    found: click.Command | None = sm
    for word in verb.split():
        found = found.get_command(click.Context(found), word) if isinstance(found, click.Group) else None
    return found is not None


def test_every_name_of_an_operation_exists() -> None:
    assert [names.verb for names in NAMES if names.command and not is_command(names.verb)] == []
    assert {names.tool for names in NAMES if names.tool} <= set(TOOLS)
    actions = TOOLS[control_session.__name__].input["properties"]["action"]["enum"]
    assert {names.tool_action for names in NAMES if names.tool_action} <= set(actions)
    assert {names.chat.split()[0] for names in NAMES if names.chat} <= BOT_COMMANDS.keys()


def test_operation_of_a_capability_has_the_names_with_which_the_kernel_refers_to_it() -> None:
    known = {
        names.verb: (names.tool, names.tool_action, names.chat) for names in NAMES if names.tool or names.chat
    }
    own = {o.verb: (o.tool, o.tool_action, o.chat) for o in capability_operations() if o.tool or o.chat}
    assert {verb: names for verb, names in own.items() if verb in known and names != known[verb]} == {}


def test_verb_of_a_command_ends_before_its_arguments() -> None:
    pair = Operation(
        "approve_user",
        "Pair a user.",
        "POST /v1/pairings/{id}",
        None,
        audience=EVERY_CALLER,
        command="pair approve ID",
    )
    pause = Operation(
        "pause_account",
        "Pause.",
        "POST /v1/accounts/{id}",
        None,
        audience=EVERY_CALLER,
        command="pause --account NAME",
    )
    assert (pair.verb, pause.verb) == ("pair approve", "pause")


def test_refusal_keeps_the_words_of_sm() -> None:
    assert refusal(UsageError("usage: /kill ID")) == "usage: /kill ID"
    error = NotFound("no such request: r7", Hint(Use(LIST_REQUESTS)))
    assert refusal(error) == "no such request: r7\nhint: /requests"
