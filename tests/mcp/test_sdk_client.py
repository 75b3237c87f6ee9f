"""The SDK's own client speaks Streamable HTTP with the daemon over a Unix socket, in both eras."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.fixtures import context_fixture
from tests.instance import Instance
from tests.load import scaled
from tests.mcp.mcp_client import CONFIG, McpSession

instance = context_fixture("module", Instance, CONFIG)
ERAS = ("legacy", "auto", "2026-07-28")


@pytest.fixture(scope="module")
def session(instance: Instance) -> McpSession:
    return McpSession(instance)


@asynccontextmanager
async def connected(session: McpSession, mode: str) -> AsyncIterator[Client]:
    transport = httpx2.AsyncHTTPTransport(uds=session.path)
    async with (
        httpx2.AsyncClient(transport=transport, timeout=scaled(60)) as http,
        Client(streamable_http_client("http://sm/v1/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ERAS)
async def test_client_lists_and_calls_tools(session: McpSession, mode: str) -> None:
    async with connected(session, mode) as client:
        tools = await client.list_tools()
        assert "get_progress" in [tool.name for tool in tools.tools]
        result = await client.call_tool("get_progress", {})
        assert not result.is_error
        assert result.structured_content is not None
        assert result.structured_content["session_id"] == session.id


@pytest.mark.parametrize("mode", ERAS)
async def test_client_gets_errors_of_tools_and_of_arguments(session: McpSession, mode: str) -> None:
    async with connected(session, mode) as client:
        refused = await client.call_tool("get_progress", {"session_id": "0bad0bad"})
        assert refused.is_error and refused.structured_content is not None
        assert refused.structured_content["error"]["code"] == "not_found"
        with pytest.raises(MCPError, match="unknown argument: parent"):
            await client.call_tool("get_progress", {"parent": "x"})


@pytest.mark.parametrize("mode", ERAS)
async def test_every_result_matches_the_schema_of_its_tool(session: McpSession, mode: str) -> None:
    """The client checks each result against the output schema of the tool."""
    async with connected(session, mode) as client:
        values = {"title": "T", "agent_name": "Sleeper", "initial_message": "x"}
        child = (await client.call_tool("create_session", values)).structured_content
        assert child is not None
        child_id = child["session_id"]
        calls: list[tuple[str, dict[str, object]]] = [
            ("list_workspace_sessions", {}),
            ("get_progress", {"tree": True, "output_lines": 5}),
            ("read_session_output", {"session_id": child_id}),
            ("send_message", {"session_id": child_id, "message": "x", "wait_s": 0}),
            ("broadcast", {"message": "x"}),
            ("wait_for_sessions", {"timeout_s": 1}),
            ("report_checkpoint", {"message": "x", "metadata": {"a": 1}}),
            ("report_note", {"text": "x"}),
            ("ask", {"question": "x?"}),
            ("list_requests", {}),
            ("list_agent_types", {}),
            ("control_session", {"session_id": child_id, "action": "kill"}),
        ]
        for name, given in calls:
            result = await client.call_tool(name, given)
            assert not result.is_error, (name, result)
