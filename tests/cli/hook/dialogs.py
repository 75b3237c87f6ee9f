"""The event of a permission dialog, and the answers of the daemon to the hook about it."""

import json
from typing import Any

from tests.cli.peer import answer

DIALOG = "POST /v1/hooks/dialog"
TAKEN = "POST /v1/hooks/dialog/taken"
EVENT: dict[str, Any] = {
    "session_id": "0b6f-uuid",
    "cwd": "/work",
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_input": {"command": "printf 'h\N{LATIN SMALL LETTER E WITH ACUTE}llo' \N{ROCKET}"},
}
RAW = json.dumps(EVENT).encode()
OUTPUT = '{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "n\xf6 \N{ROCKET}"}}}'
OPENED = answer({"request": "r57", "state": "open", "output": None})
DECIDED = answer({"request": "r57", "state": "decided", "output": OUTPUT})
OVER = answer({"request": "r57", "state": "over", "output": None})
