"""Deny a permission, plan, question, completion or budget.

REQUEST is a request ID, such as r57; sm requests lists them. Instead, you can give a SESSION that has exactly one
open request.

MESSAGE tells the agent why, and what to do instead. The first answer wins. sm reject does the same.

If you deny more budget, its sessions stay paused. If you deny a dialog of an agent's start (kind setup), the agent is
ended.

If a person allowed a tool in the terminal just before, the tool runs. Then the command fails, or you get a notice
later.

\b
Exit codes:
  0  answered
  3  no such request or session
  4  the request is already closed, or the session has none, or several;
     or the agent did not act on the answer

\b
Examples:
  sm deny r57 'not in this directory: use /srv/shop/build'
"""

from sm.cli.verdicts import verdict_command

command = verdict_command(__doc__, approved=False, done="Denied")
