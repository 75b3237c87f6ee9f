"""Refuse a proposed completion, a permission or a question.

REQUEST is one of `sm requests`, or a session with exactly one. MESSAGE is what the agent is told: why, and
what to do instead. The first answer wins.

\b
Example:
  sm reject r57 'the tests fail on main'
"""

from sm.cli.verdicts import verdict_command

command = verdict_command(__doc__, approved=False, done="Rejected")
