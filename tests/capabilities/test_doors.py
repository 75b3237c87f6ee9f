"""The tool, the command in chats and the action in live views that the doors make of an operation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import SimpleNamespace
from typing import Annotated, Any, cast

import pytest

from sm.board import ActionInput, Target
from sm.board.operation_actions import operation_action
from sm.core.models import OPERATOR
from sm.kernel import OperationCall, UseCases
from sm.mcp.tool import ToolCall
from sm.mcp.tools.operation_tools import operation_tool
from sm.operations import Most, Operation
from sm.operations.access_rules import EVERY_CALLER
from sm.telegram.command_call import CommandCall
from sm.telegram.operation_commands import operation_command
from tests.board.samples import row


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Paint:
    """The arguments."""

    why: str
    """The reason, for people."""
    colour: Colour | None = None
    layers: Annotated[int, Most(9)] = 1
    again: bool = False
    words: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Painted:
    """The result."""

    session_id: str
    count: int
    dry: bool
    words: Sequence[str]
    parts: Mapping[str, int]


PAINT = Operation(
    "paint",
    "Paint a session.",
    "POST /v1/sessions/{ref}/paint",
    Painted,
    Paint,
    audience=EVERY_CALLER,
    command="paint SESSION --why WHY",
    done=lambda painted: f"Painted {painted.session_id}",
    tool="paint_session",
    chat="paint",
    key="P",
    title="Paint",
)


class Painting:
    """The use case: remembers its call."""

    def __init__(self) -> None:
        self.calls: list[OperationCall] = []
        self.use_cases = UseCases({PAINT: self.paint})
        self.authorizer: Any = SimpleNamespace(
            find=lambda caller, reference, action: SimpleNamespace(id=reference)
        )

    async def paint(self, call: OperationCall) -> Painted:
        self.calls.append(call)
        return Painted(call.target, 3, True, ["a"], {"b": 1})


def test_schema_of_a_tool_has_the_target_and_the_arguments_with_their_limits() -> None:
    tool = operation_tool(PAINT)
    words = 'Paint a session. Example: {"session_id": "1a2b3c4d", "why": "why"}'
    assert (tool.name, tool.description, tool.reads) == ("paint_session", words, False)
    assert tool.input["required"] == ["session_id", "why"]
    properties = tool.input["properties"]
    assert properties["why"]["description"] == "The reason, for people."
    assert properties["colour"] == {"type": "string", "enum": ["red", "blue"]}
    assert (properties["layers"]["type"], properties["layers"]["maximum"]) == ("integer", 9)
    assert (properties["again"], properties["words"]["items"]["type"]) == ({"type": "boolean"}, "string")
    assert {name: member["type"] for name, member in tool.output["properties"].items()} == {
        "session_id": "string",
        "count": "integer",
        "dry": "boolean",
        "words": "array",
        "parts": "object",
        "duration_ms": "number",
    }


async def _report(text: str) -> None:
    """Report no progress."""


async def test_tool_carries_out_the_use_case_as_its_caller() -> None:
    painting = Painting()
    exchange = SimpleNamespace(caller=OPERATOR, key=lambda action, values: None)
    values = {"session_id": "1a2b3c4d", "why": "it is old", "layers": 2}
    call = ToolCall("paint_session", cast(Any, exchange), values, _report, (), False)
    answer = await operation_tool(PAINT).handler(call, use_cases=painting.use_cases)
    assert answer == {"session_id": "1a2b3c4d", "count": 3, "dry": True, "words": ["a"], "parts": {"b": 1}}
    (done,) = painting.calls
    assert (done.caller, done.target, done.arguments) == (OPERATOR, "1a2b3c4d", Paint("it is old", layers=2))


@pytest.mark.parametrize("rest", ["1a2b3c4d it is old", "1a2b3c4d   it is old "])
async def test_command_of_a_chat_takes_the_target_and_one_text(rest: str) -> None:
    painting, command = Painting(), operation_command(PAINT)
    assert (command.usage, command.help) == ("ID [TEXT]", "paint a session")
    call = CommandCall(painting.authorizer, OPERATOR, cast(Any, None), cast(Any, None), 1, "paint", rest)
    assert (await command.run(call, use_cases=painting.use_cases)).text == "Painted 1a2b3c4d"
    assert painting.calls[0].arguments == Paint("it is old")


def test_action_of_views_asks_for_the_arguments_and_names_the_command() -> None:
    action = operation_action(PAINT)
    target, words = Target(row()), ActionInput(fields={"why": "it is old"})
    assert action.refusal(Target()) == "select a session"
    assert [(field.name, field.required) for field in action.fields][:2] == [("why", True), ("colour", False)]
    assert action.command_line(target, words) == "sm paint 1a2b3c4d --why 'it is old'"
    assert action.call is not None
    call = action.call(target, words)
    assert (call.path, call.body) == ("/v1/sessions/1a2b3c4d/paint", {"why": "it is old"})
