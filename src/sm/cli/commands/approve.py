"""Grant a permission, or agree to a plan or a proposed completion.

REQUEST is one of `sm requests` (`sm requests r57` shows exactly what is asked), or a session with exactly one. The
agent goes on at once; MESSAGE is sent to it after that. The first answer wins.

\b
Example:
  sm approve r57
"""

from sm.cli.verdicts import verdict_command

command = verdict_command(__doc__, approved=True, done="Approved")
