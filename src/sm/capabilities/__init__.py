"""Optional functions of sm, each with its tables, settings and operations. The kernel names none of them."""

CAPABILITIES: tuple[str, ...] = (
    "accounts",
    "archives",
    "budgets",
    "completion",
    "digest",
    "files",
    "pairing",
    "pauses",
    "pull_requests",
    "restarts",
    "reviews",
    "search",
    "usage",
    "warnings",
    "worktrees",
)
"""The packages of this room that sm has. Without one of them, everything else works."""
