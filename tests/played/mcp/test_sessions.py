"""The tools that start and list sessions: a child gets parent, workspace and trust from its caller alone."""

from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, McpClient, McpSession
from tests.sim.stage import Instance, until

instance = context_fixture("function", Instance, CONFIG)


@pytest.fixture
def parent(instance: Instance) -> McpSession:
    return McpSession(instance, "--title", "The lead")


def created(client: McpClient, *, key: str | None = None, **more: object) -> dict[str, object]:
    values = {"title": "Backend API", "agent_name": "Sleeper", "initial_message": "write it", **more}
    return client.call("create_session", key=key, **values)


def test_create_session_starts_a_child_of_the_caller(instance: Instance, parent: McpSession) -> None:
    child = created(parent, name="api")
    session = instance.session(str(child["session_id"]))
    assert session["parent_session_id"] == parent.id == child["parent_session_id"]
    assert session["title"] == "Backend API"
    assert child["name"] == "sleeper-api"
    assert child["trust_level"] == "direct"
    assert child["tmux_session"] == session["tmux_session"]
    assert "end your turn" in str(child["next"])
    assert None not in child.values()


def test_create_session_gives_the_initial_message_to_the_agent(
    instance: Instance, parent: McpSession
) -> None:
    created(parent, agent_name="Sh", initial_message="echo hello > got; exec sleep 1000")
    got = parent.directory / "got"
    assert until(got.exists, "the agent runs its task") and got.read_text() == "hello\n"


def test_create_session_chooses_who_completes_the_child(instance: Instance, parent: McpSession) -> None:
    child = created(parent, lifecycle="supervised")
    session = instance.session(str(child["session_id"]))
    assert (session["mode"], session["mode_source"]) == ("supervised", "--lifecycle")


def test_create_session_limits_a_child_and_progress_shows_the_rest(
    instance: Instance, parent: McpSession
) -> None:
    child = created(parent, budget="usd=5,tokens=2M", restart="on-failure")
    session = instance.session(str(child["session_id"]))
    assert session["budget"]["limits"] == {"usd": 5, "tokens": 2_000_000, "minutes": None}
    assert session["restarts"]["max"] == 3
    assert parent.call("get_progress", session_id=child["session_id"])["budget"] == {
        "limits": {"usd": 5, "tokens": 2_000_000},
        "left": {"usd": 5, "tokens": 2_000_000},
        "state": "ok",
    }
    mate = McpSession(instance)
    assert "budget" not in mate.call("get_progress", session_id=child["session_id"])
    values = {"title": "T", "agent_name": "Sleeper", "initial_message": "x"}
    assert "usd='nan'" in parent.refused("create_session", **values, budget="usd=nan")["message"]


def test_create_session_with_one_key_makes_one_child(parent: McpSession) -> None:
    first = created(parent, key="one")
    assert created(parent, key="one")["session_id"] == first["session_id"]


@pytest.mark.parametrize(
    "name", ["parent", "parent_session_id", "workspace", "workspace_id", "trust_level", "env"]
)
def test_create_session_takes_no_identity_from_arguments(parent: McpSession, name: str) -> None:
    values = {"title": "T", "agent_name": "Sleeper", "initial_message": "x", name: "direct"}
    error = parent.refused("create_session", **values)
    assert (error["code"], error["path"]) == ("usage", name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", ""),
        ("title", "x" * 201),
        ("initial_message", ""),
        ("initial_message", "x" * 10_001),
        ("title", {}),
    ],
)
def test_create_session_refuses_values_outside_of_the_schema(
    parent: McpSession, name: str, value: object
) -> None:
    values: dict[str, Any] = {"title": "T", "agent_name": "Sleeper", "initial_message": "x", name: value}
    assert parent.refused("create_session", **values)["path"] == name


def test_create_session_takes_a_title_as_written_and_refuses_lines_and_controls(parent: McpSession) -> None:
    values = {"agent_name": "Sleeper", "initial_message": "x"}
    made = parent.call("create_session", title="<b>What's wrong? \N{EM DASH} 50%", **values)
    assert made["title"] == "<b>What's wrong? \N{EM DASH} 50%"
    assert parent.refused("create_session", title="a\tb", **values)["code"] == "usage"
    assert parent.refused("create_session", title="a\nb", **values)["code"] == "text_refused"


def test_create_session_takes_the_nearest_free_name_and_says_so(parent: McpSession) -> None:
    values = {"title": "T", "agent_name": "sleeper", "initial_message": "x"}
    first, second, third = (
        parent.call("create_session", name=name, **values) for name in ("a", "A", "\u65e5")
    )
    assert (first["name"], "warnings" in first) == ("sleeper-a", False)
    assert (second["name"], second["warnings"]) == (
        "sleeper-a-2",
        ["'A' cannot be its name: it has the name sleeper-a-2"],
    )
    assert third["warnings"] == ["'\u65e5' cannot be its name: it has no name"]


def test_create_session_of_the_operator_needs_a_directory(instance: Instance) -> None:
    instance.start_daemon()
    operator = McpClient(instance)
    values = {"title": "T", "agent_name": "Sleeper", "initial_message": "x"}
    error = operator.refused("create_session", **values)
    assert (error["code"], error["message"]) == (
        "usage",
        "no working directory given, and the caller has none",
    )
    assert error["hint"].endswith("[argument working_dir]")
    assert operator.call("create_session", working_dir=str(instance.work), **values)["session_id"]


