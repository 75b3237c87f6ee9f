"""Refuse a permission, a question or a proposed completion.

The same as reject. REQUEST is one of `sm requests`, or a session with exactly one. MESSAGE is what the agent is
told: why, and what to do instead. The first answer wins.

\b
Example:
  sm deny r57 'not in this directory: use /srv/shop/build'
"""

from sm.cli.verdicts import verdict_command

command = verdict_command(__doc__, approved=False, done="Denied")
