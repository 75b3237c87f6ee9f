"""Builds the claude settings of one session: hooks and allowed commands. Pure."""

import shlex
from collections.abc import Mapping, Sequence

from sm.core.programs import OWN_SERVER
from sm.providers.base import GrantedCapabilities
from sm.providers.claude.hooks import EVENTS

HOOK_TIMEOUT_S = 5
"""claude continues without the hook after this time; `sm hook` takes at most about one second."""

TOOLS_TIMEOUT_S = 15
"""Timeout of the hook that holds the first turn until the agent has the tools of sm; `sm hook` takes at most 9 s."""

DIALOG_TIMEOUT_S = 2_147_483
"""Timeout of a hook for an open dialog, which does not block claude: the maximum (2^31 ms; measured). With a larger
value claude does not run the hook at all."""

_BEGINS_TURN = "UserPromptSubmit"

UNASKED = (
    "note", "checkpoint", "complete", "ask", "me", "who", "others", "children", "progress", "inbox", "requests",
    "status", "wait", "send", "answer", "log", "output", "tail", "why", "events", "checkpoints", "agents", "help",
)  # fmt: skip
"""The sm commands that agents may run without permission: they only report, read or send messages.

None of them starts or ends an agent or grants a permission. `policy.relations` limits their targets, also
those of an urgent message.
"""

UNASKED_TOOLS = (
    "report_note", "report_checkpoint", "complete_session", "ask", "list_workspace_sessions", "get_progress",
    "wait_for_sessions", "list_requests", "send_message", "read_session_output", "list_agent_types",
)  # fmt: skip
"""The tools of the MCP server of sm that agents may call without permission, for the same reason."""


def session_settings(
    sm: str, reads: Sequence[str], given: GrantedCapabilities, mode: str | None = None
) -> Mapping[str, object]:
    """Settings that add a hook for each of EVENTS and allow UNASKED, in addition to the user's settings.

    The hook exits with 0 even while `sm` is being replaced, and prints only the answer to a dialog, because claude
    shows other output to the agent. `Bash(sm note:*)` allows neither `sm note x; rm y` nor `sm note "$(rm y)"` nor
    another program of that name by its path (measured: `tests/integration/test_claude_start.py`). Deny and ask rules of
    the user win. UNASKED_TOOLS are allowed for an agent with the server of sm.

    The first request of a conversation is sent as soon as the hook of its prompt has ended, also without the tools of
    an MCP server that has not listed them (measured: 2.1.197 and 2.1.332). So that hook waits for those of sm.

    `reads`: absolute paths of files outside the working directory (the task, and `**` below the directory of files)
    that claude would otherwise ask to read (measured).

    `mode`: a `permissions.defaultMode` for this process.

    `given`: servers and skills that claude must ignore (measured: ADR 6). Without `disabledMcpjsonServers` claude asks
    about each unapproved server of a `.mcp.json`, even if `--mcp-config` has the same name and with
    `--strict-mcp-config`. That list overrides approvals and does not affect `--mcp-config`. `--disable-slash-commands`
    would also disable `/compact`.
    """
    allowed = [f"Bash(sm {name}:*)" for name in UNASKED]
    if given.own_server:
        allowed += (f"mcp__{OWN_SERVER}__{name}" for name in UNASKED_TOOLS)
    allowed += (f"Read(/{path})" for path in reads)
    settings: dict[str, object] = {
        "hooks": _hooks(sm, given),
        "permissions": {
            "allow": allowed,
            **({} if given.skills else {"deny": ["Skill"]}),
            **({} if mode is None else {"defaultMode": mode}),
        },
    }
    if given.mcps_off:
        settings["disabledMcpjsonServers"] = given.mcps_off
    if given.skills_off:
        settings["skillOverrides"] = dict.fromkeys(given.skills_off, "off")
    if not given.own_skills:
        settings["disableBundledSkills"] = True
    return settings


def _hooks(sm: str, given: GrantedCapabilities) -> Mapping[str, object]:
    timeouts_s = dict.fromkeys(EVENTS, HOOK_TIMEOUT_S) | {"PermissionRequest": DIALOG_TIMEOUT_S}
    commands = dict.fromkeys(EVENTS, f"{shlex.quote(sm)} hook claude")
    if given.own_server:
        timeouts_s[_BEGINS_TURN] = TOOLS_TIMEOUT_S
        commands[_BEGINS_TURN] += " --await-tools"
    return {
        event: [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": f"{command} 2>/dev/null || :",
                        "timeout": timeouts_s[event],
                    }
                ]
            }
        ]
        for event, command in commands.items()
    }
