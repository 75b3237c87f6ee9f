"""Approve a permission, plan, completion or more budget.

REQUEST is a request ID, such as r57; sm requests lists them. Instead, you can give a SESSION that has exactly one
open request. To see exactly what the agent asks for, run sm requests r57.

If you approve a permission or a plan, the agent continues and gets MESSAGE. If you approve a completion, the session
ends. If you approve more budget, as much again is added, or the amounts in MESSAGE, and its sessions go on. If you
approve a dialog of an agent's start (kind setup), sm stores your answer for claude and presses the keys in the dialog,
and the agent starts. The first answer wins.

\b
Exit codes:
  0  answered
  3  no such request or session
  4  the request is already closed, or the session has none, or several;
     or the agent did not act on the answer
  5  an agent may not answer a dialog of an agent's start

\b
Examples:
  sm approve r57
  sm approve engineer-login 'but keep the old API'
  sm approve r58 usd=2,minutes=30
"""

from sm.cli.verdicts import verdict_command

command = verdict_command(__doc__, approved=True, done="Approved")
