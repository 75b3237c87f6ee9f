"""List every other session of my workspace.

\b
Example:
  sm others
"""

from sm.cli.display.sessions import flat
from sm.cli.session_list import list_command

command = list_command(__doc__, "/v1/others", flat, "nobody else")
