"""List the children of a session.

Without SESSION: an agent's own children; from your shell, the sessions without a parent.

\b
Examples:
  sm children engineer-login --recursive
"""

from sm.cli.display.sessions import tree_rows
from sm.cli.session_list import list_command

command = list_command(__doc__, "/children", tree_rows, "no children", has_status=True, of_session=True)
