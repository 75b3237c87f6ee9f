"""The tabs of a session in live views: their contents, their keys, and the equivalent commands. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BoardTab:
    name: str
    title: str
    command: tuple[str, ...]
    """The equivalent `sm` command, without the session."""
    path: str = ""
    """Of the daemon, with `{id}` for the session, or empty if the tab shows nothing else of the daemon than rows."""
    query: Mapping[str, object] = field(default_factory=dict)
    for_session: bool = False
    """The session is the parameter `session` of the query."""
    follows: bool = False
    """New lines come at the end, which stays in sight."""

    def request(self, session_id: str) -> tuple[str, Mapping[str, object]]:
        """The path and query for a session."""
        chosen = {"session": session_id} if self.for_session else {}
        return self.path.format(id=session_id), {**self.query, **chosen, "seen": True}

    def command_for(self, session_id: str) -> Sequence[str]:
        return ("sm", *self.command, session_id)


TABS: Sequence[BoardTab] = (
    BoardTab("overview", "Overview", ("status",)),
    BoardTab("output", "Terminal", ("output",), "/v1/sessions/{id}/screen/stream", follows=True),
    BoardTab(
        "conversation",
        "Conversation",
        ("tail", "-n", "500"),
        "/v1/sessions/{id}/actions",
        {"lines": 500},
        follows=True,
    ),
    BoardTab("messages", "Messages", ("log",), "/v1/messages", {"limit": 200}, for_session=True),
    BoardTab(
        "events", "Events", ("events", "--limit", "200"), "/v1/events", {"limit": 200}, True, follows=True
    ),
    BoardTab("why", "Why", ("why",), "/v1/sessions/{id}/why"),
    BoardTab(
        "requests", "Requests", ("requests", "--all"), "/v1/requests", {"all": True, "limit": 100}, True
    ),
    BoardTab("children", "Children", ("children", "--recursive")),
    BoardTab("changes", "Changes", ("diff",)),
)
"""In the order of the keys 1 to 9."""


class Jump(StrEnum):
    """Where a key of the tab with the changes leads."""

    PREVIOUS_FILE = "previous file"
    NEXT_FILE = "next file"
    PREVIOUS_HUNK = "previous hunk"
    NEXT_HUNK = "next hunk"


CHANGES_KEYS: Mapping[str, Jump] = {
    "<": Jump.PREVIOUS_FILE,
    ">": Jump.NEXT_FILE,
    "{": Jump.PREVIOUS_HUNK,
    "}": Jump.NEXT_HUNK,
}
"""The keys that the tab with the changes has besides those of every tab. No action on a session has one of them."""

EVENT_GROUPS: Mapping[str, Sequence[str]] = {
    "All events": (),
    "Starts and ends": ("spawned", "started", "completed", "error", "abandoned", "killed", "reopened"),
    "Status": ("running", "idle", "waiting_input"),
    "Reports": ("checkpoint", "note", "proposed_completion"),
    "Messages": ("message", "request"),
    "Warnings": ("warning", "archived"),
}
"""The types of the events feed, by the title of their group. The first one has all."""
