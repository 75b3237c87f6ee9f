"""List the children of a session.

Without ID your own: in an agent its children, for a person the sessions that nobody else started.

\b
Example:
  sm children engineer-login --recursive
"""

from sm.cli.display.sessions import nested
from sm.cli.session_list import list_command

command = list_command(__doc__, "/children", nested, "no children", has_status=True, of_session=True)
