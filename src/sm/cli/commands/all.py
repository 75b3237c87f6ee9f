"""List all sessions as a tree.

Archived sessions are hidden. Sessions that ended more than a day ago are listed only up to 20 rows; --limit all lists
all of them. An agent sees only sessions of its workspace.

\b
Examples:
  sm all
  sm all --status running
  sm all --limit all
"""

from sm.cli.display.sessions import tree_rows
from sm.cli.session_list import list_command

command = list_command(__doc__, "/v1/sessions", tree_rows, "no sessions", has_status=True)
