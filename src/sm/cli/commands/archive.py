"""Put ended sessions out of sight.

They stay readable with --archived; sm unarchive brings them back. With several IDs every one is
tried; the JSON is then an array.

\b
Example:
  sm archive engineer-login
"""

from sm.cli.bulk import bulk_command
from sm.cli.display.sessions import label

command = bulk_command(__doc__, "archive", lambda session: f"Archived {label(session)}")
