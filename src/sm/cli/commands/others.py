"""List the other sessions of my workspace.

From your shell: all sessions.

\b
Examples:
  sm others
"""

from sm.cli.display.sessions import flat_rows
from sm.cli.session_list import list_command

command = list_command(__doc__, "/v1/others", flat_rows, "no other sessions")
