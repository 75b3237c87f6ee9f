"""Bring archived sessions back into sight.

With several IDs every one is tried; the JSON is then an array.

\b
Example:
  sm unarchive engineer-login
"""

from sm.cli.bulk import bulk_command
from sm.cli.display.sessions import label

command = bulk_command(__doc__, "unarchive", lambda session: f"Unarchived {label(session)}")
