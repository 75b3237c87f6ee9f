"""List the other children of my parent.

For a person: the sessions without a parent.

\b
Example:
  sm who
"""

from sm.cli.display.sessions import flat
from sm.cli.session_list import list_command

command = list_command(__doc__, "/v1/who", flat, "nobody else")