def test_create_session_names_the_nearest_agent_type(parent: McpSession) -> None:
    error = parent.refused("create_session", title="T", agent_name="Sleper", initial_message="x")
    assert error["code"] == "unknown_agent_type"
    assert "Sleeper" in error["message"] + error["hint"]


def test_list_shows_the_live_sessions_of_the_team(instance: Instance, parent: McpSession) -> None:
    child = str(created(parent, title="Searched for")["session_id"])
    ended = instance.spawn("Sh", "exit 0")["session_id"]
    instance.ended(ended)
    listed = parent.call("list_workspace_sessions")
    ids = [s["session_id"] for s in listed["sessions"]]
    assert {parent.id, child} <= set(ids)
    assert ended not in ids
    assert listed["session_count"] == len(ids)
    (found,) = parent.call("list_workspace_sessions", search="searched")["sessions"]
    assert (found["title"], found["parent_session_id"], found["is_active"]) == (
        "Searched for",
        parent.id,
        True,
    )
    everything = parent.call("list_workspace_sessions", include_ended=True)["sessions"]
    (over,) = [s for s in everything if s["session_id"] == ended]
    assert (over["status"], over["is_active"]) == ("completed", False)


def test_progress_of_a_tree_contains_the_descendants(parent: McpSession) -> None:
    child = created(parent)["session_id"]
    tree = parent.call("get_progress", tree=True)["tree"]
    assert child in [shown["session_id"] for shown in tree]


def test_output_of_a_child_is_read_and_that_of_a_parent_is_not(
    instance: Instance, parent: McpSession
) -> None:
    child = McpSession(instance, "--parent", parent.id)
    assert isinstance(parent.call("read_session_output", session_id=child.id)["lines"], list)
    actions = parent.call("read_session_output", session_id=child.id, what="actions")["lines"]
    assert any("spawned" in line for line in actions)
    assert parent.call("read_session_output", session_id=child.id, what="summary")["lines"]
    assert child.refused("read_session_output", session_id=parent.id)["code"] == "not_permitted"


def test_unknown_session_is_not_found(parent: McpSession) -> None:
    assert parent.refused("get_progress", session_id="0bad0bad")["code"] == "not_found"


def test_control_session_kills_restores_and_archives_a_tree(instance: Instance, parent: McpSession) -> None:
    child = McpSession(instance, "--parent", parent.id)
    grandchild = str(created(child)["session_id"])
    killed = parent.call("control_session", session_id=child.id, action="kill", tree=True)["sessions"]
    assert {(s["session_id"], s["status"]) for s in killed} == {(child.id, "killed"), (grandchild, "killed")}
    restored = parent.call("control_session", session_id=child.id, action="restore")["sessions"]
    assert [s["session_id"] for s in restored] == [child.id]
    assert parent.refused("control_session", session_id=child.id, action="archive")["code"] == "illegal_state"
    archived = parent.call("control_session", session_id=grandchild, action="archive")["sessions"]
    assert archived[0]["archived"] is True
    interrupted = parent.call("control_session", session_id=child.id, action="interrupt")["sessions"]
    assert [s["session_id"] for s in interrupted] == [child.id]


def test_control_session_pauses_and_resumes_a_tree(instance: Instance, parent: McpSession) -> None:
    child = McpSession(instance, "--parent", parent.id)
    grandchild = str(created(child)["session_id"])
    both = {child.id, grandchild}
    paused = parent.call("control_session", session_id=child.id, action="pause", tree=True)["sessions"]
    assert {s["session_id"] for s in paused if s["paused"] == "paused"} == both
    assert instance.session(grandchild)["paused"] is not None
    resumed = parent.call("control_session", session_id=child.id, action="resume", tree=True)["sessions"]
    assert {s["session_id"] for s in resumed if "paused" not in s} == both
    assert instance.session(grandchild)["paused"] is None
    error = parent.refused("control_session", session_id=child.id, action="resume")
    assert error["code"] == "illegal_state"


def test_control_session_takes_no_tree_to_interrupt_and_archive(parent: McpSession) -> None:
    child = created(parent)["session_id"]  # one only: the parent has the most children that it may have
    for action in ("interrupt", "archive"):
        error = parent.refused("control_session", session_id=child, action=action, tree=True)
        assert error["code"] == "usage"


def test_control_session_is_refused_for_a_session_that_is_no_descendant(
    instance: Instance, parent: McpSession
) -> None:
    other = instance.spawn("Sleeper")["session_id"]
    assert parent.refused("control_session", session_id=other, action="kill")["code"] == "not_permitted"


def test_agent_types_show_the_time_of_finished_sessions(instance: Instance, parent: McpSession) -> None:
    ended = instance.spawn("Sh", "exit 0")["session_id"]
    instance.ended(ended)
    types = {kind["name"]: kind for kind in parent.call("list_agent_types")["agent_types"]}
    assert types["Sh"]["finished"] >= 1 and types["Sh"]["seconds_p50"] >= 0
    assert types["Engineer"]["description"] == "changes and tests code"
    assert "finished" not in types["Engineer"]
