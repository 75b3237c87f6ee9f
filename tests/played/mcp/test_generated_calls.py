"""Generated arguments never cause an internal error, and the next call is answered."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sm.mcp.tool import Tool
from sm.mcp.tools import TOOLS
from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, McpSession
from tests.sim.stage import Instance

EXAMPLES = 12
LIMITS = "limits: {spawn_interval_s: 0, max_children: 4, reports_per_minute: 100000, messages_per_minute: 100000}\n"
instance = context_fixture("function", Instance, CONFIG.partition("limits:")[0] + LIMITS)
FIXED = {"timeout_s": st.just(1), "wait_s": st.just(0)}
"""Arguments that would only make the test slow."""
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    st.sampled_from(
        ["\x00", "\x1b[201~", "\u202eevil", "a" * 300, "me", "r1", "-", "../x", "[sm] from operator"]
    ),
    st.lists(st.text(alphabet="ab\x00", max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@pytest.fixture
def session(instance: Instance) -> McpSession:
    return McpSession(instance)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schema allows, or nearly."""
    match schema:
        case {"enum": options}:
            return st.sampled_from(options)
        case {"type": "string"}:
            return st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
        case {"type": "integer", "minimum": least, "maximum": most}:
            return st.integers(least, most)
        case {"type": "integer"}:
            return st.integers()
        case {"type": "array", "items": item}:
            return st.lists(fitting(item), max_size=2)
        case {"type": "boolean"}:
            return st.booleans()
        case _:
            return st.dictionaries(st.text(max_size=3), ODD, max_size=2)


def values(tool: Tool) -> st.SearchStrategy[dict[str, Any]]:
    properties = tool.input["properties"]
    valid = {name: FIXED.get(name, fitting(schema)) for name, schema in properties.items()}
    needed = {name: valid[name] for name in tool.input.get("required", ())}
    near = st.fixed_dictionaries(needed, optional={n: v for n, v in valid.items() if n not in needed})
    odd = st.dictionaries(st.sampled_from([*properties, "parent", "workspace_id"]), ODD, max_size=3)
    return st.one_of(near, odd, st.tuples(near, odd).map(lambda both: {**both[0], **both[1]}))


@pytest.mark.parametrize(
    "tool", [t for t in TOOLS.values() if t.name != "complete_session"], ids=lambda t: t.name
)
def test_generated_arguments_cause_no_internal_error(
    tool: Tool, instance: Instance, session: McpSession
) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(values(tool))
    def call(given: dict[str, Any]) -> None:
        answer = session.request("tools/call", {"name": tool.name, "arguments": given})
        if "error" in answer:
            assert answer["error"]["code"] == -32602
        else:
            shown = answer["result"]["structuredContent"]
            assert shown.get("error", {}).get("code") not in ("bug", "error"), shown

    call()
    assert session.client().request("ping")["result"] == {}
