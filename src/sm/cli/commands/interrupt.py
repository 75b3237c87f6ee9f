"""Interrupt agents (Escape). They stay alive.

Presses the interrupt key once in each agent's terminal. A coding agent gets Escape: it stops its current work and
waits for input. Escape also denies an open permission dialog. Any other program gets Ctrl-C, which may end it. An
agent that waits at a start-up dialog is not interrupted, because the key would end the agent.

A suspended coding agent (Ctrl-Z) is continued, and gets no key. If a shell or an editor has the agent's terminal, the
command fails, because the key would go to that program.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
With several sessions, the JSON is an array.

\b
Examples:
  sm interrupt engineer-login
"""

from sm.cli.bulk import bulk_command
from sm.cli.options import running_sessions
from sm.core.lines import JsonObject
from sm.core.session_lines import label


def _interrupted(session: JsonObject) -> str:
    if session["continued"]:
        return f"Continued {label(session)}: it was suspended"
    match session["interrupted"]:
        case True:
            return f"Interrupted {label(session)}"
        case False:
            return f"Interrupt sent to {label(session)}; it is still running"
        case _:
            return f"Interrupt sent to {label(session)}"


command = bulk_command(__doc__, "interrupt", _interrupted, running_sessions)
