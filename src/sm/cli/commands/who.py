"""List the other children of my parent.

From your shell: the sessions without a parent.

\b
Examples:
  sm who
"""

from sm.cli.display.sessions import flat_rows
from sm.cli.session_list import list_command

command = list_command(__doc__, "/v1/who", flat_rows, "no other sessions")
