"""The command `sm`: its entry point and the list of its commands.

`sm hook` and `sm mcp` run for every tool use of every agent, so this module imports only what they need. Each command
is a module of `sm.cli.commands`, imported when it is called.
"""

import sys

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from typing import NoReturn

AGENTS = "Manage agents"
STATE = "See what agents do"
MESSAGES = "Talk to agents"
REPORTS = "Report from inside an agent"
SETUP = "Setup and administration"

COMMANDS = (
    (AGENTS, "spawn", "Start an agent in its own terminal."),
    (AGENTS, "attach", "Attach to an agent's terminal."),
    (AGENTS, "interrupt", "Interrupt agents (Escape). They stay alive."),
    (AGENTS, "kill", "End agents and every process they started."),
    (AGENTS, "restore", "Restart ended sessions and resume their conversations."),
    (AGENTS, "fork", "Start an agent from a copy of another agent's conversation."),
    (AGENTS, "adopt", "Manage an agent you started yourself in a tmux pane."),
    (AGENTS, "reparent", "Move a session under another parent."),
    (AGENTS, "rename", "Give a session another name."),
    (AGENTS, "diff", "Show what an agent changed since it began."),
    (AGENTS, "merge", "Merge the branch of an agent's worktree into your branch."),
    (AGENTS, "archive", "Hide ended sessions from lists."),
    (AGENTS, "unarchive", "Show archived sessions in lists again."),
    (AGENTS, "export", "Write the archive of an ended session to a file."),
    (AGENTS, "rm", "Delete ended sessions and their files."),
    (AGENTS, "prune", "Delete all ended sessions, or those of a certain age."),
    (AGENTS, "agents", "List the agent types that you can spawn."),
    (AGENTS, "accounts", "List the accounts of your agents, and why they are parked."),
    (AGENTS, "budget", "Show or change the budget of a session and those below it."),
    (AGENTS, "pause", "Pause agents: no new turn, and messages wait."),
    (AGENTS, "resume", "End the pause of agents, or an account's limit."),
    (AGENTS, "workspace", "Manage workspaces: teams of agents with a directory."),
    (STATE, "ls", "List agents: first those that need you."),
    (STATE, "seen", "Mark ended sessions as seen."),
    (STATE, "top", "Watch and direct agents in a full-screen view."),
    (STATE, "web", "Watch and direct agents in a browser, also on a phone."),
    (STATE, "all", "List all sessions as a tree."),
    (STATE, "children", "List the children of a session."),
    (STATE, "who", "List the other children of my parent."),
    (STATE, "others", "List the other sessions of my workspace."),
    (STATE, "me", "Show the session that runs this command."),
    (STATE, "status", "Show the state of the system, or of one session."),
    (STATE, "digest", "Show what happened while you were away."),
    (STATE, "progress", "Show a session's progress: tokens, cost, tools, activity."),
    (STATE, "usage", "Show tokens, cost and time of groups of sessions."),
    (STATE, "tail", "Show an agent's last actions, or follow new ones."),
    (STATE, "output", "Show the last lines of an agent's terminal."),
    (STATE, "events", "Show events, or follow new ones."),
    (STATE, "search", "Search prompts, messages, answers and output of agents."),
    (STATE, "checkpoints", "List the milestones that a session reported."),
    (STATE, "what", "Summarize a session in a few sentences."),
    (STATE, "why", "Explain a session's status, or who answered a request."),
    (STATE, "wait", "Wait until sessions complete or reach a status."),
    (MESSAGES, "send", "Send a message to agents."),
    (MESSAGES, "broadcast", "Send a message to all your agents."),
    (MESSAGES, "inbox", "Show the messages in your inbox."),
    (MESSAGES, "log", "Show sent messages and whether they arrived."),
    (MESSAGES, "requests", "List open requests, or show one in full."),
    (MESSAGES, "approve", "Approve a permission, plan, completion or more budget."),
    (MESSAGES, "deny", "Deny a permission, plan, question, completion or budget."),
    (MESSAGES, "reject", "Deny a request; the same as sm deny."),
    (MESSAGES, "answer", "Answer an agent's question."),
    (REPORTS, "checkpoint", "Report a milestone."),
    (REPORTS, "note", "Set a one-line note about the current work."),
    (REPORTS, "ask", "Ask the parent or the operator a question."),
    (REPORTS, "complete", "Report that the work is done, or why it failed."),
    (SETUP, "demo", "Run a demo: a small team of agents at work."),
    (SETUP, "doctor", "Check this machine for what sm needs."),
    (SETUP, "check", "Check that sm and an agent CLI still understand each other."),
    (SETUP, "provider", "Show the agent CLIs, and choose their versions."),
    (SETUP, "config", "Show, check or edit the configuration."),
    (SETUP, "sandbox", "Manage the containers of sandboxed agents, and their image."),
    (SETUP, "mcp", "Serve the tools of sm to an MCP client on stdin and stdout."),
    (SETUP, "telegram", "Show or test the bot of Telegram."),
    (SETUP, "pair", "Pair users of Telegram with this instance, or revoke them."),
    (SETUP, "trust", "Mark a directory as trusted for claude."),
    (SETUP, "daemon", "Start, stop and inspect the daemon."),
    (SETUP, "service", "Run the daemon as a systemd user service."),
    (SETUP, "uninstall", "Remove the daemon, the service and the state of sm."),
    (SETUP, "completion", "Print a shell completion script."),
    (SETUP, "version", "Show the version."),
    (SETUP, "help", "Show help for a command, or list all commands."),
)
"""(section, name, first line of help) in the order of `sm help --all`, which therefore imports no command."""

