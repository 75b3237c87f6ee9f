"""Deny a request; the same as sm deny.

REQUEST is a request ID, such as r57; sm requests lists them. Instead, you can give a SESSION that has exactly one
open request.

MESSAGE tells the agent why, and what to do instead. The first answer wins.

\b
Exit codes:
  0  answered
  3  no such request or session
  4  the request is already closed, or the session has none, or several

\b
Examples:
  sm reject r57 'the tests fail on main'
"""

from sm.cli.verdicts import verdict_command

command = verdict_command(__doc__, approved=False, done="Denied")
