"""The command `sm`: its entry point and the list of its commands.

`sm hook` and `sm mcp` run for every tool use of every agent, so this module imports only what they need. Each command
is a module of `sm.cli.commands`, imported when it is called.
"""

import sys

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from typing import NoReturn

AGENTS = "Start and stop agents"
MESSAGES = "Talk with them"
STATE = "See what they do"
REPORTS = "Report, from inside an agent"
DAEMON = "The daemon, its settings, and the rest"

COMMANDS = (
    (AGENTS, "spawn", "Start an agent in a terminal of its own."),
    (AGENTS, "kill", "End agents and everything they started."),
    (AGENTS, "interrupt", "Make agents leave off what they do."),
    (AGENTS, "attach", "Put an agent's terminal on yours."),
    (AGENTS, "restore", "Start ended sessions again, where they left off."),
    (AGENTS, "fork", "Start a second agent with all that another one knows."),
    (AGENTS, "adopt", "Make a session of an agent that runs in a tmux pane of yours."),
    (AGENTS, "reparent", "Give a session another parent, who is told of it from then on."),
    (AGENTS, "archive", "Put ended sessions out of sight."),
    (AGENTS, "unarchive", "Bring archived sessions back into sight."),
    (AGENTS, "rm", "Remove ended sessions for good, with all that they left."),
    (AGENTS, "workspace", "Make and change workspaces: teams, each with a directory."),
    (MESSAGES, "send", "Send a message to one or several agents."),
    (MESSAGES, "broadcast", "Send one message to all live children."),
    (MESSAGES, "inbox", "Show the messages that wait for you, oldest first."),
    (MESSAGES, "log", "Show the last messages, and what became of them."),
    (MESSAGES, "wait", "Wait until sessions have ended, or have come to another status."),
    (MESSAGES, "requests", "List the requests that wait for an answer, or show one in full."),
    (MESSAGES, "approve", "Grant a permission, or agree to a plan or a proposed completion."),
    (MESSAGES, "reject", "Refuse a proposed completion, a permission or a question."),
    (MESSAGES, "deny", "Refuse a permission, a question or a proposed completion."),
    (MESSAGES, "answer", "Answer a question that a session has asked."),
    (STATE, "children", "List the children of a session."),
    (STATE, "all", "Show every session as a tree."),
    (STATE, "status", "Show the whole system, or everything about one session."),
    (STATE, "why", "Show what a session's status rests on."),
    (STATE, "what", "Say in a few sentences what a session is about."),
    (STATE, "progress", "Show how far a session has come."),
    (STATE, "events", "Show or follow what happened."),
    (STATE, "tail", "Show the last things one session did."),
    (STATE, "output", "Show the last lines of a session's terminal."),
    (STATE, "checkpoints", "List the milestones a session reported."),
    (STATE, "me", "Show the session that this command runs in."),
    (STATE, "who", "List the other children of my parent."),
    (STATE, "others", "List every other session of my workspace."),
    (STATE, "agents", "List the agent types that can be spawned."),
    (REPORTS, "checkpoint", "Report a milestone to the parent."),
    (REPORTS, "note", "Say in one line what is being done now."),
    (REPORTS, "ask", "Ask the parent, or the operator, a question."),
    (REPORTS, "complete", "Report that the work is done, or why not."),
    (DAEMON, "daemon", "Start, stop and inspect the daemon."),
    (DAEMON, "config", "Show the configuration in effect."),
    (DAEMON, "doctor", "Check that everything needed is there."),
    (DAEMON, "trust", "Answer claude's question whether it may work in a directory."),
    (DAEMON, "demo", "Watch a small team of agents work, then clean up."),
    (DAEMON, "version", "Show the version."),
    (DAEMON, "completion", "Print the completion script for a shell."),
    (DAEMON, "hook", "Hand over an event of an agent; for its hooks, not for people."),
)
"""(section, name, first line of help), in the order of `sm --help`, which therefore imports no command."""


def main() -> "NoReturn":
    import gc

    gc.disable()  # The imports leave no garbage: collecting would cost 1.5 ms.
    if len(sys.argv) == 3 and sys.argv[1] == "hook" and not sys.argv[2].startswith("-"):
        _hook(sys.argv[2])
    try:
        from sm.cli.group import run

        gc.freeze()
        gc.enable()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    except SystemExit:
        raise  # only `sm daemon run` and `sm demo` end the process like this
    except BaseException as error:  # noqa: BLE001  no traceback may reach the user
        from sm.cli.display.errors import print_error

        code = print_error(error)
    _end(code)


def _hook(provider: str) -> "NoReturn":
    """Run `sm hook PROVIDER` without click, and always exit with 0.

    An agent CLI shows a failed hook to its user, and exit code 2 blocks the agent's next action.
    """
    import posix
    import time

    try:
        at_ns = time.time_ns()
        from sm.cli.hook.emit import emit

        emit(provider, at_ns)
    finally:
        posix._exit(0)  # `os` would cost 2 ms


def _end(code: int) -> "NoReturn":
    """Exit without the interpreter's teardown, which takes 5 ms."""
    import os

    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if code == 0:  # else the error is already printed
            from sm.cli.display.errors import print_error

            code = print_error(error)
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    finally:
        os._exit(code)