COMMON = frozenset(
    {
        *("spawn", "attach", "kill", "restore", "ls", "top", "status", "tail", "wait"),
        *("send", "requests", "approve", "deny", "answer", "demo", "doctor"),
    }
)
"""The commands that `sm --help` shows."""

INTERNAL = frozenset({"hook"})
"""Commands that only programs call. Help and completion omit them."""


def main() -> "NoReturn":
    import gc

    gc.disable()  # The imports leave no garbage: collecting would cost 1.5 ms.
    match sys.argv[1:]:
        case ["hook", provider, *options] if not provider.startswith("-") and set(options) <= {
            "--await-tools"
        }:
            _hook(provider, awaits_tools=bool(options))
        case ["mcp", *options] if set(options) <= {"--operator", "--verbose"}:
            _mcp("--verbose" in options)  # returns outside a session
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


def _hook(provider: str, *, awaits_tools: bool) -> "NoReturn":
    """Run `sm hook PROVIDER` without click, and always exit with 0.

    An agent CLI shows a failed hook to its user, and exit code 2 blocks the agent's next action.
    """
    import posix
    import time

    try:
        at_ns = time.time_ns()
        from sm.cli.hook.emit import emit

        emit(provider, at_ns, awaits_tools=awaits_tools)
    finally:
        posix._exit(0)  # `os` would cost 2 ms


def _mcp(verbose: bool) -> None:
    """Run `sm mcp` without click in a session. Every agent has such a process, for as long as it lives."""
    import posix

    socket_path = posix.environ.get(b"SM_SOCKET")
    if not (socket_path and posix.environ.get(b"SM_SESSION_ID")):
        return
    import gc

    from sm.cli.mcp.pump import serve

    gc.freeze()
    gc.enable()
    try:
        serve(socket_path, posix.environ.get(b"SM_TOKEN_FILE"), verbose=verbose)
    finally:
        posix._exit(0)


def _end(code: int) -> "NoReturn":
    """Exit without the interpreter's teardown, which takes 5 ms."""
    import os

    code = flush_stdout(code)
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    finally:
        os._exit(code)


def flush_stdout(code: int) -> int:
    """Write the rest of the output of a command that ended with `code`. Returns its final exit code."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if code == 0:  # else the error is already printed
            from sm.cli.display.errors import print_error

            code = print_error(error)
    return code
