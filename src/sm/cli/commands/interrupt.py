"""Make agents leave off what they do.

As if you pressed the key for it in their terminal, once: Escape for an agent with turns, which then waits for what
you tell it, and which takes it for a No where it asks for permission; Ctrl-C for a program, which may end by it. An
agent that something on its screen keeps from starting is left alone. With several IDs every one is tried; the JSON
is then an array.

\b
Example:
  sm interrupt engineer-login
"""

from sm.cli.bulk import bulk_command
from sm.cli.display.sessions import label
from sm.cli.display.text import JsonObject


def _interrupted(session: JsonObject) -> str:
    match session["interrupted"]:
        case True:
            return f"Interrupted {label(session)}"
        case False:
            return f"Interrupt sent to {label(session)}; it is still running"
        case _:
            return f"Interrupt sent to {label(session)}"


command = bulk_command(__doc__, "interrupt", _interrupted)
