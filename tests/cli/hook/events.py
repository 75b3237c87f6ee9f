"""Events of hooks, and the requests of the hook about them."""

import re
from typing import Any

HOOKS = "POST /v1/hooks"
EVENT: dict[str, Any] = {
    "session_id": "0b6f-uuid",
    "transcript_path": "/home/u/.claude/projects/x/0b6f.jsonl",
    "cwd": "/work",
    "hook_event_name": "PostToolUse",
    "permission_mode": "default",
    "tool_name": "Bash",
    "tool_input": {"command": "printf 'h\N{LATIN SMALL LETTER E WITH ACUTE}llo' \N{ROCKET}"},
    "tool_response": {"stdout": "\x1b[31mred", "interrupted": False},
    "duration_ms": 31,
}
STOP = b'{"hook_event_name": "Stop"}'
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
