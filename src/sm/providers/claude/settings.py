"""The settings that sm adds to a claude for one session: hooks, and what it allows without a question. Pure."""

import shlex
from collections.abc import Mapping

from sm.providers.base import GrantedCapabilities
from sm.providers.claude.hooks import EVENTS

HOOK_TIMEOUT_S = 5
"""After which claude goes on without the hook; `sm hook` takes at most about one."""

DIALOG_TIMEOUT_S = 2_147_483
"""The same beside an open dialog, where claude waits for nothing: the most that it takes (2^31 ms; measured). With more
it does not run the hook at all."""

UNASKED = (
    "note", "checkpoint", "complete", "ask", "me", "who", "others", "children", "progress", "inbox", "requests",
    "status", "wait", "send", "answer", "log", "output", "tail", "why", "events", "checkpoints", "agents",
)  # fmt: skip
"""The commands of sm that report, read or talk, for which no agent has to ask permission.

What each may see and say is for `policy.py`, also whom it may send an urgent message. None starts or ends anything or
grants a permission.
"""


def session_settings(sm: str, reads: str | None, given: GrantedCapabilities) -> Mapping[str, object]:
    """Settings of claude that add a hook to each of EVENTS and allow UNASKED, beside the user's own.

    The hook ends with 0 even while `sm` is being replaced, and says nothing but the answer to a dialog: anything else
    claude shows to the agent.
    `Bash(sm note:*)` allows neither `sm note x; rm y` nor `sm note "$(rm y)"` nor another program of that name by
    its path (measured: `tests/integration/test_claude_start.py`); a rule of the user's that denies or asks wins.

    `reads`: a file outside the working directory, by its absolute path. claude would ask before it reads that
    (measured), and an agent that asks whether it may see its task has a poor start.

    `given`: what claude finds by itself and is to leave alone (all measured: ADR 6). Without `disabledMcpjsonServers`
    it asks a person about each server of a `.mcp.json` that nobody has approved, also when `--mcp-config` has one of
    that name, also with `--strict-mcp-config`; that list wins over every approval, and does not touch what
    `--mcp-config` gives. `--disable-slash-commands` would take `/compact` away with the skills.
    """
    command = f"{shlex.quote(sm)} hook claude 2>/dev/null || :"
    timeouts_s = dict.fromkeys(EVENTS, HOOK_TIMEOUT_S) | {"PermissionRequest": DIALOG_TIMEOUT_S}
    allowed = [f"Bash(sm {each}:*)" for each in UNASKED]
    if reads is not None:
        allowed.append(f"Read(/{reads})")
    settings: dict[str, object] = {
        "hooks": {
            event: [{"hooks": [{"type": "command", "command": command, "timeout": timeout_s}]}]
            for event, timeout_s in timeouts_s.items()
        },
        "permissions": {"allow": allowed, **({} if given.skills else {"deny": ["Skill"]})},
        # A key (left) at its empty prompt would hand the session, as who it is, to a daemon of claude's own.
        "disableAgentView": True,
    }
    if given.mcps_off:
        settings["disabledMcpjsonServers"] = given.mcps_off
    if given.skills_off:
        settings["skillOverrides"] = dict.fromkeys(given.skills_off, "off")
    if not given.own_skills:
        settings["disableBundledSkills"] = True
    return settings
