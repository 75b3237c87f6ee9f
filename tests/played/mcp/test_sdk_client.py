"""The SDK's own client speaks Streamable HTTP with the daemon over a Unix socket, in both eras."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpcore2
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, McpSession
from tests.sim.blocking import drive
from tests.sim.network import played_network
from tests.sim.stage import Instance

instance = context_fixture("function", Instance, CONFIG)
ERAS = ("legacy", "auto", "2026-07-28")


@asynccontextmanager
async def connected(session: McpSession, mode: str) -> AsyncIterator[Client]:
    instance = session.instance
    with played_network(instance.world.board, session.process.pid, httpcore2):
        transport = httpx2.AsyncHTTPTransport(uds=str(instance.socket))
    async with (
        httpx2.AsyncClient(transport=transport, timeout=60) as http,
        Client(streamable_http_client("http://sm/v1/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def use(instance: Instance, mode: str, calls: Callable[[Client, McpSession], Awaitable[None]]) -> None:
    """Let the client of a session make the calls."""
    session = McpSession(instance)

    async def connect() -> None:
        async with connected(session, mode) as client:
            await calls(client, session)

    drive(instance.loop, connect())


@pytest.mark.parametrize("mode", ERAS)
def test_client_lists_and_calls_tools(instance: Instance, mode: str) -> None:
    async def calls(client: Client, session: McpSession) -> None:
        tools = await client.list_tools()
        assert "get_progress" in [tool.name for tool in tools.tools]
        result = await client.call_tool("get_progress", {})
        assert not result.is_error
        assert result.structured_content is not None
        assert result.structured_content["session_id"] == session.id

    use(instance, mode, calls)


@pytest.mark.parametrize("mode", ERAS)
def test_client_gets_errors_of_tools_and_of_arguments(instance: Instance, mode: str) -> None:
    async def calls(client: Client, session: McpSession) -> None:
        refused = await client.call_tool("get_progress", {"session_id": "0bad0bad"})
        assert refused.is_error and refused.structured_content is not None
        assert refused.structured_content["error"]["code"] == "not_found"
        wrong = await client.call_tool("get_progress", {"parent": "x"})
        assert wrong.is_error and wrong.structured_content is not None
        assert wrong.structured_content["error"]["path"] == "parent"
        assert "unknown argument: parent" in wrong.structured_content["error"]["message"]
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("no_such_tool", {})

    use(instance, mode, calls)


@pytest.mark.parametrize("mode", ERAS)
def test_every_result_matches_the_schema_of_its_tool(instance: Instance, mode: str) -> None:
    """The client checks each result against the output schema of the tool."""

    async def calls(client: Client, session: McpSession) -> None:
        values = {"title": "T", "agent_name": "Sleeper", "initial_message": "x"}
        child = (await client.call_tool("create_session", values)).structured_content
        assert child is not None
        child_id = child["session_id"]
        made: list[tuple[str, dict[str, object]]] = [
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
        for name, given in made:
            result = await client.call_tool(name, given)
            assert not result.is_error, (name, result)

    use(instance, mode, calls)
