"""The tools with which a session reports about itself."""

from tests.fixtures import context_fixture
from tests.instance import Instance
from tests.mcp.mcp_client import CONFIG, McpClient, McpSession

instance = context_fixture("module", Instance, CONFIG)


def test_report_note_shows_in_the_progress_of_the_caller(instance: Instance) -> None:
    session = McpSession(instance)
    assert set(session.call("report_note", text="running the tests")) == {"timestamp"}
    assert session.call("get_progress")["current_activity"] == "running the tests"
    assert McpClient(instance.socket).call("get_progress", session_id=session.id)["current_activity"] == (
        '"running the tests"'
    )


def test_report_note_refuses_control_characters(instance: Instance) -> None:
    error = McpSession(instance).refused("report_note", text="a\x1b[201~b")
    assert error["code"] == "text_refused"
    assert "U+001B at position 2" in error["message"]


def test_report_with_the_same_key_is_made_once(instance: Instance) -> None:
    session = McpSession(instance)
    session.call("report_note", key="first", text="one")
    session.call("report_note", text="two")
    session.call("report_note", key="first", text="one")
    assert session.call("get_progress")["current_activity"] == "two"
    assert session.refused("report_note", key="first", text="other")["code"] == "usage"
