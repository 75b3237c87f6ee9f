"""`sm who`: lists the siblings of the caller."""

from sm.cli.session_list import SessionList, flat, list_command

command = list_command(
    SessionList(
        """List the other children of my parent.

        For a person: the sessions without a parent.

        \b
        Example:
          sm who
        """,
        "/v1/who",
        flat,
        "nobody else",
    )
)
