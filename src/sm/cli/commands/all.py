"""`sm all`: lists all sessions as a tree."""

from sm.cli.display.sessions import tree
from sm.cli.session_list import SessionList, list_command

command = list_command(
    SessionList(
        """Show every session as a tree.

        \b
        Example:
          sm all --status running
        """,
        "/v1/sessions",
        tree,
        "no sessions",
        has_status=True,
    )
)
