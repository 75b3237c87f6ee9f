"""`sm others`: lists the other sessions of the caller's workspace."""

from sm.cli.session_list import SessionList, flat, list_command

command = list_command(
    SessionList(
        """List every other session of my workspace.

        \b
        Example:
          sm others
        """,
        "/v1/others",
        flat,
        "nobody else",
    )
)
