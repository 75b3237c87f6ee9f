"""Show archived sessions in lists again.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
With several sessions, the JSON is an array.

\b
Examples:
  sm unarchive engineer-login
"""

from sm.cli.bulk import bulk_command
from sm.cli.options import archived_sessions
from sm.core.session_lines import label

command = bulk_command(
    __doc__, "unarchive", lambda session: f"Unarchived {label(session)}", archived_sessions
)
