"""List all sessions as a tree.

Archived sessions are hidden. An agent sees only sessions of its workspace.

\b
Examples:
  sm all
  sm all --status running
"""

from sm.cli.display.sessions import tree_rows
from sm.cli.session_list import list_command

command = list_command(__doc__, "/v1/sessions", tree_rows, "no sessions", has_status=True)
