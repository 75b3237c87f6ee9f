"""Limits on forks, and on agents that a person started in a pane."""

from tests.fixtures import context_fixture
from tests.instance import Instance, until
from tests.integration.ended_agents import gone
from tests.integration.test_restore import CONVERSATION, User, column

room = context_fixture("function", Instance, "limits: {max_per_workspace: 3}")
slow = context_fixture("function", Instance, "limits: {spawn_interval_s: 600}")


def test_full_workspace_refuses_adopt_and_fork(room: Instance) -> None:
    user = User(room)
    pane = user.open_pane("mine")
    pid = user.start_claude(pane)
    talking = room.spawn("general-purpose", "do it")["session_id"]
    until(lambda: column(room, "conversation", talking) == CONVERSATION, "its conversation is known")
    last = room.spawn("Sleeper")["session_id"]
    full = "3 agent processes already run outside of workspaces, at most 3 are allowed"
    for command in (["adopt", pane], ["fork", talking]):
        assert full in room.refused(*command, exit_code=6)
    assert len(room.json("all")) == 3
    assert not gone(pid)
    room.sm("kill", last, "--force")
    assert room.json("adopt", pane)["pid"] == pid
    assert full in room.refused("fork", talking, exit_code=6)


def test_fork_of_a_child_counts_as_a_child(slow: Instance) -> None:
    user = User(slow)
    parent = slow.spawn("Sleeper")["session_id"]
    child = slow.spawn("general-purpose", "do it", "--parent", parent)["session_id"]
    until(lambda: column(slow, "conversation", child) == CONVERSATION, "its conversation is known")
    error = slow.refused("fork", child, exit_code=6, env=slow.as_session(parent))
    assert "one child every 600 seconds" in error
    assert slow.json("fork", child)["parent_session_id"] == parent
    until(lambda: len(user.claude_pids()) == 2, "both agents run")
