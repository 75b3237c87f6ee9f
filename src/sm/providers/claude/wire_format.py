"""The forms of claude's messages to `sm hook` and `sm mcp`.

Every tool use loads this module, so it imports nothing else. The daemon interprets the events.
"""

from sm.registry import HookFormat

TOOL_USE_META = "claudecode/toolUseId"
"""The member of `_meta` with which claude names its tool use. It has no time limit for a call over stdio."""
HOOK = HookFormat(
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
)  # fmt: skip
