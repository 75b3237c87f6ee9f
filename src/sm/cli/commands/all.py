"""Show every session as a tree.

\b
Example:
  sm all --status running
"""

from sm.cli.display.sessions import tree
from sm.cli.session_list import list_command

command = list_command(__doc__, "/v1/sessions", tree, "no sessions", has_status=True)
