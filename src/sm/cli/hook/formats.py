"""Lists the providers whose hooks `sm hook` serves, and the fields of their events that the hook reads.

Every tool use loads this module, so it imports nothing. The daemon interprets the events.
"""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Mapping


class Format:
    """The form of one provider's hook events."""

    __slots__ = ("kept", "name_field", "opens_dialog")

    def __init__(self, name_field: str, opens_dialog: str, kept: "Mapping[str, int]") -> None:
        """`opens_dialog`: the name of the event after which the hook waits for an answer.

        `kept`: the fields kept of a large event, with the maximum number of characters of each text in them.
        """
        self.name_field = name_field
        self.opens_dialog = opens_dialog
        self.kept = kept


FORMATS = {
    "claude": Format(
        "hook_event_name",
        "PermissionRequest",
        dict.fromkeys(
            (
                "session_id", "transcript_path", "cwd", "prompt_id", "hook_event_name", "permission_mode", "agent_id",
                "agent_type", "source", "model", "reason", "tool_name", "tool_use_id", "notification_type", "message",
                "error", "background_tasks", "session_crons", "trigger", "stop_hook_active",
            ),
            4096,  # the longest path
        ) | {"prompt": 60_000, "last_assistant_message": 4000, "tool_input": 2000},
    ),
}  # fmt: skip
