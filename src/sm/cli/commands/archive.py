"""Hide ended sessions from lists.

Lists show archived sessions only with --archived. sm unarchive reverses this.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
With several sessions, the JSON is an array.

\b
Examples:
  sm archive engineer-login
"""

from sm.cli.bulk import bulk_command
from sm.cli.options import visible_ended_sessions
from sm.core.session_lines import label

command = bulk_command(
    __doc__, "archive", lambda session: f"Archived {label(session)}", visible_ended_sessions
)
