"""The names of operations of the kernel that have no declaration yet, for hints."""

from sm.operations import DoorNames
from sm.operations.hints import Hint, Use

LIST_AGENT_TYPES = DoorNames(command="agents", tool="list_agent_types")
LIST_ALL = DoorNames(command="all", tool="list_workspace_sessions", chat="list all")
RESUME = DoorNames(command="resume", tool="control_session", tool_action="resume")
"""Of the capability of pauses, for sessions that one is in the way of."""
SPAWN = DoorNames(command="spawn", tool="create_session", chat="new")
WAIT = DoorNames(command="wait", tool="wait_for_sessions")

SEE_SESSIONS = Hint("list sessions: ", Use(LIST_ALL))
