"""The descriptions of tools: their examples are valid, and together they cost few tokens."""

import json

import orjson
import pytest
from jsonschema import Draft202012Validator

from sm.mcp.schemas import ArgumentCheck
from sm.mcp.sdk import INSTRUCTIONS
from sm.mcp.tool import Tool
from sm.mcp.tools import TOOLS
from tests.mcp_reference import DOCUMENT, document

BYTES_MAX = 12_200


def example(tool: Tool) -> object:
    return json.loads(tool.description.partition("Example: ")[2])


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_example_of_a_tool_matches_its_schema(tool: Tool) -> None:
    Draft202012Validator.check_schema(tool.input)
    Draft202012Validator.check_schema(tool.output)
    shown = example(tool)
    assert isinstance(shown, dict)
    ArgumentCheck(tool.input).check(shown)
    assert tool.input["additionalProperties"] is False
    assert tool.listed()["annotations"]["openWorldHint"] is False


def test_descriptions_of_all_tools_are_short() -> None:
    assert len(orjson.dumps([tool.listed() for tool in TOOLS.values()])) <= BYTES_MAX
    assert len(INSTRUCTIONS) <= 600


def test_reference_of_the_tools_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run: python -m tests.mcp_reference"
